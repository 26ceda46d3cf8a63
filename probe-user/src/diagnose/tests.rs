use super::testing::{case, facts, lookup, route, rule, series};
use super::*;
use crate::report::document::{ObserverState, Reply, Verdict};

fn complete() -> Observer {
    Observer { state: ObserverState::Complete, reasons: Vec::new(), lost: 0, evicted: 0 }
}

fn text(finding: &Finding, kind: &str) -> String {
    finding.evidence.iter().filter(|e| e.kind == kind).map(|e| e.text.clone()).collect::<Vec<_>>().join("|")
}

#[test]
fn a_misrouted_reply_names_the_leftover_host_route_and_the_rule() {
    let (facts, series) = (facts(), series(Verdict::Asymmetric, Reply::SynAck));
    let answer = lookup(2, route("168.63.129.16", Some("10.4.2.1"), 2, 254), rule(32766, None, 254));
    let found = diagnose(&[case(&series, &facts, Some(&answer))], &complete());
    let [finding] = found.as_slice() else { panic!("one finding, not {found:?}") };
    assert_eq!(
        (finding.code.as_str(), finding.cause.as_str(), finding.out_nic.as_deref()),
        ("ASYMMETRIC", "route", Some("eth0"))
    );
    assert_eq!(text(finding, "route"), "168.63.129.16 via 10.4.2.1 dev eth0 proto static, table main");
    assert_eq!(text(finding, "rule"), "32766: from all lookup main");
    assert_eq!(
        finding.fixes[0].text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>(),
        [
            "ip route replace 168.63.129.16 via 10.4.3.1 dev eth1 table 202",
            "ip rule add from 10.4.3.101 to 168.63.129.16 lookup 202 priority 100"
        ]
    );
}

#[test]
fn a_table_with_the_wrong_device_is_mended_not_doubled() {
    let mut facts = facts();
    facts.rules.push(rule(50, Some("10.4.3.101"), 201));
    let series = series(Verdict::Asymmetric, Reply::SynAck);
    let answer =
        lookup(2, route("168.63.129.16", Some("10.4.3.1"), 2, 201), rule(50, Some("10.4.3.101"), 201));
    let found = diagnose(&[case(&series, &facts, Some(&answer))], &complete());
    let fix = &found[0].fixes[0].text;
    assert!(fix.contains("ip route replace 168.63.129.16 via 10.4.3.1 dev eth1 table 201"), "{fix}");
    assert!(!fix.contains("ip rule"), "{fix}");
}

#[test]
fn the_fix_wins_over_rules_that_are_there_and_takes_a_free_table() {
    let mut facts = facts();
    facts.rules.push(rule(10, None, 202));
    facts.routes.push(route("0.0.0.0/0", Some("10.4.3.1"), 3, 203));
    let series = series(Verdict::Asymmetric, Reply::SynAck);
    let answer = lookup(2, route("168.63.129.16", Some("10.4.2.1"), 2, 254), rule(32766, None, 254));
    let found = diagnose(&[case(&series, &facts, Some(&answer))], &complete());
    let fix = &found[0].fixes[0].text;
    assert!(fix.ends_with("lookup 204 priority 9"), "{fix}");
    assert!(!fix.contains("assumed"), "the gateway is in a route: {fix}");
}

#[test]
fn a_lookup_that_contradicts_the_packets_is_not_the_explanation() {
    let (facts, series) = (facts(), series(Verdict::Asymmetric, Reply::SynAck));
    let answer = lookup(3, route("168.63.129.16", Some("10.4.3.1"), 3, 254), rule(32766, None, 254));
    let found = diagnose(&[case(&series, &facts, Some(&answer))], &complete());
    assert_eq!(found[0].cause, "unknown");
    assert!(text(&found[0], "route").contains("now says otherwise"), "{:?}", found[0].evidence);
}

#[test]
fn a_misrouted_rst_is_one_finding_that_says_both() {
    let (facts, series) = (facts(), series(Verdict::Asymmetric, Reply::Rst));
    let answer = lookup(2, route("168.63.129.16", Some("10.4.2.1"), 2, 254), rule(32766, None, 254));
    let found = diagnose(&[case(&series, &facts, Some(&answer))], &complete());
    assert_eq!(found.len(), 1);
    assert!(text(&found[0], "packets").contains("RST"), "{:?}", found[0].evidence);
}

#[test]
fn every_failing_series_has_one_error_and_healthy_ones_none() {
    let facts = facts();
    for (verdict, reply) in
        [(Verdict::NoReply, Reply::None), (Verdict::Refused, Reply::Rst), (Verdict::IcmpReject, Reply::Icmp)]
    {
        let series = series(verdict, reply);
        let found = diagnose(&[case(&series, &facts, None)], &complete());
        assert_eq!(found.len(), 1, "{verdict}");
        assert_eq!((found[0].code.as_str(), found[0].cause.as_str()), (verdict.code(), "unknown"));
        assert_eq!(found[0].severity, Severity::Error);
    }
    let healthy = series(Verdict::Ok, Reply::SynAck);
    let mut healthy_case = case(&healthy, &facts, None);
    healthy_case.failures = Failures { judged: 4, failed: 0, runs: 0, last_ok: true };
    healthy_case.failure = None;
    assert_eq!(diagnose(&[healthy_case], &complete()), []);
}

#[test]
fn recovered_is_no_finding_and_intermittent_says_how_many() {
    let facts = facts();
    let series = series(Verdict::Asymmetric, Reply::SynAck);
    let mut recovered = case(&series, &facts, None);
    recovered.failures = Failures { judged: 6, failed: 2, runs: 1, last_ok: true };
    assert_eq!(diagnose(&[recovered.clone()], &complete()), []);
    let mut intermittent = recovered;
    intermittent.failures = Failures { judged: 9, failed: 3, runs: 3, last_ok: true };
    let found = diagnose(&[intermittent], &complete());
    assert!(found[0].intermittent);
    assert!(found[0].summary.contains("3 of 9 probes"), "{}", found[0].summary);
}

#[test]
fn one_connection_alone_is_never_an_error() {
    let facts = facts();
    let mut single = series(Verdict::NoReply, Reply::None);
    single.confirmed = false;
    let found = diagnose(&[case(&single, &facts, None)], &complete());
    assert_eq!((found[0].code.as_str(), found[0].severity), ("NOT_A_PROBE", Severity::Info));
    assert_eq!(found.len(), 1);
}

#[test]
fn the_application_is_told_from_the_network() {
    let facts = facts();
    let refused = series(Verdict::Refused, Reply::Rst);
    let mut closed = case(&refused, &facts, None);
    closed.failure.as_mut().expect("set").closed_by_application = true;
    assert_eq!(diagnose(&[closed], &complete())[0].cause, "closed-by-application");
    let silent = series(Verdict::NoReply, Reply::None);
    let mut timeout = case(&silent, &facts, None);
    timeout.failure.as_mut().expect("set").timed_out = true;
    assert_eq!(diagnose(&[timeout], &complete())[0].cause, "timeout");
}
