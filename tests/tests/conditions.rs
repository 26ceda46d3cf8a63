//! Conditions in namespaces: what no verdict tells, and silence where nothing is the matter.

use std::{
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    os::fd::{AsRawFd, OwnedFd},
    thread,
    time::Duration,
};

use ipnet::IpNet;
use nix::{
    errno::Errno,
    sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket},
};
use nvaprobe_tests::{
    observe::{EVERY, PORT, Seen, WINDOW, look, observe, settings},
    process::tool,
    vm,
};
use probe_user::{
    lab::{
        fabric::Running,
        listener::{Listener, Serve},
        netlink::End,
        netns::Namespace,
        prober::Probe,
        route::Route,
        sysctl,
        topology::{Plan, Topology},
    },
    report::{
        document::{Finding, Severity, Verdict},
        event::Event,
    },
};

fn probe(topology: &Topology, nic: usize) -> Running {
    let probe = Probe::tcp(topology.target(nic, PORT)).every(EVERY).delayed(EVERY.mul_f64(0.3 * nic as f64));
    topology.fabrics[nic].probe(probe).expect("a prober")
}

fn net(text: &str) -> IpNet {
    text.parse().expect("a prefix")
}

/// The only finding of a code.
fn only<'a>(seen: &'a Seen, code: &str) -> &'a Finding {
    let found: Vec<_> = seen.report.findings.iter().filter(|finding| finding.code == code).collect();
    let [one] = found.as_slice() else { panic!("one {code}, not {found:#?}") };
    one
}

fn has(finding: &Finding, kind: &str, words: &str) -> bool {
    finding.evidence.iter().any(|evidence| evidence.kind == kind && evidence.text.contains(words))
}

/// TB: T2 with policy routing and a workload at 10.9.0.10 behind eth2.
struct Behind {
    topology: Topology,
    workload: Namespace,
}

impl Behind {
    fn build() -> Self {
        let topology = Topology::two_armed().expect("a topology");
        topology.primary_route().expect("a route");
        topology.policy_routing(1).expect("policy routing");
        let workload = Namespace::new("be").expect("a namespace");
        let near = End { name: "eth2".to_owned(), mac: [2, 0, 0, 0, 9, 1], mtu: 1500 };
        let far = End { name: "eth0".to_owned(), mac: [2, 0, 0, 0, 9, 10], mtu: 1500 };
        topology
            .nva
            .netlink(|netlink| {
                netlink.veth(&near, &far, &workload)?;
                netlink.up("eth2")?;
                netlink.address_add("eth2", net("10.9.0.1/24"))
            })
            .expect("a way to the workload");
        workload
            .netlink(|netlink| {
                netlink.up("eth0")?;
                netlink.address_add("eth0", net("10.9.0.10/24"))?;
                let gateway: std::net::Ipv4Addr = "10.9.0.1".parse().expect("an address");
                netlink.route_add(&Route::to(net("0.0.0.0/0")).via(gateway).dev("eth0"))
            })
            .expect("a way back");
        sysctl::set(&topology.nva, "ipv4/ip_forward", "1").expect("forwarding");
        Self { topology, workload }
    }

    fn listen(&self, address: &str) -> Listener {
        let address: SocketAddr = address.parse().expect("an address");
        Listener::start(&self.workload, address, None, Serve::Hold).expect("a listener")
    }

    /// Probes that come in by eth0 are sent on.
    fn translate(&self, to: &str) {
        let rules = format!(
            "nft -f - <<'EOF'\n\
             table ip nat {{\n\
               chain prerouting {{\n\
                 type nat hook prerouting priority dstnat;\n\
                 iifname eth0 tcp dport {PORT} dnat to {to}\n\
               }}\n\
             }}\n\
             EOF"
        );
        tool(&self.topology.nva, &rules);
    }
}

#[test]
fn s47_a_probe_that_another_machine_answers() {
    let behind = Behind::build();
    let _workload = behind.listen("10.9.0.10:80");
    let _here = behind.topology.listen(PORT, Serve::Hold).expect("a listener");
    behind.translate("10.9.0.10:80");
    let probers = [probe(&behind.topology, 0), probe(&behind.topology, 1)];
    let seen = look(&behind.topology);
    seen.assert_errors(&[]);
    seen.assert_verdict("eth0", PORT, Verdict::Ok, None);
    seen.assert_verdict("eth1", PORT, Verdict::Ok, None);
    assert!(probers.iter().all(|prober| prober.answered() >= 4));
    assert_eq!(seen.warnings(), ["PROXIED"], "{:#?}", seen.report.findings);
    let found = only(&seen, "PROXIED");
    assert_eq!((found.nic.as_deref(), found.out_nic.as_deref()), (Some("eth0"), Some("eth2")), "{found:#?}");
    assert!(found.summary.contains("passed on by eth2 to 10.9.0.10:80"), "{found:#?}");
    assert!(has(found, "packets", "answers came back by eth2"), "{found:#?}");
    assert!(has(found, "socket", "listens here on port 8008, and is not what is probed"), "{found:#?}");
}

