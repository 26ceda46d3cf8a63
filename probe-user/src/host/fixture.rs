//! The two-armed appliance of the scenarios, made by hand: eth0 10.4.2.101/24, eth1 10.4.3.101/24.

use ipnet::IpNet;

use super::{
    Facts,
    addresses::Address,
    links::{Layer2, Link, Links},
    lookup::{Chosen, Outcome, Query, RouteLookup},
    routes::{NextHop, Route, RouteKind},
    rules::Rule,
    selection::{self, Answer, Packet},
    tables,
};

pub(crate) const PROBER: &str = "168.63.129.16";

pub(crate) fn link(index: u32, name: &str, kind: Option<&str>) -> Link {
    Link {
        index,
        name: name.to_owned(),
        mac: Some([2, 0, 0, 0, 0, index as u8]),
        up: true,
        running: true,
        loopback: false,
        slave: false,
        mtu: 1500,
        layer2: Layer2::Ethernet,
        master: None,
        lower: None,
        kind: kind.map(str::to_owned),
        vrf_table: None,
        driver: None,
        parent: None,
        xdp: None,
    }
}

/// `"168.63.129.16"`, `"0.0.0.0/0"`.
pub(crate) fn net(text: &str) -> IpNet {
    crate::source::parse(text).unwrap()
}

/// A route as `ip route add DESTINATION [via GATEWAY] dev DEVICE table TABLE` makes it.
pub(crate) fn route(table: u32, destination: &str, gateway: &str, device: &str) -> Route {
    let link = match device {
        "eth0" => 2,
        "eth1" => 3,
        _ => 99,
    };
    Route {
        table,
        kind: RouteKind::Unicast,
        destination: net(destination),
        source: None,
        next_hops: vec![NextHop { link, device: device.to_owned(), gateway: gateway.parse().ok() }],
        preferred_source: None,
        protocol: 3,
        scope: if gateway.is_empty() { 253 } else { 0 },
        metric: 0,
    }
}

/// The rule of a policy route done right (S09).
pub(crate) fn policy(priority: u32, from: &str, table: u32) -> Rule {
    Rule { from: Some(net(from)), to: Some(net(PROBER)), protocol: 3, ..Rule::all(false, priority, table) }
}

/// T2 with the kernel's own rules and connected routes, and nothing else.
pub(crate) fn t2() -> Facts {
    let address = |link, text: &str| Address { link, net: text.parse().unwrap(), global: true };
    Facts {
        links: Links(vec![
            Link { loopback: true, mac: None, ..link(1, "lo", None) },
            link(2, "eth0", Some("veth")),
            link(3, "eth1", Some("veth")),
        ]),
        addresses: vec![address(1, "127.0.0.1/8"), address(2, "10.4.2.101/24"), address(3, "10.4.3.101/24")],
        rules: vec![
            Rule::all(false, 0, tables::LOCAL),
            Rule::all(false, 32766, tables::MAIN),
            Rule::all(false, 32767, tables::DEFAULT),
            Rule::all(true, 0, tables::LOCAL),
            Rule::all(true, 32766, tables::MAIN),
        ],
        routes: vec![
            route(tables::MAIN, "10.4.2.0/24", "", "eth0"),
            route(tables::MAIN, "10.4.3.0/24", "", "eth1"),
        ],
        ..Facts::default()
    }
}

/// T2 with what Azure's DHCP adds on the primary NIC.
pub(crate) fn t2_primary() -> Facts {
    let mut facts = t2();
    facts.routes.push(Route { protocol: 4, metric: 100, ..route(tables::MAIN, PROBER, "10.4.2.1", "eth0") });
    facts
}

/// Adds a rule where the kernel would list it.
pub(crate) fn add_rule(facts: &mut Facts, rule: Rule) {
    facts.rules.push(rule);
    facts.rules.sort_by_key(|rule| (rule.ipv6, rule.priority));
}

/// What the kernel would answer for a reply from `from` to the prober, worked out by hand-walking the rules.
pub(crate) fn lookup(facts: &Facts, from: &str, table: u32) -> RouteLookup {
    let query = Query::reply(from.parse().unwrap(), 8008, PROBER.parse().unwrap(), 3);
    let packet = Packet { from: query.from, to: query.to, oif: None, mark: 0, port: query.port };
    let matched = selection::best(&facts.routes, table, &packet).unwrap().clone();
    let answer = Answer::Table(table, Some(matched.destination.prefix_len()));
    let rule = selection::select(&facts.rules, &facts.routes, &packet, answer).0;
    let hop = matched.next_hops[0].clone();
    let outcome =
        Outcome::Route(Chosen { hop, preferred_source: None, table: Some(table), matched: Some(matched) });
    RouteLookup { query, outcome, rule }
}
