//! Cases to reason about: the two-armed appliance of the lab.

use super::{Case, Failure};
use crate::{
    host::{
        Facts,
        addresses::Address,
        links::{Header, Link},
        lookup::{Lookup, Outcome},
        routes::Route,
        rules::Rule,
    },
    probe::series::Failures,
    report::document::{Protocol, Reply, Series, Verdict},
};

fn link(ifindex: u32, name: &str) -> Link {
    Link {
        ifindex,
        name: name.to_owned(),
        mac: None,
        up: true,
        loopback: name == "lo",
        mtu: 1500,
        header: Header::Ethernet,
        master: None,
        kind: None,
        port_kind: None,
        driver: None,
        xdp: None,
    }
}

pub(super) fn route(destination: &str, via: Option<&str>, device: u32, table: u32) -> Route {
    Route {
        destination: crate::source::parse(destination).expect("valid"),
        gateway: via.map(|via| via.parse().expect("valid")),
        device: Some(device),
        table,
        metric: None,
        protocol: "static".to_owned(),
        kind: "unicast".to_owned(),
        on_link: via.is_none(),
        source: None,
        next_hops: Vec::new(),
    }
}

pub(super) fn rule(priority: u32, from: Option<&str>, table: u32) -> Rule {
    Rule {
        v6: false,
        priority,
        from: from.map(|from| crate::source::parse(from).expect("valid")),
        to: None,
        iif: None,
        oif: None,
        mark: None,
        table,
        action: "lookup".to_owned(),
        invert: false,
        special: None,
    }
}

/// T2 with PRI: eth0 is ifindex 2, eth1 is 3.
pub(super) fn facts() -> Facts {
    let address = |ifindex, text: &str| Address { ifindex, net: text.parse().expect("valid") };
    Facts {
        links: vec![link(1, "lo"), link(2, "eth0"), link(3, "eth1")],
        addresses: vec![address(2, "10.4.2.101/24"), address(3, "10.4.3.101/24")],
        rules: vec![rule(0, None, 255), rule(32766, None, 254), rule(32767, None, 253)],
        routes: vec![route("168.63.129.16", Some("10.4.2.1"), 2, 254)],
    }
}

/// What the kernel answers for eth1's reply.
pub(super) fn lookup(device: u32, route: Route, rule: Rule) -> Lookup {
    Lookup {
        from: "10.4.3.101".parse().expect("valid"),
        to: "168.63.129.16".parse().expect("valid"),
        outcome: Outcome::Leaves {
            device,
            gateway: route.gateway,
            table: route.table,
            route: Some(Box::new(route)),
            rule: Some(Box::new(rule)),
        },
    }
}

pub(super) fn series(verdict: Verdict, reply: Reply) -> Series {
    Series {
        nic: "eth1".to_owned(),
        source: "168.63.129.16".to_owned(),
        addresses: vec!["168.63.129.16".to_owned()],
        target: "10.4.3.101".to_owned(),
        port: 8008,
        protocol: Protocol::Tcp,
        verdict,
        reply,
        out_nic: (verdict == Verdict::Asymmetric).then(|| "eth0".to_owned()),
        http_status: None,
        confirmed: true,
        healed: 0,
        attempts: 4,
        counts: [(verdict, 4)].into(),
        interval_s: Some(5.0),
        cadences: vec![5.0],
        limit_s: Some(5.0),
        latency_ms: None,
        lb_view: None,
    }
}

pub(super) fn case<'a>(series: &'a Series, facts: &'a Facts, lookup: Option<&'a Lookup>) -> Case<'a> {
    let out = series.out_nic.clone();
    Case {
        series,
        failures: Failures { judged: 4, failed: 4, runs: 1, last_ok: false },
        failure: Some(Failure {
            verdict: series.verdict,
            reply: series.reply,
            out_nic: out.clone(),
            closed_by_application: false,
            timed_out: false,
            icmp: None,
            retransmits: 2,
        }),
        lookup,
        facts,
        out_nics: out.into_iter().map(|nic| (nic, 4)).collect(),
    }
}
