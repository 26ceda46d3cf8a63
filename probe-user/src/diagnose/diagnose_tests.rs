use std::collections::BTreeMap;

use super::*;
use crate::{
    host::{
        Unread,
        fixture::{PROBER, add_rule, lookup, policy, route, t2, t2_primary},
        lookup::{Outcome, Query, Rejection},
        rules::Rule,
        selection::Choice,
        tables::MAIN,
    },
    report::document::{Protocol, Reply},
};

pub(super) fn series(verdict: Verdict, reply: Reply, counts: &[(Verdict, u64)]) -> Series {
    Series {
        nic: "eth1".into(),
        source: PROBER.into(),
        addresses: vec![PROBER.into()],
        target: "10.4.3.101".into(),
        port: 8008,
        protocol: Protocol::Tcp,
        verdict,
        reply,
        out_nic: (verdict == Verdict::Asymmetric).then(|| "eth0".into()),
        http_status: None,
        tls_alert: None,
        proxy: None,
        role: None,
        confirmed: true,
        healed: 0,
        attempts: counts.iter().map(|(_, count)| count).sum(),
        counts: counts.iter().copied().collect::<BTreeMap<_, _>>(),
        interval_s: Some(5.0),
        cadences: vec![5.0],
        limit_s: Some(5.0),
        latency_ms: None,
        answer_ms: None,
        lb_view: None,
    }
}

fn misrouted() -> Series {
    series(Verdict::Asymmetric, Reply::SynAck, &[(Verdict::Asymmetric, 4)])
}

pub(super) fn all_failed(failed: u64) -> Failures {
    Failures { failed, judged: failed, ..Failures::default() }
}

fn by_eth0() -> Failures {
    Failures { out_devices: vec![("eth0".into(), 4)], ..all_failed(4) }
}

fn one(series: &Series, failures: Failures, lookup: Option<&RouteLookup>, facts: Option<&Facts>) -> Finding {
    let mut findings = diagnose(&[Case { series, failures, lookup, facts, trace: None }]);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    findings.remove(0)
}

fn evidence<'a>(finding: &'a Finding, kind: &str) -> Vec<&'a str> {
    finding.evidence.iter().filter(|evidence| evidence.kind == kind).map(|evidence| &*evidence.text).collect()
}

#[test]
fn s01_names_packets_rule_route_and_fix() {
    let facts = t2_primary();
    let lookup = lookup(&facts, "10.4.3.101", MAIN);
    let finding = one(&misrouted(), by_eth0(), Some(&lookup), Some(&facts));
    assert_eq!((&*finding.code, &*finding.cause, finding.severity), ("ASYMMETRIC", "route", Severity::Error));
    assert_eq!((finding.nic.as_deref(), finding.out_nic.as_deref()), (Some("eth1"), Some("eth0")));
    assert_eq!(
        finding.summary,
        "Replies to probes on eth1 (10.4.3.101:8008) leave by eth0: the load balancer ignores them and marks \
         this instance down."
    );
    assert_eq!(evidence(&finding, "packets"), ["4 of 4 replies left by eth0; the probes came in by eth1"]);
    assert_eq!(evidence(&finding, "rule"), ["32766: from all lookup main"]);
    assert_eq!(
        evidence(&finding, "route"),
        ["168.63.129.16 via 10.4.2.1 dev eth0 proto static metric 100, table main"]
    );
    assert_eq!(finding.fixes.len(), 1);
    assert!(finding.fixes[0].text.contains("ip rule add from 10.4.3.101 to 168.63.129.16 lookup 201"));
}

#[test]
fn s02_names_the_leftover_host_route_and_s03_the_default() {
    let mut facts = t2_primary();
    facts.routes.push(route(MAIN, "0.0.0.0/0", "10.4.3.1", "eth1"));
    let found = lookup(&facts, "10.4.3.101", MAIN);
    let finding = one(&misrouted(), by_eth0(), Some(&found), Some(&facts));
    assert!(evidence(&finding, "route")[0].starts_with("168.63.129.16 via 10.4.2.1 dev eth0"));
    assert!(finding.evidence.iter().all(|evidence| !evidence.text.contains("default")));

    let mut facts = t2();
    facts.routes.push(route(MAIN, "0.0.0.0/0", "10.4.2.1", "eth0"));
    let found = lookup(&facts, "10.4.3.101", MAIN);
    let finding = one(&misrouted(), by_eth0(), Some(&found), Some(&facts));
    assert_eq!(evidence(&finding, "route"), ["default via 10.4.2.1 dev eth0, table main"]);
}

