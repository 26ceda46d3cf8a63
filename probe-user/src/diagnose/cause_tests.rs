//! The decision table, row by row: facts made by hand, one cause each.

use std::net::SocketAddr;

use super::{
    tests::{all_failed, series},
    trace::{Drops, Trace},
    *,
};
use crate::{
    host::{
        counters::Counters,
        firewall::{Action, Backend, Base, Chain, Family, Hook, Rule, Ruleset, Statement},
        fixture::{lookup, net, route, t2_primary},
        lookup::{Outcome, Query, Rejection},
        neighbours::{Neighbour, Resolution},
        routes::{Route, RouteKind},
        selection::Choice,
        sockets::{Detail, Listener},
        sysctls::DeviceSysctls,
        tables::{LOCAL, MAIN},
        xfrm::{Direction, Policy, Port},
    },
    report::document::Reply,
};

const PROBED: &str = "10.4.3.101";

/// T2 with the host route on eth0, both addresses local, and a listener on every address.
fn host() -> Facts {
    let mut facts = t2_primary();
    for (address, device) in [("10.4.2.101", "eth0"), (PROBED, "eth1")] {
        facts.routes.push(Route { kind: RouteKind::Local, ..route(LOCAL, address, "", device) });
    }
    facts.listeners = vec![listener("0.0.0.0", None, 0)];
    facts
}

fn listener(address: &str, device: Option<u32>, queue: u32) -> Listener {
    let detail = Detail { device, queue, backlog: 5, v6_only: None, uid: 0 };
    Listener {
        process: Some("haproxy".to_owned()),
        detail: Some(detail),
        ..Listener::new(address.parse().expect("valid"), 8008)
    }
}

fn at(text: &str) -> SocketAddr {
    text.parse().expect("valid")
}

/// A probe on eth1 of which nothing is known.
fn trace() -> Trace {
    Trace {
        peer: at("168.63.129.16:50000"),
        local: at("10.4.3.101:8008"),
        nic: 3,
        half_open: Some(false),
        drops: Vec::new(),
        drops_watched: true,
        rose: Counters::default(),
        forwarded: None,
        returned: false,
    }
}

fn drops(from_prober: bool, reason: &str) -> Vec<Drops> {
    vec![Drops {
        from_prober,
        reason: reason.to_owned(),
        device: Some("eth1".to_owned()),
        translated: None,
        count: 4,
    }]
}

/// A chain of one rule that does this to everything.
fn chain(hook: Hook, priority: i32, name: &str, action: Action) -> Chain {
    let base = Base {
        kind: "filter".to_owned(),
        hook,
        priority,
        drops: false,
        counter: None,
        devices: Some(Vec::new()),
        active: Some(true),
    };
    Chain {
        backend: Backend::Nft,
        family: Family::Ip,
        table: "security".to_owned(),
        name: name.to_owned(),
        base: Some(base),
        rules: vec![Rule {
            handle: 7,
            text: "ip daddr 168.63.129.16 drop".to_owned(),
            counter: None,
            statements: vec![Statement::Act(action)],
        }],
    }
}

fn with_chain(mut facts: Facts, hook: Hook, action: Action) -> Facts {
    facts.firewall = Ruleset { chains: vec![chain(hook, 50, "OUT", action)], unread: Vec::new() };
    facts
}

/// The finding of four failing probes.
fn found(verdict: Verdict, trace: &Trace, facts: &Facts) -> Finding {
    found_with(verdict, all_failed(4), trace, facts, &lookup(facts, PROBED, MAIN))
}

fn found_with(
    verdict: Verdict,
    failures: Failures,
    trace: &Trace,
    facts: &Facts,
    lookup: &RouteLookup,
) -> Finding {
    let reply = if verdict == Verdict::Refused { Reply::Rst } else { Reply::None };
    let one = series(verdict, reply, &[(verdict, 4)]);
    let case = Case { series: &one, failures, lookup: Some(lookup), facts: Some(facts), trace: Some(trace) };
    let mut findings = diagnose(&[case]);
    assert_eq!(findings.len(), 1, "one error a series: {findings:#?}");
    findings.remove(0)
}

fn rejected(rejection: Rejection) -> RouteLookup {
    let query = Query::own("168.63.129.16".parse().expect("valid"));
    RouteLookup { query, outcome: Outcome::Rejected(rejection, None), rule: Choice::Unknown }
}

fn shows(finding: &Finding, kind: &str, part: &str) -> bool {
    finding.evidence.iter().any(|evidence| evidence.kind == kind && evidence.text.contains(part))
}

