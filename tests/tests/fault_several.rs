//! Several faults on one host: each series has its own cause.

use std::net::SocketAddr;

use nvaprobe_tests::{
    fault::{misrouted, nft, probe, probe_at, refused, silent},
    observe::{PORT, look},
    process::{tool, until},
};
use probe_user::lab::{
    listener::Serve,
    route::Rule,
    sysctl,
    topology::{Plan, Topology},
};

#[test]
fn a_strict_filter_on_one_nic_and_a_dead_listener_on_the_other() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    sysctl::set(&topology.nva, "ipv4/conf/eth1/rp_filter", "1").expect("a sysctl");
    let _probers = probe(&topology, &[(0, PORT), (1, PORT)]);
    let seen = look(&topology);
    seen.assert_faults(
        &[refused("eth0", PORT, "nothing-listening"), silent("eth1", PORT, "rp-filter").shows(&["eth1"])],
        &[],
        &[],
    );
}

#[test]
fn a_wrong_route_and_an_output_drop() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    tool(&topology.nva, "iptables -w -t security -A OUTPUT -p tcp --sport 8009 -d 168.63.129.16 -j DROP");
    let _listeners = [PORT, 8009].map(|port| topology.listen(port, Serve::Hold).expect("a listener"));
    let _probers = probe(&topology, &[(0, PORT), (1, PORT), (0, 8009), (1, 8009)]);
    let seen = look(&topology);
    seen.assert_faults(
        &[
            misrouted("eth1", PORT, "eth0"),
            silent("eth0", 8009, "output-drop").shows(&["security"]),
            // Its route is wrong as well, but nothing comes as far.
            silent("eth1", 8009, "output-drop").shows(&["security"]),
        ],
        &[("eth0", PORT)],
        &[],
    );
}

/// The rule of the one NIC leads nowhere, that of the other is right, and the third has an IPsec policy.
#[test]
fn no_route_beside_a_policy_and_a_good_nic() {
    let topology = Topology::build(&Plan { nics: 3, ..Plan::default() }).expect("a topology");
    topology.policy_routing(0).expect("policy routing");
    topology.policy_routing(2).expect("policy routing");
    let nowhere = Rule { table: 77, ..topology.policy_rule(1) };
    topology.nva.netlink(|netlink| netlink.rule_add(&nowhere)).expect("a rule");
    tool(&topology.nva, "ip xfrm policy add src 10.4.4.101/32 dst 168.63.0.0/16 dir out action block");
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let _probers = probe(&topology, &[0, 1, 2].map(|nic| (nic, PORT)));
    let seen = look(&topology);
    seen.assert_faults(
        &[silent("eth1", PORT, "no-route"), silent("eth2", PORT, "xfrm").shows(&["168.63.0.0/16"])],
        &[("eth0", PORT)],
        &[],
    );
}

/// As bad as it gets: counters of one fault must not explain another.
#[test]
fn seven_faults_at_once() {
    let topology = Topology::build(&Plan { nics: 3, ..Plan::default() }).expect("a topology");
    topology.primary_route().expect("a route");
    topology.policy_routing(1).expect("policy routing");
    sysctl::set(&topology.nva, "ipv4/conf/eth2/rp_filter", "1").expect("a sysctl");
    nft(
        &topology.nva,
        "table inet guard {
           chain input { type filter hook input priority filter; tcp dport 8002 drop; tcp dport 8004 reject with tcp reset; }
           chain output { type filter hook output priority security; tcp sport 8003 drop; }
         }",
    );
    let ports = [8002, 8003, 8004, 8006, 8007];
    let _listeners = ports.map(|port| topology.listen(port, Serve::Hold).expect("a listener"));
    let _deaf = topology.deaf(0, 8005, 0).expect("a listener");
    let full = probe(&topology, &[(0, 8005)]);
    until("the queue is full", || full[0].answered() == 1);
    let _absent = probe_at(&topology, 0, SocketAddr::from(([10, 4, 2, 200], 8007)));
    let series = [(0, 8001), (1, 8002), (0, 8003), (1, 8004), (1, 8006), (2, 8006)];
    let _probers = probe(&topology, &series);
    let seen = look(&topology);
    seen.assert_faults(
        &[
            refused("eth0", 8001, "nothing-listening"),
            silent("eth1", 8002, "input-drop").shows(&["input"]),
            silent("eth0", 8003, "output-drop").shows(&["output"]),
            refused("eth1", 8004, "reject-rule").shows(&["input"]),
            silent("eth0", 8005, "accept-queue-full"),
            silent("eth2", 8006, "rp-filter"),
            silent("eth0", 8007, "not-local").shows(&["10.4.2.200"]),
        ],
        &[("eth1", 8006)],
        &[],
    );
}
