//! Cause `closed-by-application`: the connection was closed after the request without an answer. The packets alone
//! prove it.

use super::{Case, Explanation, evidence};
use crate::report::document::{Reply, Verdict};

pub(super) fn explain(case: &Case<'_>, verdict: Verdict) -> Option<Explanation> {
    let failures = &case.failures;
    if verdict != Verdict::Refused || !failures.closed_by_application {
        return None;
    }
    let (nic, place) = (&case.series.nic, case.place());
    let how = match case.series.reply {
        Reply::Rst => "resets the connection without an answer",
        Reply::Data => "closes the connection before its answer has a status line",
        _ => "closes the connection without an answer",
    };
    let mut evidence = vec![evidence::of(
        "packets",
        format!("{}: handshake done, request seen, then the host {how}", case.share()),
    )];
    evidence.extend(evidence::proxy(case));
    evidence.extend(evidence::unread(case));
    Some(Explanation {
        cause: "closed-by-application",
        summary: format!("Probes of {place} on {nic} fail: the application reads the request and {how}."),
        evidence,
        misroute: None,
        remedy: None,
    })
}