#[test]
fn strict_reverse_path_filter_by_drop_reason_or_by_counter_setting_and_route() {
    let mut facts = host();
    facts.sysctls.all.rp_filter = Some(1);
    facts
        .sysctls
        .devices
        .insert("eth1".to_owned(), DeviceSysctls { rp_filter: Some(0), ..Default::default() });
    let seen = Trace { drops: drops(true, "IP_RPFILTER"), ..trace() };
    let finding = found(Verdict::NoReply, &seen, &facts);
    assert_eq!(finding.cause, "rp-filter");
    assert!(
        shows(&finding, "sysctl", "all = 1, eth1 = 0") && shows(&finding, "sysctl", "strict"),
        "{finding:#?}"
    );
    assert!(shows(&finding, "route", "dev eth0") && shows(&finding, "drop-reason", "IP_RPFILTER"));
    assert!(!finding.fixes.is_empty(), "a policy route satisfies it");
    let rose = Counters::of([("TcpExtIPReversePathFilter", 4)]);
    let counted = Trace { drops_watched: false, rose, ..trace() };
    assert_eq!(found(Verdict::NoReply, &counted, &facts).cause, "rp-filter");
    // Another connection's drops raise the counter, too: without the setting, or with the kernel's word, it proves nothing.
    let watched = Trace { drops_watched: true, ..counted.clone() };
    assert_eq!(found(Verdict::NoReply, &watched, &facts).cause, "unknown");
    assert_eq!(found(Verdict::NoReply, &counted, &host()).cause, "unknown");
}

#[test]
fn no_route_says_which_kind() {
    for (rejection, word) in [
        (Rejection::Unreachable, "unreachable"),
        (Rejection::Blackhole, "blackhole"),
        (Rejection::Prohibit, "prohibits"),
        (Rejection::NoRoute, "none"),
    ] {
        let rose = Counters::of([("IpOutNoRoutes", 4), ("TcpExtListenDrops", 4)]);
        let trace = Trace { rose, ..trace() };
        let finding = found_with(Verdict::NoReply, all_failed(4), &trace, &host(), &rejected(rejection));
        assert_eq!(finding.cause, "no-route");
        assert!(finding.summary.contains(word), "{}", finding.summary);
        assert!(shows(&finding, "counter", "IpOutNoRoutes rose by 4"));
    }
}

#[test]
fn a_full_accept_queue_needs_the_counters_and_the_queue() {
    let rose = Counters::of([("TcpExtListenOverflows", 9), ("TcpExtListenDrops", 9)]);
    let full = Facts { listeners: vec![listener("0.0.0.0", None, 6)], ..host() };
    let finding = found(Verdict::NoReply, &Trace { rose: rose.clone(), ..trace() }, &full);
    assert_eq!(finding.cause, "accept-queue-full");
    assert!(shows(&finding, "socket", "backlog is 5"));
    assert_eq!(found(Verdict::NoReply, &trace(), &full).cause, "unknown", "no counter");
    assert_eq!(found(Verdict::NoReply, &Trace { rose, ..trace() }, &host()).cause, "unknown", "no queue");
    // ListenDrops alone proves nothing.
    let rose = Counters::of([("TcpExtListenDrops", 9)]);
    assert_eq!(found(Verdict::NoReply, &Trace { rose, ..trace() }, &full).cause, "unknown");
}

#[test]
fn a_rule_that_drops_on_the_way_in_or_out_is_named() {
    let inbound = with_chain(host(), Hook::Input, Action::Drop);
    let seen = Trace { drops: drops(true, "NETFILTER_DROP"), ..trace() };
    let finding = found(Verdict::NoReply, &seen, &inbound);
    assert_eq!(finding.cause, "input-drop");
    assert!(shows(&finding, "rule", "table ip security, chain OUT, handle 7"), "{finding:#?}");
    // Without the kernel's word the rule suffices; against it, it does not.
    assert_eq!(
        found(Verdict::NoReply, &Trace { drops_watched: false, ..trace() }, &inbound).cause,
        "input-drop"
    );
    assert_eq!(found(Verdict::NoReply, &trace(), &inbound).cause, "unknown");
    // The kernel's word suffices without the rule.
    assert_eq!(found(Verdict::NoReply, &seen, &host()).cause, "input-drop");

    let outbound = with_chain(host(), Hook::Output, Action::Drop);
    let half_open = Trace { half_open: Some(true), ..trace() };
    let seen = Trace { drops: drops(false, "NETFILTER_DROP"), ..half_open.clone() };
    let finding = found(Verdict::NoReply, &seen, &outbound);
    assert_eq!(finding.cause, "output-drop");
    assert!(shows(&finding, "rule", "chain OUT") && shows(&finding, "socket", "SYN-RECV"), "{finding:#?}");
    let unwatched = Trace { drops_watched: false, ..half_open };
    assert_eq!(found(Verdict::NoReply, &unwatched, &outbound).cause, "output-drop");
    assert_eq!(
        found(Verdict::NoReply, &Trace { drops_watched: false, ..trace() }, &outbound).cause,
        "unknown"
    );
}

#[test]
fn an_unresolved_next_hop() {
    let mut facts = host();
    facts.neighbours = vec![Neighbour {
        address: "10.4.2.1".parse().expect("valid"),
        link: 2,
        state: Resolution::Failed,
        mac: None,
        router: false,
    }];
    let half_open = Trace { half_open: Some(true), ..trace() };
    let finding = found(Verdict::NoReply, &half_open, &facts);
    assert_eq!(finding.cause, "next-hop-unresolved");
    assert!(
        finding.summary.contains("on eth0") && shows(&finding, "neighbour", "10.4.2.1 on eth0"),
        "{finding:#?}"
    );
    facts.neighbours[0].state = Resolution::Reachable;
    assert_eq!(found(Verdict::NoReply, &half_open, &facts).cause, "unknown");
}

