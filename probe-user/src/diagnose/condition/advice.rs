//! `ADVICE`: what is no fault by itself, and what somebody who looks for one should know. Its cause says which.

use crate::report::document::{Evidence, Finding, Severity};

/// A remark about the host.
pub(super) struct Advice {
    pub(super) cause: &'static str,
    pub(super) summary: String,
    pub(super) evidence: Vec<Evidence>,
}

impl Advice {
    pub(super) fn finding(self) -> Finding {
        Finding {
            code: "ADVICE".to_owned(),
            cause: self.cause.to_owned(),
            severity: Severity::Info,
            nic: None,
            out_nic: None,
            target: None,
            port: None,
            intermittent: false,
            summary: self.summary,
            evidence: self.evidence,
            fixes: Vec::new(),
        }
    }
}