#[test]
fn s10_names_the_table_with_the_wrong_device() {
    let mut facts = t2_primary();
    add_rule(&mut facts, policy(32765, "10.4.3.101", 201));
    facts.routes.push(route(201, PROBER, "10.4.2.1", "eth0"));
    let found = lookup(&facts, "10.4.3.101", 201);
    let finding = one(&misrouted(), by_eth0(), Some(&found), Some(&facts));
    assert_eq!(evidence(&finding, "rule"), ["32765: from 10.4.3.101 to 168.63.129.16 lookup 201"]);
    assert_eq!(evidence(&finding, "route"), ["168.63.129.16 via 10.4.2.1 dev eth0, table 201"]);
    assert!(
        finding.fixes[0].text.ends_with("ip route replace 168.63.129.16 via 10.4.3.1 dev eth1 table 201")
    );
}

#[test]
fn a_table_that_contradicts_the_packets_is_not_blamed() {
    let mut facts = t2_primary();
    add_rule(&mut facts, policy(100, "10.4.3.101", 201));
    facts.routes.push(route(201, PROBER, "10.4.3.1", "eth1"));
    let repaired = lookup(&facts, "10.4.3.101", 201);
    let finding = one(&misrouted(), by_eth0(), Some(&repaired), Some(&facts));
    assert_eq!(finding.cause, "unknown");
    assert!(finding.fixes.is_empty());
    assert!(evidence(&finding, "route").iter().any(|text| text.starts_with("the table now says eth1")));

    let query = Query::reply("10.4.3.101".parse().unwrap(), 8008, PROBER.parse().unwrap(), 3);
    let gone =
        RouteLookup { query, outcome: Outcome::Rejected(Rejection::NoRoute, None), rule: Choice::Unknown };
    let finding = one(&misrouted(), by_eth0(), Some(&gone), Some(&facts));
    assert_eq!(finding.cause, "unknown");
    assert!(evidence(&finding, "route").contains(&"there is no route to 168.63.129.16"));
}

#[test]
fn a_multipath_route_explains_an_intermittent_fault() {
    let mut facts = t2();
    let mut both = route(MAIN, "0.0.0.0/0", "10.4.3.1", "eth1");
    both.next_hops.extend(route(MAIN, "0.0.0.0/0", "10.4.2.1", "eth0").next_hops);
    facts.routes.push(both);
    let found = lookup(&facts, "10.4.3.101", MAIN);
    let mixed = series(Verdict::Ok, Reply::SynAck, &[(Verdict::Ok, 6), (Verdict::Asymmetric, 3)]);
    let failures = Failures {
        failed: 3,
        judged: 9,
        intermittent: true,
        out_devices: vec![("eth0".into(), 3)],
        ..Failures::default()
    };
    let finding = one(&mixed, failures, Some(&found), Some(&facts));
    assert_eq!((&*finding.code, &*finding.cause, finding.intermittent), ("ASYMMETRIC", "route", true));
    assert_eq!(finding.out_nic.as_deref(), Some("eth0"));
    assert!(finding.summary.starts_with("3 of 9 replies"), "{}", finding.summary);
    assert!(evidence(&finding, "route")[0].contains("nexthop via 10.4.2.1 dev eth0"));
}

#[test]
fn a_vlan_on_the_nic_agrees_with_the_nic() {
    let mut facts = t2_primary();
    facts.links.0.push(crate::host::links::Link {
        lower: Some(2),
        ..crate::host::fixture::link(99, "eth0.7", Some("vlan"))
    });
    facts.routes.push(route(MAIN, "168.63.129.16", "10.4.7.1", "eth0.7"));
    facts.routes.remove(2);
    let found = lookup(&facts, "10.4.3.101", MAIN);
    assert_eq!(one(&misrouted(), by_eth0(), Some(&found), Some(&facts)).cause, "route");
}

#[test]
fn a_misrouted_rst_is_one_finding_with_more_evidence() {
    let facts = t2_primary();
    let found = lookup(&facts, "10.4.3.101", MAIN);
    let reset = Series { reply: Reply::Rst, ..misrouted() };
    let finding = one(&reset, by_eth0(), Some(&found), Some(&facts));
    assert_eq!(finding.cause, "route");
    assert!(evidence(&finding, "packets")[1].contains("nothing listens there"));
}

#[test]
fn without_a_lookup_the_cause_is_unknown_and_says_what_is_missing() {
    let finding = one(&misrouted(), by_eth0(), None, None);
    assert_eq!((&*finding.cause, finding.out_nic.as_deref()), ("unknown", Some("eth0")));
    assert_eq!(evidence(&finding, "not-looked-at"), ["the routes and rules of the host"]);
    assert!(finding.fixes.is_empty());
}

