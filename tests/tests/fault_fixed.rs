//! The printed commands, typed as they are, cure it.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use nvaprobe_tests::{
    fault::{Fault, misrouted, silent},
    observe::{PORT, observe, settings},
    process::tool,
};
use probe_user::{
    lab::{
        fabric::Running,
        listener::Serve,
        prober::Probe,
        signature::Signature,
        topology::{Plan, Topology},
    },
    monitor::Settings,
    source::{self, Profile},
};

/// Two looks fit into a test.
const EVERY: Duration = Duration::from_millis(250);
const WINDOW: Duration = Duration::from_millis(1400);

fn probers(topology: &Topology, addresses: &[Ipv4Addr]) -> Vec<Running> {
    let start = |nic: usize| {
        let delay = EVERY.mul_f64(0.4 * nic as f64);
        let probe = Probe::tcp(topology.target(nic, PORT)).every(EVERY).delayed(delay);
        let probe = match addresses {
            [] => probe,
            _ => probe.sources(addresses.iter().copied().map(IpAddr::V4)).signature(Signature::gcp()),
        };
        topology.fabrics[nic].probe(probe).expect("a prober")
    };
    (0..topology.nics.len()).map(start).collect()
}

fn cured(
    topology: &Topology,
    settings: impl Fn() -> Settings,
    addresses: &[Ipv4Addr],
    fault: Fault<'_>,
    fine: &str,
) {
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let _probers = probers(topology, addresses);
    assert_cured(topology, settings, fault, fine);
}

/// Looks, types what is printed, looks again.
fn assert_cured(topology: &Topology, settings: impl Fn() -> Settings, fault: Fault<'_>, fine: &str) {
    let seen = observe(&topology.nva, settings(), WINDOW, || {});
    seen.assert_faults(&[fault], &[(fine, PORT)], &[]);
    let fix = seen.fixes("iproute2");
    assert!(fix.contains(" rule ") || fix.contains(" route "), "{:#?}", seen.report.findings);
    tool(&topology.nva, &fix);
    let seen = observe(&topology.nva, settings(), WINDOW, || {});
    seen.assert_healthy(2);
}

fn cured_by_default(topology: &Topology, fault: Fault<'_>, fine: &str) {
    cured(topology, || settings(topology), &[], fault, fine);
}

fn two_armed(plan: &Plan) -> Topology {
    Topology::build(plan).expect("a topology")
}

#[test]
fn s01_the_host_route_on_one_nic() {
    let topology = two_armed(&Plan::default());
    topology.primary_route().expect("a route");
    cured_by_default(
        &topology,
        misrouted("eth1", PORT, "eth0").shows(&["168.63.129.16 via 10.4.2.1"]),
        "eth0",
    );
}

#[test]
fn s02_the_leftover_host_route() {
    let topology = two_armed(&Plan::default());
    topology.route(&topology.probe_route(0).protocol(16)).expect("a route");
    topology.route(&topology.default_route(1)).expect("a route");
    cured_by_default(
        &topology,
        misrouted("eth1", PORT, "eth0").shows(&["168.63.129.16 via 10.4.2.1", "dhcp"]),
        "eth0",
    );
}

#[test]
fn s03_the_default_route_of_the_other_nic() {
    let topology = two_armed(&Plan::default());
    topology.route(&topology.default_route(0)).expect("a route");
    cured_by_default(&topology, misrouted("eth1", PORT, "eth0").shows(&["default via 10.4.2.1"]), "eth0");
}

#[test]
fn s07_two_nics_in_one_subnet() {
    let topology = two_armed(&Plan { same_subnet: true, ..Plan::default() });
    topology.primary_route().expect("a route");
    cured_by_default(&topology, misrouted("eth1", PORT, "eth0"), "eth0");
}

#[test]
fn s10_a_rule_whose_table_names_the_wrong_device() {
    let topology = two_armed(&Plan::default());
    topology.primary_route().expect("a route");
    let wrong = topology.probe_route(0).table(202);
    let rule = topology.policy_rule(1);
    topology
        .nva
        .netlink(|netlink| netlink.route_add(&wrong).and_then(|()| netlink.rule_add(&rule)))
        .expect("policy routing");
    cured_by_default(&topology, misrouted("eth1", PORT, "eth0").shows(&["table 202", "lookup 202"]), "eth0");
}

#[test]
fn s18_the_host_route_on_the_lan_side() {
    let topology = two_armed(&Plan::default());
    topology.route(&topology.probe_route(1)).expect("a route");
    topology.route(&topology.default_route(0)).expect("a route");
    cured_by_default(&topology, misrouted("eth0", PORT, "eth1").shows(&["dev eth1"]), "eth1");
}

#[test]
fn s23_strict_reverse_path_filter() {
    let topology = two_armed(&Plan { rp_filter: 1, ..Plan::default() });
    topology.primary_route().expect("a route");
    cured_by_default(&topology, silent("eth1", PORT, "rp-filter").shows(&["rp_filter"]), "eth0");
}

#[test]
fn s52_probe_ranges() {
    let topology = two_armed(&Plan::default());
    topology.route(&topology.default_route(0)).expect("a route");
    let range = source::parse("35.191.0.0/16").expect("a prefix");
    let sources = source::collect(Profile::Custom, true, &[range]).expect("sources");
    let settings = || Settings { sources: sources.clone(), ..settings(&topology) };
    let addresses = [Ipv4Addr::new(35, 191, 0, 1), Ipv4Addr::new(35, 191, 9, 1)];
    cured(&topology, settings, &addresses, misrouted("eth1", PORT, "eth0").shows(&["default via"]), "eth0");
}

/// Probe ranges of IPv6, whose replies follow the better of two default routes.
#[test]
fn s52_probe_ranges_of_ipv6() {
    let topology = two_armed(&Plan { ipv6: true, ..Plan::default() });
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let range = source::parse("2600:2d00:1:b029::/64").expect("a prefix");
    let sources = source::collect(Profile::Custom, true, &[range]).expect("sources");
    let settings = || Settings { sources: sources.clone(), ..settings(&topology) };
    let _probers = [0, 1].map(|nic| {
        let target = topology.target6(nic, PORT).expect("an IPv6 address");
        let from = IpAddr::V6(Ipv6Addr::new(0x2600, 0x2d00, 1, 0xb029, 0, 0, 0, 1));
        topology.fabrics[nic].probe(Probe::tcp(target).every(EVERY).sources([from])).expect("a prober")
    });
    let fault = misrouted("eth1", PORT, "eth0").shows(&["default via fe80::1234:5678:9abc dev eth0"]);
    assert_cured(&topology, settings, fault, "eth0");
}
