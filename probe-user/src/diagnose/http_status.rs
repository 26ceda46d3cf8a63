//! Cause `http-status`: the answer came in time and is not one that counts.

use super::{Case, Explanation, evidence};
use crate::report::document::Verdict;

pub(super) fn explain(case: &Case<'_>, verdict: Verdict) -> Option<Explanation> {
    if verdict != Verdict::HttpStatus {
        return None;
    }
    let failures = &case.failures;
    let (nic, place, accepted) = (&case.series.nic, case.place(), &failures.accepted);
    let (summary, seen) = match failures.http_status {
        Some(status) => (
            format!(
                "Probes of {place} on {nic} are answered with HTTP status {status}; only {accepted} counts as healthy."
            ),
            format!("HTTP status {status}"),
        ),
        None => (
            format!("Probes of {place} on {nic} are answered with something that is no HTTP response."),
            "the answer has no HTTP status line".to_owned(),
        ),
    };
    let mut evidence = vec![evidence::of("packets", format!("{}: {seen}", case.share()))];
    if !failures.answer.is_empty() {
        evidence.push(evidence::of("answer", failures.answer.clone()));
    }
    evidence.extend(failures.http_status.and_then(hint).map(|hint| evidence::of("hint", hint)));
    evidence.extend(evidence::proxy(case));
    Some(Explanation { cause: "http-status", summary, evidence, misroute: None, remedy: None })
}

/// What usually stands behind a status.
fn hint(status: u16) -> Option<&'static str> {
    match status {
        201..=299 => Some("a success, and yet none for the load balancer: answer probes with 200"),
        300..=399 => Some("probers do not follow redirects: answer the probed path itself"),
        400 => Some(
            "the server did not understand the request: a PROXY header it does not expect, or a Host that it refuses",
        ),
        401 | 407 => Some("probers cannot log in: exempt the probed path"),
        403 => Some(
            "the prober is refused; others may well be served: look for an access rule by address or name",
        ),
        404 => Some("the probed path does not exist: compare the probe's path with the server's"),
        405 => Some("the probed path does not take this method"),
        503 => Some("the application itself says that it is not available"),
        _ => None,
    }
}