/// The answer comes back from behind and is dropped on its way out: PROXIED stands beside the error, and says so.
#[test]
fn s28_a_proxied_answer_that_never_leaves() {
    let behind = Behind::build();
    let _workload = behind.listen("10.9.0.10:80");
    behind.translate("10.9.0.10:80");
    tool(
        &behind.topology.nva,
        "nft 'table ip lock { chain forward { type filter hook forward priority 0; ip daddr 168.63.129.16 tcp dport > 0 drop; }; }'",
    );
    let _prober = probe(&behind.topology, 0);
    let seen = look(&behind.topology);
    seen.assert_verdict("eth0", PORT, Verdict::NoReply, None);
    assert_eq!(seen.errors().len(), 1, "{:#?}", seen.report.findings);
    assert!(only(&seen, "PROXIED").summary.contains("never leave for the prober"));
}

/// GCP's pattern: probes are translated to the metadata service, which answers while the appliance forwards.
#[test]
fn a_probe_that_the_metadata_service_answers_is_a_remark() {
    let behind = Behind::build();
    behind
        .workload
        .netlink(|netlink| netlink.address_add("lo", net("169.254.169.254/32")))
        .expect("an address");
    let gateway: std::net::Ipv4Addr = "10.9.0.10".parse().expect("an address");
    behind.topology.route(&Route::to(net("169.254.169.254/32")).via(gateway).dev("eth2")).expect("a route");
    let _workload = behind.listen("169.254.169.254:80");
    behind.translate("169.254.169.254:80");
    let _prober = probe(&behind.topology, 0);
    let seen = look(&behind.topology);
    seen.assert_healthy(1);
    let found = only(&seen, "PROXIED");
    assert_eq!(found.severity, Severity::Info, "{found:#?}");
    assert!(found.summary.contains("metadata service"), "{found:#?}");
}

/// Policy routing done right, probed on both NICs; `change` comes in the middle.
fn changed(plan: &Plan, change: impl FnOnce(&Topology) + Send) -> (Seen, Topology) {
    let topology = Topology::build(plan).expect("a topology");
    topology.primary_route().expect("a route");
    topology.policy_routing(1).expect("policy routing");
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let _probers = [probe(&topology, 0), probe(&topology, 1)];
    let seen = thread::scope(|scope| {
        let (topology, window) = (&topology, WINDOW + EVERY * 3);
        observe(&topology.nva, settings(topology), window, move || {
            scope.spawn(move || {
                thread::sleep(window / 2);
                change(topology);
            });
        })
    });
    (seen, topology)
}

/// The findings of a code that were told while it ran.
fn said<'a>(seen: &'a Seen, code: &str) -> Vec<&'a Finding> {
    let events = seen.events.iter();
    let findings = events.filter_map(|event| match event {
        Event::Finding { finding, .. } => Some(finding),
        _ => None,
    });
    findings.filter(|finding| finding.code == code).collect()
}

#[test]
fn s12_it_worked_until_the_network_daemon_restarted() {
    let (seen, _topology) = changed(&Plan::default(), |topology| {
        let rule = topology.policy_rule(1);
        topology.nva.netlink(|netlink| netlink.rule_del(&rule)).expect("the rule is there");
    });
    seen.assert_errors(&[("ASYMMETRIC", "route", "eth1", PORT)]);
    seen.assert_verdict("eth0", PORT, Verdict::Ok, None);
    let series = seen.series("eth1", PORT);
    assert_eq!(series.verdict, Verdict::Asymmetric);
    assert!(series.counts[&Verdict::Ok] >= 2, "{series:#?}");
    assert_eq!(seen.warnings(), ["RULE_CHANGED"], "{:#?}", seen.report.findings);
    let found = only(&seen, "RULE_CHANGED");
    assert_eq!((found.nic.as_deref(), found.port), (Some("eth1"), Some(PORT)), "{found:#?}");
    let words = "policy rule 101: from 10.4.3.101 to 168.63.129.16 lookup 202 vanished";
    assert!(found.summary.contains(words) && has(found, "change", words), "{found:#?}");
    let told = said(&seen, "RULE_CHANGED");
    let [told] = told.as_slice() else { panic!("said once: {told:#?}") };
    assert_eq!(told.summary, found.summary);
    // The time of the change lies between the last success and the first failure.
    let time = &found.evidence[0].text[..24];
    assert!(seen.report.window.from.as_str() < time && time < seen.report.window.to.as_str(), "{time}");
}

