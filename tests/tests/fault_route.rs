//! The reply finds no way out: group A of the scenarios, beyond the plain misroutes.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use ipnet::IpNet;
use nvaprobe_tests::{
    fault::{assert_shows, misrouted, probe, silent},
    observe::{EVERY, PORT, WINDOW, look, observe, settings},
    process::{tool, until},
};
use probe_user::{
    lab::{
        fabric::{Answers, Running},
        listener::Serve,
        prober::Probe,
        route::{Kind, Route},
        signature::Signature,
        sysctl,
        topology::{FIRST_TABLE, Plan, Topology, source},
    },
    monitor::Settings,
    report::document::Verdict,
    source::{self as sources, Profile},
};

fn two_armed() -> Topology {
    Topology::two_armed().expect("a topology")
}

/// Each fabric answers ARP for its gateway only.
fn gateways_only(topology: &Topology) {
    for (nic, fabric) in topology.nics.iter().zip(&topology.fabrics) {
        fabric.set_answers(Answers::Only(vec![IpAddr::V4(nic.gateway)]));
    }
}

/// No reply leaves as an IP packet: only ARP requests do.
#[test]
fn s04_the_host_route_without_a_gateway() {
    let topology = two_armed();
    gateways_only(&topology);
    // Between requests; the neighbour stays INCOMPLETE meanwhile.
    sysctl::set(&topology.nva, "ipv4/neigh/eth1/retrans_time_ms", "5000").expect("a sysctl");
    topology.route(&Route::to(source()).dev("eth1")).expect("a route");
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let probers = probe(&topology, &[(0, PORT), (1, PORT)]);
    let seen = look(&topology);
    let shows: &[&str] = &["eth1", "168.63.129.16"];
    seen.assert_faults(
        &[
            silent("eth0", PORT, "next-hop-unresolved").shows(shows),
            silent("eth1", PORT, "next-hop-unresolved").shows(shows),
        ],
        &[],
        &[],
    );
    assert!(probers.iter().all(|prober| prober.answered() == 0));
}

/// The rule is right; its table leads to a gateway that nobody on that wire answers for.
#[test]
fn s10_a_table_whose_gateway_does_not_answer() {
    let topology = two_armed();
    gateways_only(&topology);
    // Soon it is FAILED, and the kernel tells its own TCP so, which forgets the requests (net/ipv4/tcp_ipv4.c, `tcp_req_err`).
    sysctl::set(&topology.nva, "ipv4/neigh/eth0/retrans_time_ms", "20").expect("a sysctl");
    topology.primary_route().expect("a route");
    let gateway = topology.nics[1].gateway;
    let wrong = Route::to(source()).via(gateway).dev("eth0").onlink().table(FIRST_TABLE + 1);
    let rule = topology.policy_rule(1);
    topology
        .nva
        .netlink(|netlink| netlink.route_add(&wrong).and_then(|()| netlink.rule_add(&rule)))
        .expect("policy routing");
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let _probers = probe(&topology, &[(0, PORT), (1, PORT)]);
    let seen = look(&topology);
    let fault = silent("eth1", PORT, "next-hop-unresolved").shows(&["10.4.3.1", "table 202", "eth0"]);
    seen.assert_faults(&[fault], &[("eth0", PORT)], &[]);
}

#[test]
fn s12_the_rule_vanishes_while_we_look() {
    let topology = two_armed();
    topology.primary_route().expect("a route");
    topology.policy_routing(1).expect("policy routing");
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let probers = probe(&topology, &[(0, PORT), (1, PORT)]);
    let seen = std::thread::scope(|scope| {
        let started = || {
            let (topology, prober) = (&topology, &probers[1]);
            let before = prober.answered();
            scope.spawn(move || {
                until("two good probes", || prober.answered() >= before + 2);
                let rule = topology.policy_rule(1);
                topology.nva.netlink(|netlink| netlink.rule_del(&rule)).expect("the rule goes");
            });
        };
        observe(&topology.nva, settings(&topology), Duration::from_millis(3200), started)
    });
    seen.assert_verdict("eth0", PORT, Verdict::Ok, None);
    let series = seen.series("eth1", PORT);
    assert_eq!((series.verdict, series.out_nic.as_deref()), (Verdict::Asymmetric, Some("eth0")));
    assert!(series.counts[&Verdict::Ok] >= 2 && series.counts[&Verdict::Asymmetric] >= 2, "{series:#?}");
    seen.assert_findings(
        &[misrouted("eth1", PORT, "eth0").shows(&["168.63.129.16 via 10.4.2.1"])],
        &["RULE_CHANGED"],
    );
    let changed =
        seen.report.findings.iter().find(|finding| finding.code == "RULE_CHANGED").expect("a finding");
    assert_eq!(changed.nic.as_deref(), Some("eth1"), "{changed:#?}");
    assert_shows(changed, &["from 10.4.3.101", "lookup 202"]);
    // A rule that went is no failure among successes.
    assert!(!seen.errors()[0].intermittent, "{:#?}", seen.errors());
}

