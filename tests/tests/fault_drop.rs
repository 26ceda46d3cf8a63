//! Something on the host drops the probe or its reply: group B of the scenarios.

use nvaprobe_tests::{
    fault::{misrouted, nft, probe, silent},
    observe::{PORT, look},
    process::tool,
};
use probe_user::lab::{
    fabric::Running,
    listener::{Listener, Serve},
    sysctl,
    topology::{Plan, Topology},
};

/// Policy routing done right, and a listener on each port.
fn routed(ports: impl IntoIterator<Item = u16>) -> (Topology, Vec<Listener>) {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    topology.policy_routing(1).expect("policy routing");
    let listen = |port| topology.listen(port, Serve::Hold).expect("a listener");
    let listeners = ports.into_iter().map(listen).collect();
    (topology, listeners)
}

/// Four NICs, the host route on the first; the NICs' own values beside that of `all`.
fn reverse_path_filters(all: &str, nics: [&str; 4]) -> (Topology, Listener) {
    let topology = Topology::build(&Plan { nics: 4, ..Plan::default() }).expect("a topology");
    topology.primary_route().expect("a route");
    sysctl::set(&topology.nva, "ipv4/conf/all/rp_filter", all).expect("a sysctl");
    for (nic, value) in topology.nics.iter().zip(nics) {
        sysctl::set(&topology.nva, &format!("ipv4/conf/{}/rp_filter", nic.name), value).expect("a sysctl");
    }
    let listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    (topology, listener)
}

fn probe_four(topology: &Topology) -> Vec<Running> {
    probe(topology, &[0, 1, 2, 3].map(|nic| (nic, PORT)))
}

const REVERSE_ROUTE: &str = "168.63.129.16 via 10.4.2.1 dev eth0";

/// What counts is the greater of `all` and the NIC's; strict is 1, loose is 2
/// (Documentation/networking/ip-sysctl.rst).
#[test]
fn s23_strict_reverse_path_filter_everywhere_but_where_it_is_loose() {
    let (topology, _listener) = reverse_path_filters("1", ["0", "0", "1", "2"]);
    let probers = probe_four(&topology);
    let seen = look(&topology);
    let strict = |nic| silent(nic, PORT, "rp-filter").shows(&["rp_filter", REVERSE_ROUTE]);
    let loose = misrouted("eth3", PORT, "eth0");
    seen.assert_faults(&[strict("eth1"), strict("eth2"), loose], &[("eth0", PORT)], &[]);
    assert!(probers[1..].iter().all(|prober| prober.answered() == 0));
}

#[test]
fn s23_strict_reverse_path_filter_on_one_nic() {
    let (topology, _listener) = reverse_path_filters("0", ["1", "1", "0", "2"]);
    let _probers = probe_four(&topology);
    let seen = look(&topology);
    let strict = silent("eth1", PORT, "rp-filter").shows(&["rp_filter", REVERSE_ROUTE]);
    let others = ["eth2", "eth3"].map(|nic| misrouted(nic, PORT, "eth0"));
    seen.assert_faults(&[strict, others[0], others[1]], &[("eth0", PORT)], &[]);
}

#[test]
fn s24_loose_reverse_path_filter_drops_nothing() {
    let (topology, _listener) = reverse_path_filters("2", ["0", "0", "1", "2"]);
    let _probers = probe_four(&topology);
    let seen = look(&topology);
    let faults = ["eth1", "eth2", "eth3"].map(|nic| misrouted(nic, PORT, "eth0"));
    seen.assert_faults(&faults, &[("eth0", PORT)], &[]);
}

/// Azure's guest agent: everything to the platform by TCP, in a table that nobody looks at.
#[test]
fn s26_the_agents_firewall_drops_replies() {
    let (topology, _listeners) = routed([PORT]);
    tool(&topology.nva, "iptables -w -t security -A OUTPUT -d 168.63.129.16/32 -p tcp -j DROP");
    let _probers = probe(&topology, &[(0, PORT), (1, PORT)]);
    let seen = look(&topology);
    let shows: &[&str] = &["security", "OUTPUT"];
    seen.assert_faults(
        &[silent("eth0", PORT, "output-drop").shows(shows), silent("eth1", PORT, "output-drop").shows(shows)],
        &[],
        &[],
    );
}

