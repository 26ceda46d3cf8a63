//! `host` against a real kernel: an anonymous network namespace is built with `ip`, read, compared with what
//! `ip` says, and repaired with the fix that is printed.

use std::{
    net::IpAddr,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

use nvaprobe_tests::namespace::{in_namespace, run, sh};
use probe_user::{
    fix,
    host::{
        Facts,
        links::{Layer2, XdpMode},
        lookup::{Outcome, Query, Rejection, RouteLookup},
        routes::{Route, RouteKind},
        selection::Choice,
        tables::{LOCAL, MAIN},
    },
    source,
};

const PROBER: &str = "168.63.129.16";
const ETH1: &str = "10.4.3.101";

/// T2: two veth NICs, peers in the same namespace.
const T2: &str = "ip link set lo up
ip link add eth0 type veth peer name p0
ip link add eth1 type veth peer name p1
ip link set eth0 address 02:00:00:00:00:a0 mtu 1400
for link in eth0 eth1 p0 p1; do ip link set $link up; done
ip addr add 10.4.2.101/24 dev eth0
ip addr add 10.4.3.101/24 dev eth1";

const PRI: &str = "ip route add 168.63.129.16 via 10.4.2.1 dev eth0 proto static metric 100";

const S09_RULE: &str = "ip rule add from 10.4.3.101 to 168.63.129.16 lookup 201";

fn read() -> Facts {
    let facts = run(Facts::read()).expect("facts");
    assert_eq!(facts.unread, []);
    facts
}

fn ask(facts: &Facts, from: &str, to: &str, nic: &str) -> RouteLookup {
    let nic = facts.links.by_name(nic).expect("the NIC").index;
    let query = Query::reply(from.parse().unwrap(), 8008, to.parse().unwrap(), nic);
    run(facts.lookup(query))
}

/// Device, matched route, rule.
fn way(facts: &Facts, lookup: &RouteLookup) -> (String, String, String) {
    let chosen = lookup.chosen().unwrap_or_else(|| panic!("{lookup:#?}"));
    let Choice::Rule(rule) = &lookup.rule else { panic!("{lookup:#?}") };
    let matched = chosen.matched.as_ref().expect("a matched route");
    assert_eq!(chosen.table, Some(matched.table));
    (chosen.hop.device.clone(), matched.evidence(&facts.tables), rule.text(&facts.tables))
}

/// Applies the printed fix and tells where the reply goes now.
fn repaired(facts: &Facts, lookup: &RouteLookup, nic: &str) -> (String, String, String) {
    let Choice::Rule(rule) = &lookup.rule else { panic!("{lookup:#?}") };
    let from = lookup.query.from.expect("a source address");
    let misroute = fix::Misroute {
        nic: nic.to_owned(),
        from,
        to: source::parse(&lookup.query.to.to_string()).expect("an address"),
        rule: Some(rule.clone()),
        route: lookup.chosen().and_then(|chosen| chosen.matched.clone()),
    };
    let policy = fix::plan(facts, &[misroute]).remove(0).expect("a fix");
    for fix in fix::render(&policy) {
        sh(&fix.text);
    }
    let facts = read();
    let lookup = ask(&facts, &from.to_string(), &lookup.query.to.to_string(), nic);
    way(&facts, &lookup)
}

fn fixed(table: u32, priority: u32, nic: &str, gateway: &str, from: &str) -> (String, String, String) {
    (
        nic.to_owned(),
        format!("{PROBER} via {gateway} dev {nic}, table {table}"),
        format!("{priority}: from {from} to {PROBER} lookup {table}"),
    )
}

#[test]
fn links_and_addresses_are_read() {
    let more = "ip link add br0 type bridge && ip link set p1 master br0 && ip link set br0 up
ip link add vx0 type vxlan id 800 dstport 10800 local 10.4.2.101 dev eth0
ip tuntap add tun0 mode tun
ip -6 addr add fd00:2::65/64 dev eth0 nodad";
    in_namespace(&[T2, more], || {
        let facts = read();
        let eth0 = facts.links.by_name("eth0").unwrap();
        assert_eq!((eth0.mac, eth0.mtu), (Some([2, 0, 0, 0, 0, 0xa0]), 1400));
        assert!(eth0.up && eth0.running && !eth0.slave && !eth0.loopback);
        assert_eq!((eth0.kind.as_deref(), eth0.driver.as_deref()), (Some("veth"), Some("veth")));
        assert_eq!((eth0.layer2, eth0.xdp, eth0.master), (Layer2::Ethernet, None, None));
        assert_eq!(eth0.lower, facts.links.by_name("p0").map(|peer| peer.index));

        let lo = facts.links.by_name("lo").unwrap();
        assert!(lo.loopback && lo.mac.is_none());
        let tun = facts.links.by_name("tun0").unwrap();
        assert_eq!((tun.layer2, tun.up, tun.kind.as_deref()), (Layer2::None, false, Some("tun")));
        assert_eq!(facts.links.by_name("vx0").unwrap().kind.as_deref(), Some("vxlan"));
        let port = facts.links.by_name("p1").unwrap();
        assert_eq!(port.master, facts.links.by_name("br0").map(|bridge| bridge.index));
        assert_eq!(facts.links.logical_nic(port.index), port.index);
        let mut nics: Vec<_> = facts.links.physical().iter().map(|link| link.name.clone()).collect();
        nics.sort();
        assert_eq!(nics, ["eth0", "eth1", "p0"]);

        let of_eth0: Vec<_> = facts
            .addresses
            .iter()
            .filter(|address| address.link == eth0.index && address.global)
            .map(|address| address.net.to_string())
            .collect();
        assert_eq!(of_eth0, ["10.4.2.101/24", "fd00:2::65/64"]);
    });
}

/// `bpf(2)` with the attribute bytes given.
fn bpf(command: libc::c_long, attributes: &mut [u64; 16]) -> OwnedFd {
    // SAFETY: `attributes` is a zero-padded `union bpf_attr` of the size given, and every pointer in it outlives
    // the call.
    let fd =
        unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), size_of_val(attributes)) };
    assert!(fd >= 0, "bpf {command}: {}", std::io::Error::last_os_error());
    // SAFETY: the kernel just returned this descriptor to us alone.
    unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).unwrap()) }
}