/// IPsec policies catch replies: one asks for what cannot be had, one forbids the packet, one lets it pass.
#[test]
fn s14_ipsec_policies_capture_replies() {
    let topology = Topology::build(&Plan { nics: 3, ..Plan::default() }).expect("a topology");
    topology.primary_route().expect("a route");
    let policies =
        ["tmpl src 10.4.2.101 dst 203.0.113.1 proto esp reqid 1 mode tunnel", "action block", "action allow"];
    for (nic, policy) in policies.into_iter().enumerate() {
        topology.policy_routing(nic).expect("policy routing");
        let from = topology.nics[nic].address;
        tool(
            &topology.nva,
            &format!("ip xfrm policy add src {from}/32 dst 168.63.129.16/32 dir out priority 7 {policy}"),
        );
    }
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let _probers = probe(&topology, &[0, 1, 2].map(|nic| (nic, PORT)));
    let seen = look(&topology);
    seen.assert_faults(
        &[
            silent("eth0", PORT, "xfrm").shows(&["10.4.2.101", "168.63.129.16", "esp"]),
            silent("eth1", PORT, "xfrm").shows(&["10.4.3.101", "168.63.129.16", "block"]),
        ],
        &[("eth2", PORT)],
        &[],
    );
}

/// One source for each way of having none.
#[test]
fn s15_no_route() {
    let topology = two_armed();
    let rows = [
        (8001, Some(Kind::Unreachable), "unreachable"),
        (8002, Some(Kind::Blackhole), "blackhole"),
        (8003, Some(Kind::Prohibit), "prohibit"),
        (8004, None, "no route"),
    ];
    let address = |port: u16| IpAddr::V4(Ipv4Addr::new(198, 51, 100, (port - 8000) as u8));
    let mut ranges = Vec::new();
    let mut listeners = Vec::new();
    for (port, kind, _) in rows {
        if let Some(kind) = kind {
            topology.route(&Route::to(IpNet::from(address(port))).kind(kind)).expect("a route");
        }
        ranges.push(sources::parse(&address(port).to_string()).expect("an address"));
        listeners.push(topology.listen(port, Serve::Hold).expect("a listener"));
    }
    let start = |(port, ..): (u16, Option<Kind>, &str)| {
        let probe = Probe::tcp(topology.target(0, port)).every(EVERY).sources([address(port)]);
        topology.fabrics[0].probe(probe.signature(Signature::gcp())).expect("a prober")
    };
    let _probers: Vec<Running> = rows.into_iter().map(start).collect();
    let sources = sources::collect(Profile::Custom, true, &ranges).expect("sources");
    let seen = observe(&topology.nva, Settings { sources, ..settings(&topology) }, WINDOW, || {});
    let shows = rows.map(|(_, _, shows)| [shows]);
    let faults: Vec<_> = rows
        .iter()
        .zip(&shows)
        .map(|((port, ..), shows)| silent("eth0", *port, "no-route").shows(shows))
        .collect();
    seen.assert_faults(&faults, &[], &[]);
}

/// The source itself, without any route in the tables.
#[test]
fn s15_no_route_to_the_platform() {
    let topology = two_armed();
    topology.policy_routing(1).expect("policy routing");
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let _probers = probe(&topology, &[(0, PORT), (1, PORT)]);
    let seen = look(&topology);
    let fault = silent("eth0", PORT, "no-route").shows(&["168.63.129.16"]);
    seen.assert_faults(&[fault], &[("eth1", PORT)], &[]);
}

/// Rules can refuse as routes do.
#[test]
fn s15_a_rule_that_refuses() {
    let topology = Topology::build(&Plan { nics: 4, ..Plan::default() }).expect("a topology");
    topology.primary_route().expect("a route");
    for (nic, action) in ["lookup main", "unreachable", "blackhole", "prohibit"].iter().enumerate() {
        let from = topology.nics[nic].address;
        tool(&topology.nva, &format!("ip rule add from {from} to 168.63.129.16 priority 9{nic} {action}"));
    }
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let _probers = probe(&topology, &[0, 1, 2, 3].map(|nic| (nic, PORT)));
    let seen = look(&topology);
    seen.assert_faults(
        &[
            silent("eth1", PORT, "no-route").shows(&["unreachable"]),
            silent("eth2", PORT, "no-route").shows(&["blackhole"]),
            silent("eth3", PORT, "no-route").shows(&["prohibit"]),
        ],
        &[("eth0", PORT)],
        &[],
    );
}

/// A network of the host's own that happens to contain the source: on-link, by the other NIC.
#[test]
fn a_local_network_contains_the_source() {
    let topology = two_armed();
    topology.route(&topology.default_route(0)).expect("a route");
    let wide = "168.63.1.1/16".parse().expect("a network");
    topology.nva.netlink(|netlink| netlink.address_add("eth1", wide)).expect("an address");
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let _probers = probe(&topology, &[(0, PORT), (1, PORT)]);
    let seen = look(&topology);
    seen.assert_verdict("eth1", PORT, Verdict::Ok, None);
    seen.assert_verdict("eth0", PORT, Verdict::Asymmetric, Some("eth1"));
    seen.assert_errors(&[("ASYMMETRIC", "route", "eth0", PORT)]);
    assert_shows(seen.errors()[0], &["168.63.0.0/16 dev eth1"]);
}
