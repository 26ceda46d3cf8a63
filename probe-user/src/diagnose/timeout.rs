//! Cause `timeout`: the application accepts, and answers too late or never. The packets alone prove it.

use super::{Case, Explanation, evidence};
use crate::report::document::{Protocol, Verdict};

pub(super) fn explain(case: &Case<'_>, verdict: Verdict) -> Option<Explanation> {
    let failures = &case.failures;
    let (nic, place) = (&case.series.nic, case.place());
    let (summary, seen) = match verdict {
        Verdict::NoReply if failures.accepted_unanswered => (
            "the application accepts the connection and never answers the request".to_owned(),
            "handshake done, request seen, no answer".to_owned(),
        ),
        Verdict::Slow => {
            let took = failures
                .took_s
                .map_or_else(String::new, |took| format!(" {took:.1} s after the probe began"));
            let limit = case.series.limit_s.map_or_else(String::new, |limit| format!(" of {limit:.1} s"));
            let what = if case.series.protocol == Protocol::Tcp { "the SYN-ACK" } else { "the answer" };
            (
                format!("{what} comes{took}, after the limit{limit}: the load balancer no longer counts it"),
                format!("{what} left{took}; the limit is{}", limit.trim_start_matches(" of")),
            )
        }
        _ => return None,
    };
    let mut evidence = vec![evidence::of("packets", format!("{}: {seen}", case.share()))];
    if let (Verdict::Slow, Some(answers)) = (verdict, case.series.answer_ms.or(case.series.latency_ms)) {
        evidence.push(evidence::of(
            "latency",
            format!("p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms", answers.p50, answers.p99, answers.max),
        ));
    }
    evidence.extend(evidence::proxy(case));
    evidence.extend(evidence::unread(case));
    Some(Explanation {
        cause: "timeout",
        summary: format!("Probes of {place} on {nic} fail: {summary}."),
        evidence,
        misroute: None,
        remedy: None,
    })
}
