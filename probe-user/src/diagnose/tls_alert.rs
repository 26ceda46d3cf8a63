//! Cause `tls-alert`: no TLS session came about. What the packets show in the clear proves it.

use super::{Case, Explanation, evidence};
use crate::report::document::Verdict;

pub(super) fn explain(case: &Case<'_>, verdict: Verdict) -> Option<Explanation> {
    if verdict != Verdict::TlsFail {
        return None;
    }
    let failures = &case.failures;
    let (nic, place) = (&case.series.nic, case.place());
    let (summary, seen) = match &failures.tls_alert {
        Some((alert, false)) => (
            format!(
                "Probes of {place} on {nic} fail in the TLS handshake: the server sends the alert {alert}."
            ),
            format!("ClientHello seen, answered by the alert {alert}"),
        ),
        Some((alert, true)) => (
            format!(
                "Probes of {place} on {nic} fail in the TLS handshake: the prober refuses it with the alert {alert}."
            ),
            format!("ServerHello seen, then the prober's alert {alert}"),
        ),
        None => (
            format!("Probes of {place} on {nic} speak TLS; the server answers with something else."),
            "ClientHello seen, answered by something that is not TLS".to_owned(),
        ),
    };
    let mut evidence = vec![evidence::of("packets", format!("{}: {seen}", case.share()))];
    if failures.tls_alert.is_none() && !failures.answer.is_empty() {
        evidence.push(evidence::of("answer", failures.answer.clone()));
    }
    let alert = failures.tls_alert.as_ref().map(|(alert, _)| alert.as_str());
    evidence.extend(alert.and_then(hint).map(|hint| evidence::of("hint", hint)));
    evidence.extend(evidence::proxy(case));
    Some(Explanation { cause: "tls-alert", summary, evidence, misroute: None, remedy: None })
}

/// What usually stands behind an alert (RFC 8446, 6.2).
fn hint(alert: &str) -> Option<&'static str> {
    match alert {
        // azure-docs 107193: the prober was seen to offer TLS 1.2 at most.
        "protocol_version" => {
            Some("no TLS version in common: probers may offer TLS 1.2 at most, so let the server take 1.2")
        }
        "handshake_failure" | "insufficient_security" => Some("no cipher suite or parameters in common"),
        "unrecognized_name" => {
            Some("the server wants a server name (SNI) that it knows; probers may send none")
        }
        "certificate_required" => Some("the server wants a client certificate; probers have none"),
        "bad_certificate"
        | "unsupported_certificate"
        | "certificate_unknown"
        | "certificate_expired"
        | "unknown_ca" => {
            Some("Azure wants the whole chain signed with SHA-256 or better, and does not check the name")
        }
        _ => None,
    }
}
