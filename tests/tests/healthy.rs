//! Configurations that are right: every probe is OK and nothing is found above info.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use ipnet::IpNet;
use nvaprobe_tests::{
    fault::{nft, probe, probe_at},
    observe::{EVERY, PORT, WINDOW, look, observe, settings},
    process::tool,
};
use probe_user::{
    config::Judging,
    lab::{
        listener::{Listener, Serve},
        netlink::Netlink,
        prober::Probe,
        route::{MAIN, Rule},
        sysctl,
        topology::{FIRST_TABLE, Plan, Topology},
    },
    monitor::Settings,
    probe::{Expected, Rules, rules::Role},
    report::document::{Severity, Verdict},
};

fn built(plan: &Plan) -> (Topology, Listener) {
    let topology = Topology::build(plan).expect("a topology");
    let listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    (topology, listener)
}

/// A table for each NIC with its default route, and a rule that leads there.
fn rules(topology: &Topology, rule: impl Fn(usize) -> Rule + Sync) {
    let add = |netlink: &Netlink| {
        (0..topology.nics.len()).try_for_each(|nic| {
            let table = FIRST_TABLE + nic as u32;
            netlink.route_add(&topology.default_route(nic).table(table))?;
            netlink.rule_add(&Rule { table, priority: Some(100 + nic as u32), ..rule(nic) })
        })
    };
    topology.nva.netlink(add).expect("policy routing");
}

fn from(topology: &Topology, nic: usize) -> IpNet {
    IpNet::from(IpAddr::V4(topology.nics[nic].address))
}

/// A TCP prober on every NIC, and all is well.
fn assert_all_healthy(topology: &Topology) {
    let series: Vec<_> = (0..topology.nics.len()).map(|nic| (nic, PORT)).collect();
    let probers = probe(topology, &series);
    look(topology).assert_healthy(series.len());
    assert!(probers.iter().all(|prober| prober.answered() >= 4));
}

#[test]
fn rules_by_from() {
    let (topology, _listener) = built(&Plan { rp_filter: 1, ..Plan::default() });
    topology.route(&topology.default_route(0)).expect("a route");
    rules(&topology, |nic| Rule { from: Some(from(&topology, nic)), ..Rule::default() });
    assert_all_healthy(&topology);
}

/// `iif lo` is what this host itself sends.
#[test]
fn rules_by_from_and_to_and_iif() {
    let (topology, _listener) = built(&Plan::default());
    topology.primary_route().expect("a route");
    rules(&topology, |nic| Rule { iif: Some("lo".to_owned()), ..topology.policy_rule(nic) });
    assert_all_healthy(&topology);
}

/// A mark that conntrack carries from the probe to its reply; strict rp_filter sees it by src_valid_mark.
#[test]
fn rules_by_connmark() {
    let (topology, _listener) = built(&Plan { rp_filter: 1, ..Plan::default() });
    topology.primary_route().expect("a route");
    for nic in ["all", "eth0", "eth1"] {
        sysctl::set(&topology.nva, &format!("ipv4/conf/{nic}/src_valid_mark"), "1").expect("a sysctl");
    }
    nft(
        &topology.nva,
        "table ip marks {
           chain in {
             type filter hook prerouting priority mangle;
             iifname \"eth0\" ct state new ct mark set 1
             iifname \"eth1\" ct state new ct mark set 2
             meta mark set ct mark
           }
           chain out { type route hook output priority mangle; meta mark set ct mark; }
         }",
    );
    rules(&topology, |nic| Rule { fwmark: Some(nic as u32 + 1), fwmask: Some(0xff), ..Rule::default() });
    assert_all_healthy(&topology);
}

/// The socket answers with the mark of the probe.
#[test]
fn rules_by_mark_with_fwmark_accept() {
    let (topology, _listener) = built(&Plan::default());
    topology.primary_route().expect("a route");
    sysctl::set(&topology.nva, "ipv4/tcp_fwmark_accept", "1").expect("a sysctl");
    tool(&topology.nva, "iptables -w -t mangle -A PREROUTING -i eth1 -j MARK --set-mark 2");
    let table = FIRST_TABLE + 1;
    let rule = Rule { fwmark: Some(2), priority: Some(100), table, ..Rule::default() };
    let route = topology.probe_route(1).table(table);
    topology
        .nva
        .netlink(|netlink| netlink.route_add(&route).and_then(|()| netlink.rule_add(&rule)))
        .expect("policy routing");
    assert_all_healthy(&topology);
}

/// What the socket answers from port 8008.
#[test]
fn rules_by_port() {
    let (topology, _listener) = built(&Plan::default());
    topology.primary_route().expect("a route");
    topology.policy_routing(1).expect("policy routing");
    tool(
        &topology.nva,
        "ip rule del priority 101 && ip rule add from 10.4.3.101 ipproto tcp sport 8008 lookup 202 priority 101",
    );
    assert_all_healthy(&topology);
}