#[test]
fn s50_an_address_that_vanished() {
    let (seen, _topology) = changed(&Plan::default(), |topology| {
        let address = net("10.4.3.101/24");
        topology.nva.netlink(|netlink| netlink.address_del("eth1", address)).expect("the address is there");
    });
    assert_eq!(seen.errors().len(), 1, "{:#?}", seen.report.findings);
    let found = only(&seen, "RULE_CHANGED");
    assert_eq!(found.nic.as_deref(), Some("eth1"), "{found:#?}");
    assert!(has(found, "change", "address 10.4.3.101/24 on eth1 vanished"), "{found:#?}");
}

/// A route that is replaced by one with another gateway on another NIC.
#[test]
fn a_route_that_was_replaced() {
    let (seen, _topology) = changed(&Plan::default(), |topology| {
        topology.route(&topology.probe_route(0).table(202)).expect("a route");
    });
    seen.assert_errors(&[("ASYMMETRIC", "route", "eth1", PORT)]);
    let found = only(&seen, "RULE_CHANGED");
    assert!(
        has(found, "change", "dev eth1 proto static, table 202 became 168.63.129.16 via 10.4.2.1"),
        "{found:#?}"
    );
}

#[test]
fn changes_that_concern_nobody_are_not_told() {
    let (seen, _topology) = changed(&Plan::default(), |topology| {
        let rule = topology.policy_rule(0);
        topology
            .nva
            .netlink(|netlink| {
                netlink
                    .route_add(&Route::to(net("192.0.2.0/24")).via(topology.nics[0].gateway).dev("eth0"))?;
                netlink.route_add(&topology.default_route(0))?;
                netlink.address_add("eth1", net("10.4.3.102/24"))?;
                netlink.rule_add(&rule)
            })
            .expect("changes");
    });
    seen.assert_healthy(2);
    assert_eq!(said(&seen, "RULE_CHANGED"), Vec::<&Finding>::new());
}

/// A dead listener at the moment of an unrelated change is not that change's fault.
#[test]
fn a_refusal_is_no_matter_of_routes() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    topology.policy_routing(1).expect("policy routing");
    let listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let _prober = probe(&topology, 1);
    let seen = thread::scope(|scope| {
        let topology = &topology;
        observe(&topology.nva, settings(topology), WINDOW, move || {
            scope.spawn(move || {
                thread::sleep(WINDOW / 2);
                drop(listener);
                topology.route(&topology.probe_route(1).table(202).metric(5)).expect("a route");
            });
        })
    });
    assert_eq!(seen.series("eth1", PORT).verdict, Verdict::Refused);
    assert_eq!(seen.warnings(), Vec::<&str>::new(), "{:#?}", seen.report.findings);
}

/// A connection of the appliance's own to the platform that is only begun.
fn begin(nva: &Namespace, from: Ipv4Addr, port: u16) -> OwnedFd {
    nva.run(|| {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(AddressFamily::Inet, SockType::Stream, flags, None).expect("a socket");
        bind(fd.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(from, 0))).expect("an address of its own");
        let platform = SocketAddrV4::new(Ipv4Addr::new(168, 63, 129, 16), port);
        let begun = connect(fd.as_raw_fd(), &SockaddrIn::from(platform));
        assert!(matches!(begun, Ok(()) | Err(Errno::EINPROGRESS)), "{begun:?}");
        fd
    })
    .expect("the namespace can be entered")
}

/// The appliance with an answering platform behind eth0 only, and with its own traffic while it is observed.
fn own_traffic(from: usize, port: u16) -> Seen {
    let topology = Topology::build(&Plan { platform: true, ..Plan::default() }).expect("a topology");
    topology.primary_route().expect("a route");
    topology.policy_routing(1).expect("policy routing");
    topology.fabrics[1].set_platform(false);
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let _probers = [probe(&topology, 0), probe(&topology, 1)];
    let mut waiting = None;
    let seen = observe(&topology.nva, settings(&topology), Duration::from_millis(4500), || {
        let answer =
            vm::get(&topology.nva, 80, Duration::from_secs(5)).expect("the platform answers by eth0");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        waiting = Some(begin(&topology.nva, topology.nics[from].address, port));
    });
    seen.assert_verdict("eth0", PORT, Verdict::Ok, None);
    seen.assert_verdict("eth1", PORT, Verdict::Ok, None);
    assert!(seen.report.platform.packets_in > 0);
    seen
}