#[test]
fn a_foreign_xdp_program_is_seen_with_its_mode() {
    const PROG_LOAD: libc::c_long = 5;
    const LINK_CREATE: libc::c_long = 28;
    const PROG_TYPE_XDP: u64 = 6;
    const ATTACH_XDP: u64 = 37;
    in_namespace(&[T2], || {
        // r0 = XDP_PASS; exit
        let program: [u64; 2] = [0x0000_0002_0000_00b7, 0x95];
        let licence = c"GPL";
        let mut load = [0; 16];
        load[0] = PROG_TYPE_XDP | (program.len() as u64) << 32;
        load[1] = program.as_ptr() as u64;
        load[2] = licence.as_ptr() as u64;
        let program = bpf(PROG_LOAD, &mut load);
        for (flags, mode) in [(2, XdpMode::Generic), (4, XdpMode::Native)] {
            let index = read().links.by_name("eth1").unwrap().index;
            let mut create = [0; 16];
            create[0] = program.as_raw_fd() as u64 | u64::from(index) << 32;
            create[1] = ATTACH_XDP | flags << 32;
            let link = bpf(LINK_CREATE, &mut create);
            let xdp = read().links.by_name("eth1").unwrap().xdp.expect("a program");
            assert_eq!(xdp.mode, mode);
            assert!(xdp.program.is_some_and(|id| id > 0));
            drop(link);
            // A child that another test has just forked may hold the link until it executes its program.
            let gone = (0..50).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(10));
                read().links.by_name("eth1").unwrap().xdp.is_none()
            });
            assert!(gone);
        }
    });
}

/// Lines with single spaces.
fn words(text: &str) -> Vec<String> {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines().map(words).filter(|line| !line.is_empty()).collect()
}

