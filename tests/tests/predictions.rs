//! What would happen to probes, said before any came: by `doctor --no-observe`, and by `doctor` where none was seen.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    process::{Command, Output},
};

use nix::unistd::{Gid, Uid, setgid, setuid};
use nvaprobe_tests::{
    observe::{EVERY, PORT, misrouted},
    process::{binary, output, tool},
};
use probe_user::{
    lab::{
        listener::{Listener, Serve},
        netns::Namespace,
        prober::Probe,
        route::{Kind, Route},
        topology::{Plan, Topology, source},
    },
    report::document::{Hearing, Prediction, Report, RpFilter, Severity},
};

fn predicted(output: &Output) -> Report {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!(
            "{error}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

/// `doctor --no-observe --json` with more arguments, and its exit code.
fn look(nva: &Namespace, more: &[&str]) -> (Report, Option<i32>) {
    let found = output(nva, &[&["doctor", "--no-observe", "--json"], more].concat());
    (predicted(&found), found.status.code())
}

fn of<'a>(report: &'a Report, nic: &str) -> &'a Prediction {
    let mut all = report.predictions.iter().filter(|one| one.nic == nic && one.source == "168.63.129.16");
    let one = all.next().unwrap_or_else(|| panic!("no prediction of {nic} in {:#?}", report.predictions));
    assert!(all.next().is_none(), "one of {nic}: {:#?}", report.predictions);
    one
}

fn has(prediction: &Prediction, kind: &str, words: &str) -> bool {
    prediction.evidence.iter().any(|evidence| evidence.kind == kind && evidence.text.contains(words))
}

#[test]
fn s01_the_reply_would_leave_by_the_other_nic() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    let (report, code) = look(&topology.nva, &[]);
    assert_eq!(code, Some(1));
    let (eth0, eth1) = (of(&report, "eth0"), of(&report, "eth1"));
    assert_eq!(
        (eth0.fails, eth0.out_nic.as_deref(), eth0.address.as_str()),
        (false, Some("eth0"), "10.4.2.101")
    );
    assert_eq!((eth1.fails, eth1.out_nic.as_deref(), eth1.rp_filter), (true, Some("eth0"), RpFilter::Pass));
    assert_eq!(eth1.text, "a reply to 168.63.129.16 would leave by eth0");
    assert!(has(eth1, "route", "168.63.129.16 via 10.4.2.1 dev eth0"), "{eth1:#?}");
    assert!(
        report.findings.iter().all(|finding| finding.severity == Severity::Info),
        "{:#?}",
        report.findings
    );
    assert!(report.probes.is_empty());
    let text = String::from_utf8(output(&topology.nva, &["doctor", "--no-observe"]).stdout).expect("text");
    assert!(
        text.starts_with("WOULD FAIL eth1 10.4.3.101: a reply to 168.63.129.16 would leave by eth0"),
        "{text}"
    );
    assert!(text.contains("predicted, where no probe was seen"), "{text}");
}

#[test]
fn s09_policy_routing_would_do() {
    for rp_filter in [0, 1] {
        let topology = Topology::build(&Plan { rp_filter, ..Plan::default() }).expect("a topology");
        topology.primary_route().expect("a route");
        topology.policy_routing(1).expect("policy routing");
        let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
        let (report, code) = look(&topology.nva, &["--expect", "nic=eth1,port=8008"]);
        assert_eq!(code, Some(0), "{:#?}", report.predictions);
        for nic in ["eth0", "eth1"] {
            let one = of(&report, nic);
            assert_eq!(
                (one.fails, one.out_nic.as_deref(), one.rp_filter),
                (false, Some(nic), RpFilter::Pass)
            );
        }
        assert_eq!(
            (of(&report, "eth1").port, of(&report, "eth1").listener),
            (Some(PORT), Some(Hearing::Hears))
        );
        assert_eq!(of(&report, "eth0").listener, None);
        let above = report.findings.iter().filter(|finding| finding.severity != Severity::Info).count();
        assert_eq!(above, 0, "{:#?}", report.findings);
        let text =
            String::from_utf8(output(&topology.nva, &["doctor", "--no-observe"]).stdout).expect("text");
        assert!(text.starts_with("PREDICTED") && !text.contains("FAIL"), "{text}");
    }
}

#[test]
fn s23_the_reverse_path_filter_would_drop_the_probe() {
    let topology = Topology::build(&Plan { rp_filter: 1, ..Plan::default() }).expect("a topology");
    topology.primary_route().expect("a route");
    let (report, code) = look(&topology.nva, &[]);
    assert_eq!(code, Some(1));
    assert_eq!((of(&report, "eth0").fails, of(&report, "eth0").rp_filter), (false, RpFilter::Pass));
    let eth1 = of(&report, "eth1");
    assert_eq!((eth1.fails, eth1.rp_filter), (true, RpFilter::Drop));
    assert!(has(eth1, "sysctl", "rp_filter of eth1 is 1"), "{eth1:#?}");
}

#[test]
fn s15_no_reply_would_leave() {
    for (kind, words) in
        [(Some(Kind::Unreachable), "the route says unreachable"), (None, "there is no route")]
    {
        let topology = Topology::two_armed().expect("a topology");
        if let Some(kind) = kind {
            topology.route(&Route::to(source()).kind(kind)).expect("a route");
        }
        let (report, code) = look(&topology.nva, &[]);
        assert_eq!(code, Some(1));
        for nic in ["eth0", "eth1"] {
            let one = of(&report, nic);
            assert_eq!((one.fails, &one.out_nic), (true, &None));
            assert!(one.text.ends_with(words), "{}", one.text);
        }
    }
}

