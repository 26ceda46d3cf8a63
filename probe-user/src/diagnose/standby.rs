//! A standby refuses or ignores probes on purpose: that is how the load balancer learns which of a pair is active.

use super::Case;
use crate::report::document::Verdict;

/// Whether this failure is what the configuration expects of a standby. A reply by the wrong NIC never is.
pub(super) fn expects(case: &Case<'_>, verdict: Verdict) -> bool {
    case.series.role.as_deref() == Some("standby")
        && matches!(verdict, Verdict::Refused | Verdict::NoReply | Verdict::IcmpReject | Verdict::HttpStatus)
}

pub(super) fn summary(case: &Case<'_>, verdict: Verdict) -> String {
    let what = match verdict {
        Verdict::Refused => "are refused",
        Verdict::IcmpReject => "are rejected",
        Verdict::HttpStatus => "are answered with a status that keeps it out of rotation",
        _ => "stay unanswered",
    };
    format!("Probes of {} on {} {what}, as expected of a standby.", case.place(), case.series.nic)
}