#[test]
fn rules_read_as_ip_prints_them() {
    let rules = "ip rule add from 10.4.3.101 to 168.63.129.16 lookup 201
ip rule add fwmark 0x1/0xff sport 80 ipproto tcp lookup 5 pref 7
ip rule add not from 10.0.0.0/8 iif eth0 lookup main suppress_prefixlength 0 pref 9
ip rule add pref 10 goto 32766
ip rule add pref 12 sport 5-10 dport 5 oif eth1 fwmark 3 lookup 300
ip rule add l3mdev pref 1000
ip rule add to 1.2.3.4 uidrange 5-9 tos 0x10 unreachable pref 1001 protocol static
ip -6 rule add from fd00:2::/64 lookup 202 pref 44";
    in_namespace(&[T2, rules], || {
        let facts = read();
        for (family, ipv6) in [("-4", false), ("-6", true)] {
            let ours: Vec<_> = facts
                .rules
                .iter()
                .filter(|rule| rule.ipv6 == ipv6)
                .map(|rule| rule.text(&facts.tables))
                .collect();
            assert_eq!(ours, words(&sh(&format!("ip {family} rule"))));
        }
    });
}

#[test]
fn routes_read_as_ip_prints_them() {
    let routes = "ip route add default via 10.4.2.1 dev eth0 proto dhcp metric 200
ip route add 168.63.129.16 dev eth1 scope link table 201
ip route add unreachable 1.2.3.0/24
ip route add blackhole 5.0.0.0/8 table 300
ip route add 9.0.0.0/8 nexthop via 10.4.2.1 dev eth0 nexthop via 10.4.3.1 dev eth1
ip -6 addr add fd00:2::65/64 dev eth0 nodad
ip -6 route add default via fd00:2::1 dev eth0 metric 300
ip -6 route add prohibit fd00:bad::/32";
    in_namespace(&[T2, PRI, routes], || {
        let facts = read();
        // `ip route` puts multipath hops on lines of their own, with weights.
        let theirs =
            sh("ip -4 route show table main; ip -4 route show table 201; ip -4 route show table 300")
                .replace("\n\tnexthop", " nexthop")
                .replace(" weight 1", "");
        let ours: Vec<_> = [MAIN, 201, 300]
            .iter()
            .flat_map(|table| facts.routes.iter().filter(move |route| route.table == *table))
            .filter(|route| route.destination.addr().is_ipv4())
            .map(Route::text)
            .collect();
        assert_eq!(ours, words(&theirs));

        let v6: Vec<_> = facts
            .routes
            .iter()
            .filter(|route| route.destination.addr().is_ipv6() && route.table == MAIN)
            .map(Route::text)
            .collect();
        for expected in [
            "default via fd00:2::1 dev eth0 metric 300",
            "prohibit fd00:bad::/32 metric 1024",
            "fd00:2::/64 dev eth0 proto kernel metric 256",
        ] {
            assert!(v6.iter().any(|route| route == expected), "{expected}: {v6:#?}");
        }
        let eth1: IpAddr = ETH1.parse().unwrap();
        let mut local = facts.routes.iter().filter(|route| route.table == LOCAL);
        assert!(local.any(|route| route.kind == RouteKind::Local && route.destination.addr() == eth1));
    });
}

#[test]
fn s01_the_host_route_in_main_and_its_repair() {
    in_namespace(&[T2, PRI], || {
        let facts = read();
        let lookup = ask(&facts, ETH1, PROBER, "eth1");
        let (device, route, rule) = way(&facts, &lookup);
        assert_eq!(device, "eth0");
        assert_eq!(route, "168.63.129.16 via 10.4.2.1 dev eth0 proto static metric 100, table main");
        assert_eq!(rule, "32766: from all lookup main");
        assert_eq!(repaired(&facts, &lookup, "eth1"), fixed(201, 100, "eth1", "10.4.3.1", ETH1));
        // The other NIC is as before.
        let facts = read();
        assert_eq!(way(&facts, &ask(&facts, "10.4.2.101", PROBER, "eth0")).0, "eth0");
    });
}