/// Every place of an output rule, a port each.
#[test]
fn s26_any_table_can_drop_a_reply() {
    let rows: [(u16, &[&str]); 8] = [
        (8001, &["by_security", "guard"]),
        (8002, &["by_raw"]),
        (8003, &["by_mangle"]),
        (8004, &["by_seventy_seven"]),
        (8005, &["raw", "OUTPUT"]),
        (8006, &["mangle", "POSTROUTING"]),
        (8007, &["security", "OUTPUT"]),
        (8008, &["by_set", "banned"]),
    ];
    let ports = rows.map(|(port, _)| port);
    let (topology, _listeners) = routed(ports.into_iter().chain([8009]));
    nft(
        &topology.nva,
        "table ip guard {
           chain by_security { type filter hook output priority security; tcp sport 8001 ip daddr 168.63.129.16 drop; }
           chain by_raw { type filter hook output priority raw; tcp sport 8002 counter drop; }
           chain by_mangle { type route hook output priority mangle; tcp sport 8003 drop; }
         }
         table inet other {
           set banned { type ipv4_addr; elements = { 168.63.129.16 } }
           chain by_seventy_seven { type filter hook postrouting priority 77; tcp sport 8004 drop; }
           chain entry { type filter hook output priority filter; tcp sport 8008 jump by_set; }
           chain by_set { ip daddr @banned drop; }
         }",
    );
    tool(&topology.nva, "iptables -w -t raw -A OUTPUT -p tcp --sport 8005 -j DROP");
    tool(&topology.nva, "iptables -w -t mangle -A POSTROUTING -p tcp --sport 8006 -j DROP");
    tool(
        &topology.nva,
        "iptables-legacy -w -t security -A OUTPUT -p tcp --sport 8007 -d 168.63.129.16 -j DROP",
    );
    let series: Vec<_> = ports.into_iter().chain([8009]).map(|port| (0, port)).collect();
    let _probers = probe(&topology, &series);
    let seen = look(&topology);
    let faults = rows.map(|(port, shows)| silent("eth0", port, "output-drop").shows(shows));
    seen.assert_faults(&faults, &[("eth0", 8009)], &[]);
}

/// The agent's newer rule spares what conntrack knows; a probe that is not tracked is new to it.
#[test]
fn s27_untracked_probes_meet_a_rule_for_new_connections() {
    let (topology, _listeners) = routed([8001, 8002]);
    nft(
        &topology.nva,
        "table ip lockdown {
           chain untrack { type filter hook prerouting priority raw; tcp dport 8001 notrack; }
           chain agent {
             type filter hook output priority security;
             ip daddr 168.63.129.16 tcp sport 1-65535 ct state invalid,new drop
           }
         }",
    );
    let _probers = probe(&topology, &[(0, 8001), (0, 8002)]);
    let seen = look(&topology);
    let fault = silent("eth0", 8001, "output-drop").shows(&["agent", "ct state"]);
    seen.assert_faults(&[fault], &[("eth0", 8002)], &[]);
}

#[test]
fn s29_the_allow_rule_is_for_the_other_nic() {
    let (topology, _listeners) = routed([PORT]);
    nft(
        &topology.nva,
        "table inet filter {
           chain input {
             type filter hook input priority filter; policy drop;
             iifname \"lo\" accept
             ct state established,related accept
             icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept
             iifname \"eth0\" tcp dport 8008 accept
           }
         }",
    );
    let _probers = probe(&topology, &[(0, PORT), (1, PORT)]);
    let seen = look(&topology);
    let fault = silent("eth1", PORT, "input-drop").shows(&["input", "policy"]);
    seen.assert_faults(&[fault], &[("eth0", PORT)], &[]);
}

fn default_drop(iptables: &str) {
    let (topology, _listeners) = routed([PORT]);
    tool(
        &topology.nva,
        &format!(
            "{iptables} -w -A INPUT -i eth0 -p tcp --dport 8008 -j ACCEPT && {iptables} -w -P INPUT DROP"
        ),
    );
    let _probers = probe(&topology, &[(0, PORT), (1, PORT)]);
    let seen = look(&topology);
    let fault = silent("eth1", PORT, "input-drop").shows(&["INPUT", "policy"]);
    seen.assert_faults(&[fault], &[("eth0", PORT)], &[]);
}

#[test]
fn s29_the_same_with_iptables() {
    default_drop("iptables");
}

#[test]
fn s29_the_same_with_legacy_iptables() {
    default_drop("iptables-legacy");
}