/// The main table without its default route, then a table of one's own, as VPN tools have it.
#[test]
fn rules_that_suppress_the_default_route() {
    let (topology, _listener) = built(&Plan { rp_filter: 1, ..Plan::default() });
    topology.route(&topology.default_route(0)).expect("a route");
    topology.route(&topology.default_route(1).table(51820)).expect("a route");
    tool(
        &topology.nva,
        "ip rule add lookup main suppress_prefixlength 0 priority 10 && \
         ip rule add not from 10.4.2.101 lookup 51820 priority 20",
    );
    assert_all_healthy(&topology);
}

#[test]
fn one_nic() {
    let (topology, _listener) = built(&Plan { nics: 1, rp_filter: 1, ..Plan::default() });
    topology.route(&topology.default_route(0).protocol(16).metric(100)).expect("a route");
    topology.route(&topology.probe_route(0).protocol(16).metric(100)).expect("a route");
    assert_all_healthy(&topology);
}

/// The main table is asked only for what is not a default route, then each NIC's own.
#[test]
fn three_nics_with_strict_reverse_path_filter() {
    let (topology, _listener) = built(&Plan { nics: 3, rp_filter: 1, ..Plan::default() });
    topology.route(&topology.default_route(2)).expect("a route");
    rules(&topology, |nic| topology.policy_rule(nic));
    assert_all_healthy(&topology);
}

#[test]
fn two_nics_in_one_subnet() {
    let (topology, _listener) = built(&Plan { same_subnet: true, ..Plan::default() });
    topology.primary_route().expect("a route");
    rules(&topology, |nic| Rule { from: Some(from(&topology, nic)), ..Rule::default() });
    assert_all_healthy(&topology);
}

#[test]
fn ipv4_and_ipv6_on_both_nics() {
    let (topology, _listener) = built(&Plan { ipv6: true, rp_filter: 2, ..Plan::default() });
    topology.primary_route().expect("a route");
    topology.policy_routing(1).expect("policy routing");
    let _v6 = topology.listen(8006, Serve::Hold).expect("a listener");
    let _v4 = probe(&topology, &[(0, PORT), (1, PORT)]);
    let _probers = [0, 1].map(|nic| {
        let target = topology.target6(nic, 8006).expect("an IPv6 address");
        probe_at(&topology, nic, target)
    });
    look(&topology).assert_healthy(4);
}

/// A standby refuses on purpose: that is said, and no alarm.
#[test]
fn a_standby_that_refuses() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    topology.policy_routing(1).expect("policy routing");
    let rules = Rules { interval: Some(EVERY), ..Rules::default() };
    let expected = ["eth0", "eth1"].map(|nic| Expected {
        nic: nic.to_owned(),
        port: PORT,
        protocol: None,
        role: Role::Standby,
        rules: rules.clone(),
    });
    let _probers = probe(&topology, &[(0, PORT), (1, PORT)]);
    let judging = Judging { expected: expected.to_vec(), ..Judging::default() };
    let seen = observe(&topology.nva, Settings { judging, ..settings(&topology) }, WINDOW, || {});
    for nic in ["eth0", "eth1"] {
        seen.assert_verdict(nic, PORT, Verdict::Refused, None);
    }
    let above: Vec<_> = seen.report.findings.iter().filter(|f| f.severity != Severity::Info).collect();
    assert!(above.is_empty(), "{above:#?}");
}