/// The guest agent's rule in the security table, and a listener on another address.
#[test]
fn s26_and_s35_a_rule_and_a_listener() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    topology.policy_routing(1).expect("policy routing");
    let _listener =
        Listener::start(&topology.nva, topology.target(0, PORT), None, Serve::Hold).expect("a listener");
    tool(
        &topology.nva,
        "nft 'table ip security { chain OUTPUT { type filter hook output priority 50; \
         ip daddr 168.63.129.16 tcp sport 1-65535 oifname eth0 drop; }; }'",
    );
    let (report, code) = look(&topology.nva, &["--expect", "nic=eth1,port=8008"]);
    assert_eq!(code, Some(1));
    let (eth0, eth1) = (of(&report, "eth0"), of(&report, "eth1"));
    assert_eq!((eth0.fails, eth0.text.as_str()), (true, "the packet filter would drop the reply"));
    assert!(has(eth0, "rule", "table ip security, chain OUTPUT, handle"), "{eth0:#?}");
    assert_eq!((eth1.fails, eth1.listener), (true, Some(Hearing::Elsewhere)), "{eth1:#?}");
}

/// A listener that is bound to its NIC needs no policy routing.
#[test]
fn a_bound_listener_would_answer_by_its_nic() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    let _bound = Listener::start(&topology.nva, topology.target(1, PORT), Some("eth1"), Serve::Hold)
        .expect("a listener");
    let (report, code) = look(&topology.nva, &["--expect", "nic=eth1,port=8008"]);
    assert_eq!(code, Some(0), "{:#?}", report.predictions);
    assert_eq!(of(&report, "eth1").out_nic.as_deref(), Some("eth1"));
    // Nobody says which port is probed: it may be that one.
    let (report, code) = look(&topology.nva, &[]);
    assert_eq!(code, Some(0));
    assert!(of(&report, "eth1").text.contains("unless the probed listener is bound to eth1"), "{report:#?}");
}

/// S20 and a mark that the connection carries: healthy, and nothing is said to fail.
#[test]
fn ipv6_and_marked_replies_would_do() {
    let topology = Topology::build(&Plan { ipv6: true, ..Plan::default() }).expect("a topology");
    topology.primary_route().expect("a route");
    topology.route(&topology.probe_route(1).table(202)).expect("a route");
    tool(
        &topology.nva,
        "ip rule add fwmark 0x2 lookup 202 priority 50
         nft 'table ip marks {
           chain in { type filter hook prerouting priority mangle; iifname eth1 ct state new ct mark set 2; };
           chain out { type route hook output priority mangle; meta mark set ct mark; };
         }'",
    );
    let (report, code) = look(&topology.nva, &[]);
    assert_eq!(code, Some(0), "{:#?}", report.predictions);
    let words = "unless the rule `50: from all fwmark 0x2 lookup 202` fits it";
    assert!(of(&report, "eth1").text.ends_with(words), "{report:#?}");
    let v6: Vec<_> = report.predictions.iter().filter(|one| one.address.contains(':')).collect();
    assert_eq!(v6.len(), 2, "{:#?}", report.predictions);
    assert!(v6.iter().all(|one| !one.fails && one.out_nic.as_ref() == Some(&one.nic)), "{v6:#?}");
}

/// It needs no privilege.
#[test]
fn nobody_may_ask() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    // The way to the binary may be closed to others.
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("readable");
    let copy = folder.path().join("nvaprobe");
    fs::copy(binary(), &copy).expect("a copy");
    let mut asked = Command::new(&copy);
    asked.args(["doctor", "--no-observe", "--json"]);
    topology.nva.command(&mut asked);
    let nobody = || {
        setgid(Gid::from_raw(65534)).and_then(|()| setuid(Uid::from_raw(65534))).map_err(std::io::Error::from)
    };
    // SAFETY: between fork and exec the closure makes two system calls and allocates nothing. It runs after the one that
    // enters the namespace, which needs root.
    unsafe { asked.pre_exec(nobody) };
    let found = asked.output().expect("nvaprobe starts");
    assert_eq!(found.status.code(), Some(1), "{}", String::from_utf8_lossy(&found.stderr));
    assert_eq!(of(&predicted(&found), "eth1").out_nic.as_deref(), Some("eth0"));
}

/// While it observes, `doctor` predicts only where no probe was seen, and its exit code speaks of what was seen.
#[test]
fn doctor_predicts_where_nothing_was_seen() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let probe = Probe::tcp(topology.target(0, PORT)).every(EVERY);
    let _prober = topology.fabrics[0].probe(probe).expect("a prober");
    let found = output(&topology.nva, &["doctor", "--for", "2s", "--json"]);
    assert_eq!(found.status.code(), Some(0), "{}", String::from_utf8_lossy(&found.stderr));
    let report = predicted(&found);
    let nics: Vec<_> = report.predictions.iter().map(|one| (one.nic.as_str(), one.fails)).collect();
    assert_eq!(nics, [("eth1", true)], "{:#?}", report.predictions);
    let advice: Vec<_> = report.findings.iter().filter(|finding| finding.code == "ADVICE").collect();
    assert!(advice.iter().all(|finding| finding.cause == "tcp-timestamps"), "{advice:#?}");
}

#[test]
fn doctor_is_silent_about_what_was_probed() {
    let (topology, _listener, _probers) = misrouted();
    let report = predicted(&output(&topology.nva, &["doctor", "--for", "2s", "--json"]));
    assert_eq!(report.predictions, []);
}
