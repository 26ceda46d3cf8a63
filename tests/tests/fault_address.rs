//! The probed address is not this host's: S49 and S50.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use ipnet::IpNet;
use nvaprobe_tests::{
    fault::{assert_shows, probe_at, silent},
    observe::{EVERY, PORT, look, observe, settings},
    process::until,
};
use probe_user::{
    lab::{
        listener::{Listener, Serve},
        route::{Kind, LOCAL, Route},
        topology::{Plan, Topology},
    },
    report::document::Verdict,
};

const FRONTEND: Ipv4Addr = Ipv4Addr::new(10, 4, 2, 200);

fn serving(plan: &Plan) -> (Topology, Listener) {
    let topology = Topology::build(plan).expect("a topology");
    topology.primary_route().expect("a route");
    let listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    (topology, listener)
}

fn frontend() -> SocketAddr {
    SocketAddr::from((FRONTEND, PORT))
}

/// `ip route add local ADDRESS dev eth0`, as agents of clouds do.
fn local() -> Route {
    Route::to(IpNet::from(IpAddr::V4(FRONTEND))).kind(Kind::Local).dev("eth0").table(LOCAL)
}

#[test]
fn s49_the_frontend_address_is_not_local() {
    let (topology, _listener) = serving(&Plan::default());
    let _probers = [probe_at(&topology, 0, frontend()), probe_at(&topology, 0, topology.target(0, 8009))];
    let _own = topology.listen(8009, Serve::Hold).expect("a listener");
    let seen = look(&topology);
    let fault = silent("eth0", PORT, "not-local").shows(&["10.4.2.200"]);
    seen.assert_faults(&[fault], &[("eth0", 8009)], &[]);
}

/// An appliance forwards: what is not its own and has no route is unreachable, and what is in the NIC's own subnet goes
/// back out of it. Either way the address is missing here.
#[test]
fn s49_nor_does_forwarding_make_it_so() {
    let (topology, _listener) = serving(&Plan { backend: true, ..Plan::default() });
    let elsewhere = SocketAddr::from(([203, 0, 113, 7], 8009));
    let _probers = [probe_at(&topology, 0, frontend()), probe_at(&topology, 0, elsewhere)];
    let seen = look(&topology);
    seen.assert_verdict("eth0", PORT, Verdict::NoReply, None);
    seen.assert_verdict("eth0", 8009, Verdict::IcmpReject, None);
    seen.assert_errors(&[
        ("ICMP_REJECT", "not-local", "eth0", 8009),
        ("NO_REPLY", "not-local", "eth0", PORT),
    ]);
    for (code, port, address) in [("ICMP_REJECT", 8009, "203.0.113.7"), ("NO_REPLY", PORT, "10.4.2.200")] {
        assert_shows(seen.findings(code, port)[0], &[address]);
    }
}

#[test]
fn s49_with_the_address_it_answers() {
    let (topology, _listener) = serving(&Plan::default());
    topology.nva.netlink(|netlink| netlink.route_add(&local())).expect("a local route");
    let _probers = [probe_at(&topology, 0, frontend())];
    look(&topology).assert_healthy(1);
}

#[test]
fn s50_the_local_route_vanishes_while_we_look() {
    let (topology, _listener) = serving(&Plan::default());
    topology.nva.netlink(|netlink| netlink.route_add(&local())).expect("a local route");
    let prober = probe_at(&topology, 0, frontend());
    let seen = std::thread::scope(|scope| {
        let started = || {
            let (topology, prober) = (&topology, &prober);
            let before = prober.answered();
            scope.spawn(move || {
                until("two good probes", || prober.answered() >= before + 2);
                topology.nva.netlink(|netlink| netlink.route_del(&local())).expect("the route goes");
            });
        };
        observe(&topology.nva, settings(&topology), EVERY * 6 + Duration::from_millis(200), started)
    });
    let series = seen.series("eth0", PORT);
    assert_eq!(series.verdict, Verdict::NoReply, "{series:#?}");
    assert!(series.counts[&Verdict::Ok] >= 2 && series.counts[&Verdict::NoReply] >= 2, "{series:#?}");
    seen.assert_findings(&[silent("eth0", PORT, "not-local").shows(&["10.4.2.200"])], &["RULE_CHANGED"]);
    let changed =
        seen.report.findings.iter().find(|finding| finding.code == "RULE_CHANGED").expect("a finding");
    assert_shows(changed, &["10.4.2.200"]);
}