/// The appliance does its work: it forwards and translates what is no probe.
#[test]
fn masquerade_of_forwarded_traffic() {
    let (topology, _listener) = built(&Plan { backend: true, ..Plan::default() });
    topology.route(&topology.default_route(0)).expect("a route");
    topology.policy_routing(1).expect("policy routing");
    nft(
        &topology.nva,
        "table ip nat {
           chain out { type nat hook postrouting priority srcnat; oifname \"eth0\" masquerade; }
           chain in { type nat hook prerouting priority dstnat; iifname \"eth0\" tcp dport 443 dnat to 10.9.0.10; }
         }
         table inet filter {
           chain forward {
             type filter hook forward priority filter; policy drop;
             ct state established,related accept
             iifname \"eth2\" oifname \"eth0\" accept
           }
         }",
    );
    let backend = topology.backend.as_ref().expect("the plan has one");
    backend
        .namespace
        .run(|| {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a socket");
            for _ in 0..20 {
                socket.send_to(b"data", (Ipv4Addr::new(203, 0, 113, 9), 4500)).expect("a datagram");
            }
        })
        .expect("the namespace can be entered");
    assert_all_healthy(&topology);
    assert!(topology.fabrics[0].strays().others >= 20, "forwarded: {:?}", topology.fabrics[0].strays());
}

/// Sets, maps, jumps, counters, limits, and drops of what is no probe, in every kind of table.
#[test]
fn a_busy_packet_filter() {
    let (topology, _listener) = built(&Plan::default());
    topology.primary_route().expect("a route");
    topology.policy_routing(1).expect("policy routing");
    nft(
        &topology.nva,
        "table inet filter {
           set probers { type ipv4_addr; flags interval; elements = { 168.63.129.16, 169.254.169.254, 35.191.0.0/16 } }
           set bad { type ipv4_addr; flags interval; elements = { 192.0.2.0/24, 198.51.100.7 } }
           set scanners { type ipv4_addr; flags dynamic, timeout; timeout 1m; }
           map services { type inet_service : verdict; elements = { 22 : drop, 8008 : accept, 443 : jump web } }
           counter seen { }
           chain web { ct state new limit rate 10/second accept; drop; }
           chain local { ip saddr @probers counter name seen tcp dport vmap @services; tcp dport 1-1023 reject with tcp reset; }
           chain input {
             type filter hook input priority filter; policy drop;
             iifname \"lo\" accept
             ct state vmap { established : accept, related : accept, invalid : drop }
             ip saddr @bad counter drop
             ip saddr @scanners drop
             tcp dport 23 add @scanners { ip saddr } drop
             icmpv6 type { nd-neighbor-solicit, nd-router-advert, nd-neighbor-advert } accept
             meta l4proto tcp jump local
             counter reject
           }
           chain forward { type filter hook forward priority filter; policy drop; }
           chain output {
             type filter hook output priority filter; policy accept;
             ip daddr 168.63.129.16 tcp dport { 80, 32526 } meta skuid != 0 drop
             ip daddr @bad reject
             tcp sport 9999 drop
           }
         }
         table ip early {
           chain in { type filter hook prerouting priority raw; ip saddr 192.0.2.0/24 drop; udp dport 53 notrack; }
           chain out { type filter hook output priority security; ip daddr 168.63.129.16 tcp sport != 8008 drop; }
         }
         table netdev wire {
           chain eth { type filter hook ingress device \"eth0\" priority 0; udp dport 1900 drop; }
         }",
    );
    tool(
        &topology.nva,
        "iptables-legacy -w -t mangle -A FORWARD -d 168.63.129.16 -j DROP && \
         iptables-legacy -w -A INPUT -s 168.63.129.16 -p udp -j DROP && \
         iptables -w -t security -A OUTPUT -d 168.63.129.16 -p tcp -m conntrack --ctstate INVALID,NEW -j DROP",
    );
    assert_all_healthy(&topology);
}

/// A listener for each NIC's address.
#[test]
fn listeners_by_address() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    topology.policy_routing(1).expect("policy routing");
    let _listeners = [0, 1].map(|nic| topology.listen_at(nic, PORT, Serve::Hold).expect("a listener"));
    assert_all_healthy(&topology);
}

/// Listeners bound to their device answer by it, whatever the routes say.
#[test]
fn listeners_by_device_without_policy_routing() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    let _listeners = [0, 1].map(|nic| topology.listen_by(nic, PORT, Serve::Hold).expect("a listener"));
    assert_all_healthy(&topology);
}

/// One connection for many requests.
#[test]
fn an_http_prober_that_keeps_its_connection() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    topology.policy_routing(1).expect("policy routing");
    let listener = topology.listen(PORT, Serve::OK).expect("a listener");
    // A connection that is older than the observer would be nobody's.
    let started = || {
        for nic in [0, 1] {
            let probe = Probe::http(topology.target(nic, PORT), "/health").every(EVERY).reuse();
            topology.fabrics[nic].probe(probe).expect("a prober");
        }
    };
    observe(&topology.nva, settings(&topology), WINDOW, started).assert_healthy(2);
    assert_eq!(listener.accepted(), 2, "one connection each");
}

/// IPsec for others, and an exception for the platform.
#[test]
fn ipsec_policies_that_spare_the_platform() {
    let (topology, _listener) = built(&Plan::default());
    topology.primary_route().expect("a route");
    topology.policy_routing(1).expect("policy routing");
    let tunnel = "tmpl src 10.4.2.101 dst 203.0.113.1 proto esp reqid 1 mode tunnel";
    tool(
        &topology.nva,
        &format!(
            "ip xfrm policy add src 0.0.0.0/0 dst 168.63.129.16/32 dir out priority 1 action allow && \
             ip xfrm policy add src 10.4.0.0/16 dst 10.200.0.0/16 dir out priority 50 {tunnel} && \
             ip xfrm policy add src 10.4.0.0/16 dst 0.0.0.0/0 dir out priority 100 {tunnel}"
        ),
    );
    assert_all_healthy(&topology);
}

/// The default route and the source's own differ; rules that lead nowhere and to the main table stand about.
#[test]
fn idle_rules_and_routes() {
    let (topology, _listener) = built(&Plan::default());
    topology.route(&topology.default_route(1).metric(50)).expect("a route");
    topology.primary_route().expect("a route");
    topology.policy_routing(1).expect("policy routing");
    let idle = [
        Rule {
            from: Some("10.200.0.0/16".parse().expect("a prefix")),
            table: 99,
            priority: Some(10),
            ..Rule::default()
        },
        Rule { from: Some(from(&topology, 1)), table: 98, priority: Some(20), ..Rule::default() },
        Rule { iif: Some("eth1".to_owned()), table: MAIN, priority: Some(30), ..Rule::default() },
        Rule { fwmark: Some(7), table: 97, priority: Some(40), ..Rule::default() },
    ];
    topology.nva.netlink(|netlink| idle.iter().try_for_each(|rule| netlink.rule_add(rule))).expect("rules");
    assert_all_healthy(&topology);
}