#[test]
fn s60_what_leaves_by_another_nic_gets_no_answer_beside_what_does() {
    let seen = own_traffic(1, 80);
    seen.assert_errors(&[]);
    assert_eq!(seen.warnings(), ["PLATFORM"], "{:#?}", seen.report.findings);
    let found = only(&seen, "PLATFORM");
    assert_eq!(found.nic.as_deref(), Some("eth1"), "{found:#?}");
    assert!(has(found, "socket", "10.4.3.101:") && has(found, "socket", "by eth1 waited"), "{found:#?}");
    assert!(has(found, "nic", "the primary NIC is eth0 with 10.4.2.101"), "{found:#?}");
}

/// From the primary NIC all is answered; a service that may be silent proves nothing.
#[test]
fn s60_healthy_traffic_of_its_own_is_none() {
    for (from, port) in [(0, 80), (1, 8037)] {
        let seen = own_traffic(from, port);
        seen.assert_healthy(2);
    }
}

fn causes(seen: &Seen) -> Vec<&str> {
    let advice = seen.report.findings.iter().filter(|finding| finding.code == "ADVICE");
    advice.map(|finding| finding.cause.as_str()).collect()
}

/// Two host routes of one metric: the first wins, and the other NIC's replies are misrouted.
#[test]
fn equal_host_routes_are_said_beside_the_fault() {
    let topology = Topology::two_armed().expect("a topology");
    tool(
        &topology.nva,
        "ip route add 168.63.129.16 via 10.4.2.1 dev eth0 metric 100; \
         ip route append 168.63.129.16 via 10.4.3.1 dev eth1 metric 100",
    );
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let _probers = [probe(&topology, 0), probe(&topology, 1)];
    let seen = look(&topology);
    seen.assert_errors(&[("ASYMMETRIC", "route", "eth1", PORT)]);
    assert_eq!(causes(&seen), ["duplicate-routes"], "{:#?}", seen.report.findings);
    assert_eq!(only(&seen, "ADVICE").severity, Severity::Warning);
}

/// On link, where the fabric answers ARP for everybody: it works, and is worth a word.
#[test]
fn a_host_route_without_a_gateway_is_a_remark() {
    let topology = Topology::two_armed().expect("a topology");
    topology.route(&Route::to(net("168.63.129.16/32")).dev("eth0")).expect("a route");
    topology.policy_routing(1).expect("policy routing");
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let _probers = [probe(&topology, 0), probe(&topology, 1)];
    let seen = look(&topology);
    seen.assert_healthy(2);
    assert_eq!(causes(&seen), ["local-network"], "{:#?}", seen.report.findings);
}

/// A router that forgot to forward: the probes are green, and what goes through is lost.
#[test]
fn a_router_that_does_not_forward_is_a_remark() {
    let behind = Behind::build();
    let _listener = behind.topology.listen(PORT, Serve::Hold).expect("a listener");
    let _probers = [probe(&behind.topology, 0), probe(&behind.topology, 1)];
    let seen = look(&behind.topology);
    seen.assert_healthy(2);
    assert_eq!(causes(&seen), Vec::<&str>::new(), "it forwards");
    sysctl::set(&behind.topology.nva, "ipv4/ip_forward", "0").expect("no forwarding");
    tool(
        &behind.topology.nva,
        "nft 'table ip nat { chain post { type nat hook postrouting priority srcnat; oifname eth0 masquerade; }; }'",
    );
    let seen = look(&behind.topology);
    seen.assert_healthy(2);
    assert_eq!(causes(&seen), ["forwarding-disabled"], "{:#?}", seen.report.findings);
}

/// Everything done right, and nothing to say but how often probes come.
#[test]
fn a_healthy_host_is_quiet() {
    let topology =
        Topology::build(&Plan { nics: 3, rp_filter: 1, ipv6: true, ..Plan::default() }).expect("a topology");
    topology.primary_route().expect("a route");
    for nic in [1, 2] {
        topology.policy_routing(nic).expect("policy routing");
    }
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let _probers: Vec<_> = (0..3).map(|nic| probe(&topology, nic)).collect();
    let seen = look(&topology);
    seen.assert_healthy(3);
    let codes: Vec<_> = seen.report.findings.iter().map(|finding| finding.code.as_str()).collect();
    assert!(codes.iter().all(|code| *code == "INTERVAL"), "{codes:?}");
    assert_eq!(seen.report.predictions, []);
}
