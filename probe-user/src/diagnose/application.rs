//! `timeout` and `closed-by-application`: the request was read, and the packets alone prove the rest.

use super::{Case, Failure, about, evidence, summary};
use crate::report::document::{Finding, Reply};

/// Accepted, request seen, never answered.
pub(super) fn timeout(case: &Case<'_>, failure: &Failure) -> Option<Finding> {
    if !failure.timed_out {
        return None;
    }
    let summary = format!(
        "{} to {} on {} are accepted and read, and never answered: {}.",
        summary::which(case),
        summary::target(case),
        case.series.nic,
        summary::consequence(case),
    );
    let mut finding = about(case, failure, "timeout", summary::sentence(&summary));
    finding
        .evidence
        .push(evidence("packets", "handshake and request seen, no answer by the limit".to_owned()));
    Some(finding)
}

/// Closed without an answer after the request.
pub(super) fn closed(case: &Case<'_>, failure: &Failure) -> Option<Finding> {
    if !failure.closed_by_application {
        return None;
    }
    let summary = format!(
        "{} to {} on {} are read, then closed without an answer: {}.",
        summary::which(case),
        summary::target(case),
        case.series.nic,
        summary::consequence(case),
    );
    let mut finding = about(case, failure, "closed-by-application", summary::sentence(&summary));
    let how = if failure.reply == Reply::Rst { "RST" } else { "FIN" };
    finding.evidence.push(evidence("packets", format!("request seen, then {how} from the host")));
    Some(finding)
}
