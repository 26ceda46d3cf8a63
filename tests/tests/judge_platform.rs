//! What the VM itself asks of 168.63.129.16 is no probe, and what becomes of it is another matter.

use std::time::Duration;

use nvaprobe_tests::{
    observe::{PORT, follow, observe, settings},
    vm,
};
use probe_user::{
    lab::{
        listener::Serve,
        prober::Probe,
        topology::{Plan, Topology},
    },
    report::document::{Severity, Verdict},
};

const EVERY: Duration = Duration::from_millis(400);
const PATIENCE: Duration = Duration::from_secs(5);

#[test]
fn s58_the_vms_own_traffic_is_no_probe() {
    let topology = Topology::build(&Plan { platform: true, ..Plan::default() }).expect("a topology");
    topology.primary_route().expect("a route");
    let nva = topology.nva.clone();
    let seen = observe(&topology.nva, settings(&topology), Duration::from_millis(1500), move || {
        for port in [80, 32526, 8037] {
            let answer = vm::get(&nva, port, PATIENCE).expect("the platform answers");
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
        vm::resolve(&nva).expect("DNS answers");
        vm::renew(&nva).expect("DHCP answers");
    });
    assert!(seen.report.probes.is_empty(), "{:#?}", seen.report.probes);
    assert!(seen.report.findings.is_empty(), "{:#?}", seen.report.findings);
    let platform = seen.report.platform;
    // Four connections of at least five packets out, and two datagrams.
    assert!(platform.packets_out >= 14 && platform.packets_in >= 10, "{platform:?}");
}

/// The wire server by the wrong NIC, where nothing answers: a finding of its own, and probes are as they were.
#[test]
fn s60_the_platform_channel_fails_on_its_own() {
    let topology = Topology::two_armed().expect("a topology");
    topology.route(&topology.probe_route(1)).expect("a route");
    topology.policy_routing(0).expect("policy routing");
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let nva = topology.nva.clone();
    let (seen, probers) = follow(&topology, settings(&topology), || {
        let probers = [0, 1].map(|nic| {
            let probe = Probe::tcp(topology.target(nic, PORT)).every(EVERY).attempts(4);
            topology.fabrics[nic].probe(probe).expect("a prober")
        });
        // The guest agent tries, and gives up.
        let refused = vm::get(&nva, 80, Duration::from_millis(1300));
        assert!(refused.is_err(), "{refused:?}");
        probers.to_vec()
    });
    assert_eq!(seen.report.probes.len(), 2, "{:#?}", seen.report.probes);
    for (nic, prober) in ["eth0", "eth1"].into_iter().zip(&probers) {
        assert_eq!(seen.assert_agrees(nic, PORT, prober).verdict, Verdict::Ok);
    }
    seen.assert_errors(&[]);
    assert_eq!(seen.warnings(), ["PLATFORM"], "{:#?}", seen.report.findings);
    let platform = seen.report.findings.iter().find(|f| f.code == "PLATFORM").expect("a finding");
    assert_eq!(
        (platform.nic.as_deref(), platform.severity),
        (Some("eth1"), Severity::Warning),
        "{platform:#?}"
    );
    assert_eq!(seen.report.platform.packets_in, 0);
    assert!(topology.fabrics[1].strays().platform >= 1 && topology.fabrics[0].strays().platform == 0);
}
