//! `DEGRADED_OBSERVER`: what we may have missed is part of the answer.

use super::evidence;
use crate::report::document::{Finding, Observer, ObserverState, Severity};

/// A warning when anything was lost or not covered.
pub(super) fn explain(observer: &Observer) -> Option<Finding> {
    if observer.state == ObserverState::Complete {
        return None;
    }
    Some(Finding {
        code: "DEGRADED_OBSERVER".to_owned(),
        cause: "unknown".to_owned(),
        severity: Severity::Warning,
        nic: None,
        out_nic: None,
        target: None,
        port: None,
        intermittent: false,
        summary: "nvaprobe does not see everything here: verdicts may be missing.".to_owned(),
        evidence: observer
            .reasons
            .iter()
            .map(|reason| evidence::of("observer", reason.text.clone()))
            .collect(),
        fixes: Vec::new(),
    })
}