#[test]
fn a_link_local_prober_is_never_blamed_on_a_route() {
    let facts = t2_primary();
    let query = Query::reply("fe80::3".parse().unwrap(), 8008, "fe80::1234:5678:9abc".parse().unwrap(), 3);
    assert_eq!(query.oif, Some(3));
    let mut found = lookup(&facts, "10.4.3.101", MAIN);
    found.query = query;
    let v6 = Series { source: "fe80::1234:5678:9abc".into(), target: "fe80::3".into(), ..misrouted() };
    let finding = one(&v6, by_eth0(), Some(&found), Some(&facts));
    assert_eq!(finding.cause, "unknown");
    assert!(finding.summary.contains("([fe80::3]:8008)"));
    assert!(evidence(&finding, "route").iter().any(|text| text.contains("binds replies to the link-local")));
    assert!(finding.fixes.is_empty());
}

#[test]
fn healthy_recovered_and_pending_series_have_no_finding() {
    let ok = series(Verdict::Ok, Reply::SynAck, &[(Verdict::Ok, 3)]);
    let recovered = series(Verdict::Ok, Reply::SynAck, &[(Verdict::Asymmetric, 2), (Verdict::Ok, 3)]);
    let pending = series(Verdict::Pending, Reply::None, &[(Verdict::Pending, 1)]);
    let cases = [
        Case {
            series: &ok,
            trace: None,
            failures: Failures { judged: 3, ..Failures::default() },
            lookup: None,
            facts: None,
        },
        Case {
            series: &recovered,
            trace: None,
            failures: Failures { failed: 2, judged: 5, recovered: true, ..Failures::default() },
            lookup: None,
            facts: None,
        },
        Case { series: &pending, failures: Failures::default(), lookup: None, facts: None, trace: None },
    ];
    assert_eq!(diagnose(&cases), []);
}

#[test]
fn a_single_attempt_is_never_an_error() {
    for verdict in [Verdict::Ok, Verdict::Refused, Verdict::Asymmetric, Verdict::Pending] {
        let single = Series { confirmed: false, ..series(verdict, Reply::None, &[(verdict, 1)]) };
        let finding = one(&single, all_failed(1), None, None);
        assert_eq!((&*finding.code, finding.severity), ("NOT_A_PROBE", Severity::Info));
    }
}

#[test]
fn other_failures_say_what_was_seen_and_what_nobody_looked_at() {
    let facts = t2_primary();
    let found = lookup(&facts, "10.4.3.101", MAIN);
    let silent = series(Verdict::NoReply, Reply::None, &[(Verdict::NoReply, 4)]);
    let finding = one(&silent, all_failed(4), Some(&found), Some(&facts));
    assert_eq!((&*finding.code, &*finding.cause), ("NO_REPLY", "unknown"));
    assert_eq!(finding.out_nic, None);
    assert_eq!(
        evidence(&finding, "packets"),
        ["4 of 4 probes: SYN entered eth1, no reply left by any watched device"]
    );
    assert!(evidence(&finding, "not-looked-at")[0].contains("reverse-path filter"));
    assert_eq!(evidence(&finding, "rule").len(), 1);

    let rejected = series(Verdict::IcmpReject, Reply::Icmp, &[(Verdict::IcmpReject, 2)]);
    let failures = Failures { icmp: Some((3, 13)), ..all_failed(2) };
    let finding = one(&rejected, failures, None, None);
    assert!(finding.summary.contains("type 3 code 13"));
}

#[test]
fn an_answer_explains_itself() {
    let with = |verdict: Verdict, failures: Failures| {
        let one_series = Series { limit_s: Some(5.0), ..series(verdict, Reply::Data, &[(verdict, 2)]) };
        let failures = Failures { accepted: "200".to_owned(), failed: 2, judged: 2, ..failures };
        let finding = one(&one_series, failures, None, None);
        let evidence: Vec<_> = finding.evidence.iter().map(|e| format!("  {}: {}", e.kind, e.text)).collect();
        format!("{} ({}) {}\n{}", finding.code, finding.cause, finding.summary, evidence.join("\n"))
    };
    let none = Failures::default;
    let texts = [
        with(
            Verdict::HttpStatus,
            Failures { http_status: Some(404), answer: "HTTP/1.1 404 Not Found".into(), ..none() },
        ),
        with(Verdict::HttpStatus, Failures { http_status: Some(302), ..none() }),
        with(Verdict::HttpStatus, Failures { answer: "SSH-2.0-OpenSSH_9.2".into(), ..none() }),
        with(Verdict::Slow, Failures { took_s: Some(6.25), ..none() }),
        with(Verdict::TlsFail, Failures { tls_alert: Some(("protocol_version".into(), false)), ..none() }),
        with(Verdict::TlsFail, Failures { tls_alert: Some(("unknown_ca".into(), true)), ..none() }),
        with(Verdict::TlsFail, Failures { answer: "HTTP/1.1 400 Bad Request".into(), ..none() }),
    ];
    insta::assert_snapshot!("answers", texts.join("\n"));
}

