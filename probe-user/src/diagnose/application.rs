//! Causes `closed-by-application` and `timeout`: the handshake went well, the answer did not come. The
//! packets alone prove both.

use super::{Case, Explanation, evidence};
use crate::report::document::Verdict;

pub(super) fn explain(case: &Case<'_>, verdict: Verdict) -> Option<Explanation> {
    let failures = &case.failures;
    let (nic, place) = (&case.series.nic, case.place());
    let (cause, happened) = match verdict {
        Verdict::Refused if failures.closed_by_application => {
            ("closed-by-application", "the application accepts and closes the connection without an answer")
        }
        Verdict::NoReply if failures.accepted_unanswered => {
            ("timeout", "the application accepts the connection and never answers the request")
        }
        _ => return None,
    };
    let mut evidence = vec![evidence::of(
        "packets",
        format!(
            "{} of {} probes on {nic}: handshake done, request seen, no answer",
            failures.failed, failures.judged
        ),
    )];
    evidence.extend(evidence::unread(case));
    Some(Explanation {
        cause,
        summary: format!("Probes of {place} on {nic} fail: {happened}."),
        evidence,
        misroute: None,
    })
}