#[test]
fn s02_the_leftover_host_route_is_named_not_the_default() {
    in_namespace(&[T2, PRI, "ip route add default via 10.4.3.254 dev eth1"], || {
        let facts = read();
        let lookup = ask(&facts, ETH1, PROBER, "eth1");
        let (device, route, _) = way(&facts, &lookup);
        assert_eq!(device, "eth0");
        assert!(route.starts_with("168.63.129.16 via 10.4.2.1 dev eth0"), "{route}");
        // The gateway is the one that the default route names.
        assert_eq!(repaired(&facts, &lookup, "eth1"), fixed(201, 100, "eth1", "10.4.3.254", ETH1));
    });
}

#[test]
fn s03_the_default_is_named_where_there_is_no_host_route() {
    in_namespace(&[T2, "ip route add default via 10.4.2.1 dev eth0"], || {
        let facts = read();
        let lookup = ask(&facts, ETH1, PROBER, "eth1");
        let (device, route, _) = way(&facts, &lookup);
        assert_eq!((&*device, &*route), ("eth0", "default via 10.4.2.1 dev eth0, table main"));
        assert_eq!(repaired(&facts, &lookup, "eth1"), fixed(201, 100, "eth1", "10.4.3.1", ETH1));
    });
}

#[test]
fn s07_two_nics_in_one_subnet() {
    let move_eth1 = "ip addr del 10.4.3.101/24 dev eth1 && ip addr add 10.4.2.102/24 dev eth1";
    in_namespace(&[T2, move_eth1, PRI], || {
        let facts = read();
        let lookup = ask(&facts, "10.4.2.102", PROBER, "eth1");
        assert_eq!(way(&facts, &lookup).0, "eth0");
        assert_eq!(repaired(&facts, &lookup, "eth1"), fixed(201, 100, "eth1", "10.4.2.1", "10.4.2.102"));
    });
}

#[test]
fn s09_a_policy_route_done_right() {
    let table = "ip route add 168.63.129.16 via 10.4.3.1 dev eth1 table 201";
    in_namespace(&[T2, PRI, table, S09_RULE], || {
        let facts = read();
        let (device, route, rule) = way(&facts, &ask(&facts, ETH1, PROBER, "eth1"));
        assert_eq!(device, "eth1");
        assert_eq!(route, "168.63.129.16 via 10.4.3.1 dev eth1, table 201");
        assert_eq!(rule, "32765: from 10.4.3.101 to 168.63.129.16 lookup 201");
    });
}

#[test]
fn s10_a_table_with_the_wrong_device_is_corrected_in_place() {
    let table = "ip route add 168.63.129.16 via 10.4.2.1 dev eth0 table 201 metric 5";
    in_namespace(&[T2, PRI, table, S09_RULE], || {
        let facts = read();
        let lookup = ask(&facts, ETH1, PROBER, "eth1");
        let (device, route, rule) = way(&facts, &lookup);
        assert_eq!(device, "eth0");
        assert_eq!(route, "168.63.129.16 via 10.4.2.1 dev eth0 metric 5, table 201");
        assert_eq!(rule, "32765: from 10.4.3.101 to 168.63.129.16 lookup 201");
        let (device, route, after) = repaired(&facts, &lookup, "eth1");
        assert_eq!((&*device, after), ("eth1", rule));
        assert_eq!(route, "168.63.129.16 via 10.4.3.1 dev eth1 metric 5, table 201");
        assert_eq!(sh("ip route show table 201").lines().count(), 1);
    });
}

#[test]
fn the_fix_wins_over_rules_of_an_overlay() {
    let overlay = "ip route add default via 10.4.2.1 dev eth0 table 2004
ip route add default via 10.4.2.1 dev eth0 table 201
ip rule add pref 9 from all lookup 2004
ip rule add pref 8 from 10.9.9.9 lookup 201";
    in_namespace(&[T2, PRI, overlay], || {
        let facts = read();
        let lookup = ask(&facts, ETH1, PROBER, "eth1");
        assert_eq!(way(&facts, &lookup).2, "9: from all lookup 2004");
        assert_eq!(repaired(&facts, &lookup, "eth1"), fixed(202, 7, "eth1", "10.4.3.1", ETH1));
    });
}