#[test]
fn a_standby_that_refuses_is_no_alarm() {
    for verdict in
        [Verdict::Refused, Verdict::NoReply, Verdict::HttpStatus, Verdict::Slow, Verdict::Asymmetric]
    {
        let standby =
            Series { role: Some("standby".to_owned()), ..series(verdict, Reply::None, &[(verdict, 4)]) };
        let finding = one(&standby, all_failed(4), None, None);
        let alarm = matches!(verdict, Verdict::Slow | Verdict::Asymmetric);
        assert_eq!(finding.severity == Severity::Error, alarm, "{finding:#?}");
        assert_eq!(finding.summary.contains("as expected of a standby"), !alarm);
    }
}

#[test]
fn packets_alone_prove_an_application_that_closes_or_hangs() {
    let closes = series(Verdict::Refused, Reply::Rst, &[(Verdict::Refused, 2)]);
    let failures = Failures { closed_by_application: true, ..all_failed(2) };
    assert_eq!(one(&closes, failures, None, None).cause, "closed-by-application");
    assert_eq!(one(&closes, all_failed(2), None, None).cause, "unknown");

    let hangs = series(Verdict::NoReply, Reply::SynAck, &[(Verdict::NoReply, 2)]);
    let failures = Failures { accepted_unanswered: true, ..all_failed(2) };
    assert_eq!(one(&hangs, failures, None, None).cause, "timeout");
}

#[test]
fn what_could_not_be_read_is_said() {
    let mut facts = t2_primary();
    let found = lookup(&facts, "10.4.3.101", MAIN);
    facts.unread.push(Unread { what: "rules", why: "netlink gave no answer".into() });
    let finding = one(&misrouted(), by_eth0(), Some(&found), Some(&facts));
    assert_eq!(evidence(&finding, "not-looked-at"), ["rules: netlink gave no answer"]);
    assert!(finding.fixes.is_empty());
    assert!(evidence(&finding, "fix")[0].contains("rules was not read"), "{finding:#?}");
}

#[test]
fn findings_are_sorted_and_fixes_of_several_nics_do_not_collide() {
    let mut facts = t2();
    facts.routes.push(route(254, "0.0.0.0/0", "10.9.0.1", "eth2"));
    facts.links.0.push(crate::host::fixture::link(99, "eth2", Some("veth")));
    let out = |nic: &str, target: &str| Series {
        nic: nic.into(),
        target: target.into(),
        out_nic: Some("eth2".into()),
        ..misrouted()
    };
    let (b, a) = (out("eth1", "10.4.3.101"), out("eth0", "10.4.2.101"));
    let single = Series { nic: "eth0".into(), confirmed: false, ..misrouted() };
    let found_b = lookup(&facts, "10.4.3.101", MAIN);
    let found_a = lookup(&facts, "10.4.2.101", MAIN);
    let case = |series, lookup| Case {
        series,
        failures: all_failed(4),
        lookup: Some(lookup),
        facts: Some(&facts),
        trace: None,
    };
    let findings = diagnose(&[case(&single, &found_a), case(&b, &found_b), case(&a, &found_a)]);
    let order: Vec<_> =
        findings.iter().map(|finding| (finding.severity, finding.nic.as_deref().unwrap())).collect();
    assert_eq!(order, [(Severity::Error, "eth0"), (Severity::Error, "eth1"), (Severity::Info, "eth0")]);
    let texts: Vec<_> =
        findings.iter().flat_map(|finding| &finding.fixes).map(|fix| fix.text.clone()).collect();
    let policies =
        policies(&[case(&single, &found_a), case(&b, &found_b), case(&a, &found_a), case(&b, &found_b)]);
    let printed: Vec<_> = policies.iter().map(|policy| fix::render(policy)[0].text.clone()).collect();
    assert_eq!(printed, [texts[1].clone(), texts[0].clone()], "each once, as printed");
    assert!(texts[0].contains("table 202") && texts[1].contains("table 201"), "{texts:#?}");
}

#[test]
fn an_unsure_rule_is_called_so() {
    let facts = t2_primary();
    let mut found = lookup(&facts, "10.4.3.101", MAIN);
    found.rule = Choice::Unsure(Rule::all(false, 5, MAIN), "it depends on the user that owns the socket");
    let finding = one(&misrouted(), by_eth0(), Some(&found), Some(&facts));
    assert_eq!(
        evidence(&finding, "rule"),
        ["5: from all lookup main (probably: it depends on the user that owns the socket)"]
    );
}