#[test]
fn an_address_that_is_nobodys() {
    let mut facts = host();
    facts.routes.retain(|route| route.kind != RouteKind::Local);
    assert_eq!(found(Verdict::NoReply, &trace(), &facts).cause, "not-local");
    facts.unread.push(crate::host::Unread { what: "routes", why: "no answer".into() });
    assert_eq!(found(Verdict::NoReply, &trace(), &facts).cause, "unknown", "not looked at is not absent");
}

#[test]
fn an_ipsec_policy_that_covers_the_prober() {
    let mut facts = host();
    facts.xfrm = vec![Policy {
        direction: Direction::Out,
        block: true,
        priority: 0,
        index: 1,
        from: net("0.0.0.0/0"),
        to: net("168.63.129.16"),
        protocol: 0,
        from_port: Port::default(),
        to_port: Port::default(),
        device: None,
        mark: (0, 0),
        interface_id: None,
        templates: Vec::new(),
    }];
    let finding = found(Verdict::NoReply, &trace(), &facts);
    assert_eq!(finding.cause, "xfrm");
    assert!(shows(&finding, "xfrm", "dst 168.63.129.16"));
    facts.xfrm[0].to = net("10.0.0.0/8");
    assert_eq!(found(Verdict::NoReply, &trace(), &facts).cause, "unknown");
}

#[test]
fn a_rst_is_nobodys_somebody_elses_or_a_rules() {
    let none = Facts { listeners: Vec::new(), ..host() };
    assert_eq!(found(Verdict::Refused, &trace(), &none).cause, "nothing-listening");
    let elsewhere = Facts { listeners: vec![listener("10.4.2.101", None, 0)], ..host() };
    let finding = found(Verdict::Refused, &trace(), &elsewhere);
    assert_eq!(finding.cause, "bound-elsewhere");
    assert!(finding.summary.contains("10.4.2.101:8008 (haproxy)"), "{}", finding.summary);
    let device = Facts { listeners: vec![listener("0.0.0.0", Some(2), 0)], ..host() };
    let finding = found(Verdict::Refused, &trace(), &device);
    assert_eq!(finding.cause, "bound-elsewhere");
    assert!(finding.summary.contains("bound to eth0"), "{}", finding.summary);
    let rule = with_chain(host(), Hook::Input, Action::Reject("tcp reset".to_owned()));
    assert_eq!(found(Verdict::Refused, &trace(), &rule).cause, "reject-rule");
    assert_eq!(found(Verdict::IcmpReject, &trace(), &rule).cause, "reject-rule");
    // Somebody listens, nothing rejects: the listener may have come since.
    assert_eq!(found(Verdict::Refused, &trace(), &host()).cause, "unknown");
    let mut unread = none;
    unread.unread.push(crate::host::Unread { what: "listeners", why: "no answer".into() });
    assert_eq!(found(Verdict::Refused, &trace(), &unread).cause, "unknown");
}

#[test]
fn a_forwarded_probe_whose_answer_is_lost_here() {
    let passed =
        Trace { forwarded: Some(("eth2".to_owned(), at("10.9.0.10:80"))), returned: true, ..trace() };
    let finding = found(Verdict::NoReply, &passed, &with_chain(host(), Hook::Forward, Action::Drop));
    assert_eq!(finding.cause, "forward-drop");
    assert!(shows(&finding, "packets", "10.9.0.10:80 by eth2") && shows(&finding, "rule", "chain OUT"));
    let unanswered = Trace { returned: false, ..passed };
    assert_eq!(found(Verdict::NoReply, &unanswered, &host()).cause, "unknown");
}

#[test]
fn a_translated_probe_that_is_dropped_on_its_way_through() {
    let mut dropped = drops(true, "NETFILTER_DROP");
    dropped[0].translated = Some(at("10.9.0.10:80"));
    let finding = found(
        Verdict::NoReply,
        &Trace { drops: dropped, ..trace() },
        &with_chain(host(), Hook::Forward, Action::Drop),
    );
    assert_eq!(finding.cause, "forward-drop");
    assert!(shows(&finding, "drop-reason", "translated to 10.9.0.10:80"), "{finding:#?}");
}

#[test]
fn unknown_says_what_was_ruled_out() {
    let finding = found(Verdict::NoReply, &Trace { half_open: Some(true), ..trace() }, &host());
    assert_eq!(finding.cause, "unknown");
    assert!(shows(&finding, "ruled-out", "no reason for dropping"), "{finding:#?}");
    assert!(shows(&finding, "socket", "half-open") && shows(&finding, "socket", "hears the probe"));
    let finding = found(Verdict::NoReply, &Trace { drops_watched: false, ..trace() }, &host());
    assert!(shows(&finding, "not-looked-at", "reasons for dropping"));
}