/// Every place of an input rule, a port each.
#[test]
fn any_table_can_drop_a_probe() {
    let rows: [(u16, &[&str]); 6] = [
        (8001, &["early", "guard"]),
        (8002, &["by_mangle"]),
        (8003, &["by_security"]),
        (8004, &["at_ingress", "eth1"]),
        (8005, &["mangle", "PREROUTING"]),
        (8006, &["by_source"]),
    ];
    let ports = rows.map(|(port, _)| port);
    let (topology, _listeners) = routed(ports.into_iter().chain([8007]));
    nft(
        &topology.nva,
        "table ip guard {
           chain early { type filter hook prerouting priority raw; tcp dport 8001 drop; }
           chain by_mangle { type filter hook input priority mangle; tcp dport 8002 drop; }
           chain by_security { type filter hook input priority security; tcp dport 8003 drop; }
           chain entry { type filter hook input priority filter; tcp dport 8006 goto by_source; }
           chain by_source { ip saddr != 10.4.0.0/16 drop; }
         }
         table netdev wire {
           chain at_ingress { type filter hook ingress device \"eth1\" priority 0; tcp dport 8004 drop; }
         }",
    );
    tool(&topology.nva, "iptables-legacy -w -t mangle -A PREROUTING -p tcp --dport 8005 -j DROP");
    let series: Vec<_> = ports.into_iter().chain([8007]).map(|port| (1, port)).collect();
    let _probers = probe(&topology, &series);
    let seen = look(&topology);
    let faults = rows.map(|(port, shows)| silent("eth1", port, "input-drop").shows(shows));
    seen.assert_faults(&faults, &[("eth1", 8007)], &[]);
}

/// IPv6 has rules of its own.
#[test]
fn ip6tables_drops_what_iptables_lets_through() {
    let plan = Plan { ipv6: true, ..Plan::default() };
    let topology = Topology::build(&plan).expect("a topology");
    topology.primary_route().expect("a route");
    let _listeners = [8001, 8002].map(|port| topology.listen(port, Serve::Hold).expect("a listener"));
    tool(&topology.nva, "ip6tables -w -A INPUT -p tcp --dport 8001 -j DROP");
    tool(&topology.nva, "ip6tables -w -t raw -A OUTPUT -p tcp --sport 8002 -j DROP");
    let _probers = [8001, 8002].map(|port| {
        let target = topology.target6(1, port).expect("an IPv6 address");
        nvaprobe_tests::fault::probe_at(&topology, 1, target)
    });
    let _v4 = probe(&topology, &[(0, 8001)]);
    let seen = look(&topology);
    seen.assert_faults(
        &[
            silent("eth1", 8001, "input-drop").shows(&["INPUT"]),
            silent("eth1", 8002, "output-drop").shows(&["raw", "OUTPUT"]),
        ],
        &[("eth0", 8001)],
        &[],
    );
}

/// A reverse-path filter of the packet filter's own: the sysctl is innocent.
#[test]
fn a_rule_that_filters_by_reverse_path() {
    let topology = Topology::build(&Plan { nics: 3, ..Plan::default() }).expect("a topology");
    topology.primary_route().expect("a route");
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    nft(
        &topology.nva,
        "table inet firewalld {
           chain filter_PREROUTING {
             type filter hook prerouting priority filter + 10;
             iifname \"eth1\" fib saddr . iif oif missing drop
           }
         }",
    );
    tool(&topology.nva, "iptables -w -t raw -A PREROUTING -i eth2 -m rpfilter --invert -j DROP");
    let _probers = probe(&topology, &[(0, PORT), (1, PORT), (2, PORT)]);
    let seen = look(&topology);
    seen.assert_faults(
        &[
            silent("eth1", PORT, "input-drop").shows(&["firewalld", "filter_PREROUTING"]),
            silent("eth2", PORT, "input-drop").shows(&["raw", "PREROUTING"]),
        ],
        &[("eth0", PORT)],
        &[],
    );
}

/// A classifier of somebody else drops what ours has seen.
#[test]
fn a_foreign_classifier_drops_the_probe() {
    let (topology, _listeners) = routed([PORT]);
    tool(
        &topology.nva,
        // One instruction: return 2, which is TC_ACT_SHOT.
        "tc qdisc add dev eth1 clsact && tc filter add dev eth1 ingress protocol ip bpf da bytecode '1,6 0 0 2,'",
    );
    let _probers = probe(&topology, &[(0, PORT), (1, PORT)]);
    let seen = look(&topology);
    let fault = silent("eth1", PORT, "input-drop").shows(&["TC_INGRESS"]);
    seen.assert_faults(&[fault], &[("eth0", PORT)], &[]);
}
