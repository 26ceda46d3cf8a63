//! Nobody answers, or somebody says no: group C of the scenarios, as far as TCP goes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nvaprobe_tests::{
    fault::{nft, probe, probe_at, refused, rejected, silent},
    observe::{PORT, look},
    process::{tool, until},
};
use probe_user::lab::{
    listener::{Listener, Serve},
    topology::{Plan, Topology},
};

fn routed(plan: &Plan) -> Topology {
    let topology = Topology::build(plan).expect("a topology");
    topology.primary_route().expect("a route");
    topology.policy_routing(1).expect("policy routing");
    topology
}

/// Every place where a listener may be that hears nothing of a probe, a port each.
#[test]
fn s34_s35_nothing_listens_or_elsewhere() {
    let topology = routed(&Plan::default());
    let at = |address: IpAddr, port: u16, device: Option<&str>| {
        let address = SocketAddr::new(address, port);
        Listener::start(&topology.nva, address, device, Serve::Hold).expect("a listener")
    };
    let _listeners = [
        topology.listen_at(0, 8002, Serve::Hold).expect("a listener"),
        topology.listen_by(0, 8003, Serve::Hold).expect("a listener"),
        at(Ipv4Addr::LOCALHOST.into(), 8004, None),
        at(Ipv6Addr::LOCALHOST.into(), 8005, None),
        // Two that miss, one that hits.
        at(Ipv4Addr::LOCALHOST.into(), 8006, None),
        topology.listen_at(1, 8006, Serve::Hold).expect("a listener"),
        topology.listen_by(1, 8007, Serve::Hold).expect("a listener"),
    ];
    let series = [(1, 8001), (1, 8002), (0, 8002), (1, 8003), (1, 8004), (1, 8005), (1, 8006), (1, 8007)];
    let probers = probe(&topology, &series);
    let seen = look(&topology);
    seen.assert_faults(
        &[
            refused("eth1", 8001, "nothing-listening").shows(&["8001"]),
            refused("eth1", 8002, "bound-elsewhere").shows(&["10.4.2.101:8002"]),
            refused("eth1", 8003, "bound-elsewhere").shows(&["8003", "eth0"]),
            refused("eth1", 8004, "bound-elsewhere").shows(&["127.0.0.1:8004"]),
            refused("eth1", 8005, "bound-elsewhere").shows(&["[::1]:8005"]),
        ],
        &[("eth0", 8002), ("eth1", 8006), ("eth1", 8007)],
        &[],
    );
    assert!(probers[0].answered() == 0 && probers[7].answered() >= 3);
}

/// The listeners live; a rule says no for them.
#[test]
fn a_rule_rejects_the_probe() {
    let topology = routed(&Plan::default());
    let ports = [8001, 8002, 8003, 8004, 8005, 8006];
    let _listeners = ports.map(|port| topology.listen(port, Serve::Hold).expect("a listener"));
    nft(
        &topology.nva,
        "table inet guard {
           chain input {
             type filter hook input priority filter;
             tcp dport 8001 reject with tcp reset
             tcp dport 8002 reject with icmpx admin-prohibited
             tcp dport 8003 jump deny
           }
           chain deny { counter reject with icmp port-unreachable; }
         }",
    );
    tool(&topology.nva, "iptables-legacy -w -A INPUT -p tcp --dport 8004 -j REJECT --reject-with tcp-reset");
    tool(&topology.nva, "iptables -w -A INPUT -p tcp --dport 8005 -j REJECT");
    let _probers = probe(&topology, &ports.map(|port| (1, port)));
    let seen = look(&topology);
    seen.assert_faults(
        &[
            refused("eth1", 8001, "reject-rule").shows(&["input", "guard"]),
            rejected("eth1", 8002, "reject-rule").shows(&["input", "guard"]),
            rejected("eth1", 8003, "reject-rule").shows(&["deny"]),
            refused("eth1", 8004, "reject-rule").shows(&["filter", "INPUT"]),
            rejected("eth1", 8005, "reject-rule").shows(&["filter", "INPUT"]),
        ],
        &[("eth1", 8006)],
        &[],
    );
}

/// A rule that rejects where nothing listens either: the rule is what answers.
#[test]
fn a_rule_rejects_what_nobody_serves() {
    let topology = routed(&Plan::default());
    nft(
        &topology.nva,
        "table inet guard {
           chain input { type filter hook input priority filter; iifname \"eth1\" tcp dport 8008 reject with tcp reset; }
         }",
    );
    let _probers = probe(&topology, &[(0, PORT), (1, PORT)]);
    let seen = look(&topology);
    seen.assert_faults(
        &[refused("eth0", PORT, "nothing-listening"), refused("eth1", PORT, "reject-rule").shows(&["guard"])],
        &[],
        &[],
    );
}

#[test]
fn the_accept_queue_is_full() {
    let topology = routed(&Plan::default());
    let deaf = topology.deaf(0, PORT, 2).expect("a listener");
    let _other = topology.listen_at(1, PORT, Serve::Hold).expect("a listener");
    let probers = probe(&topology, &[(0, PORT), (1, PORT)]);
    until("the queue is full", || probers[0].answered() == 3);
    let seen = look(&topology);
    let address = deaf.address().expect("it listens").to_string();
    let shows = [address.as_str(), "backlog", "ListenOverflows"];
    let fault = silent("eth0", PORT, "accept-queue-full").shows(&shows);
    seen.assert_faults(&[fault], &[("eth1", PORT)], &[]);
}

#[test]
fn ipv6_listeners_are_told_apart_as_well() {
    let topology = routed(&Plan { ipv6: true, ..Plan::default() });
    let target = |nic, port| topology.target6(nic, port).expect("an IPv6 address");
    let _listeners = [
        Listener::start(&topology.nva, target(0, 8002), None, Serve::Hold).expect("a listener"),
        topology.listen(8003, Serve::Hold).expect("a listener"),
        // IPv4 only.
        Listener::start(&topology.nva, SocketAddr::from(([0, 0, 0, 0], 8004)), None, Serve::Hold)
            .expect("a listener"),
    ];
    nft(
        &topology.nva,
        "table ip6 guard {
           chain input { type filter hook input priority 0; tcp dport 8003 reject with icmpv6 admin-prohibited; }
         }",
    );
    let _probers = [8001, 8002, 8003, 8004].map(|port| probe_at(&topology, 1, target(1, port)));
    let seen = look(&topology);
    seen.assert_faults(
        &[
            refused("eth1", 8001, "nothing-listening"),
            refused("eth1", 8002, "bound-elsewhere").shows(&["fd00:4:2::101"]),
            rejected("eth1", 8003, "reject-rule").shows(&["guard"]),
            refused("eth1", 8004, "bound-elsewhere").shows(&["0.0.0.0:8004"]),
        ],
        &[],
        &[],
    );
}

/// A redirect to another port of this host: what listens on the probed port is not asked.
#[test]
fn a_redirect_to_a_port_where_nothing_listens() {
    let topology = routed(&Plan::default());
    let _listeners = [8001, 9002].map(|port| topology.listen(port, Serve::Hold).expect("a listener"));
    nft(
        &topology.nva,
        "table ip nat {
           chain in {
             type nat hook prerouting priority dstnat;
             tcp dport 8001 redirect to :9001
             tcp dport 8002 redirect to :9002
           }
         }",
    );
    let _probers = probe(&topology, &[(1, 8001), (1, 8002)]);
    let seen = look(&topology);
    let fault = refused("eth1", 8001, "nothing-listening").shows(&["9001"]);
    seen.assert_faults(&[fault], &[("eth1", 8002)], &[]);
}