#[test]
fn an_address_without_subnet_is_repaired_on_link() {
    let host = "ip addr flush dev eth1 && ip addr add 10.4.3.101/32 dev eth1
ip route add 10.4.3.1 dev eth1 && ip route add default via 10.4.3.1 dev eth1 metric 900";
    in_namespace(&[T2, PRI, host], || {
        let facts = read();
        let lookup = ask(&facts, ETH1, PROBER, "eth1");
        assert_eq!(way(&facts, &lookup).0, "eth0");
        assert_eq!(repaired(&facts, &lookup, "eth1"), fixed(201, 100, "eth1", "10.4.3.1", ETH1));
    });
}

#[test]
fn rejections_are_told_apart() {
    let v6 = "ip -6 addr add fd00:3::65/64 dev eth1 nodad";
    let rejected = |setup: &str, to: &str, from: &str| {
        let mut outcome = None;
        in_namespace(&[T2, v6, setup], || {
            let lookup = ask(&read(), from, to, "eth1");
            let Outcome::Rejected(rejection, route) = lookup.outcome else { panic!("{lookup:#?}") };
            let rule = match lookup.rule {
                Choice::Rule(rule) => Some(rule.priority),
                _ => None,
            };
            outcome = Some((rejection, route.map(|route| route.text()), rule));
        });
        outcome.unwrap()
    };
    for (kind, rejection) in [
        ("unreachable", Rejection::Unreachable),
        ("blackhole", Rejection::Blackhole),
        ("prohibit", Rejection::Prohibit),
    ] {
        assert_eq!(
            rejected(&format!("ip route add {kind} {PROBER}"), PROBER, ETH1),
            (rejection, Some(format!("{kind} {PROBER}")), Some(32766))
        );
        assert_eq!(
            rejected(&format!("ip rule add pref 3 to {PROBER} {kind}"), PROBER, ETH1),
            (rejection, None, Some(3))
        );
    }
    assert_eq!(rejected("true", PROBER, ETH1), (Rejection::NoRoute, None, None));
    assert_eq!(rejected(PRI, PROBER, "10.4.2.200"), (Rejection::SourceNotLocal, None, None));
    assert_eq!(
        rejected("ip -6 route add blackhole fd00:bad::/32", "fd00:bad::1", "fd00:3::65"),
        (Rejection::Blackhole, Some("blackhole fd00:bad::/32 metric 1024".into()), Some(32766))
    );
}

#[test]
fn s20_a_reply_to_a_link_local_prober_leaves_by_the_nic_it_came_in_by() {
    let prober = "fe80::1234:5678:9abc";
    let v6 = "ip -6 addr add fe80::20/64 dev eth0 nodad
ip -6 addr add fe80::30/64 dev eth1 nodad
ip -6 route add default via fe80::1234:5678:9abc dev eth0 metric 100
ip -6 route add default via fe80::1234:5678:9abc dev eth1 metric 200";
    in_namespace(&[T2, v6], || {
        let facts = read();
        for (from, nic) in [("fe80::20", "eth0"), ("fe80::30", "eth1")] {
            let lookup = ask(&facts, from, prober, nic);
            assert_eq!(lookup.chosen().expect("a way").hop.device, nic, "{lookup:#?}");
        }
    });
}

#[test]
fn an_ipv6_policy_route_is_repaired_too() {
    let v6 = "ip -6 addr add fd00:2::65/64 dev eth0 nodad
ip -6 addr add fd00:3::65/64 dev eth1 nodad
ip -6 route add default via fd00:2::1 dev eth0 metric 100
ip -6 route add default via fd00:3::1 dev eth1 metric 200";
    in_namespace(&[T2, v6], || {
        let facts = read();
        let lookup = ask(&facts, "fd00:3::65", "2600:2d00:1:b029::7", "eth1");
        let (device, route, _) = way(&facts, &lookup);
        assert_eq!((&*device, &*route), ("eth0", "default via fd00:2::1 dev eth0 metric 100, table main"));
        let (device, route, rule) = repaired(&facts, &lookup, "eth1");
        assert_eq!(device, "eth1");
        assert_eq!(route, "2600:2d00:1:b029::7 via fd00:3::1 dev eth1 metric 1024, table 201");
        assert_eq!(rule, "100: from fd00:3::65 to 2600:2d00:1:b029::7 lookup 201");
    });
}
