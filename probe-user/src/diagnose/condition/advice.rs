//! `ADVICE`: what is no fault by itself, and what somebody who looks for one should know. Its cause says which.

use crate::report::document::{Evidence, Finding, Severity};

/// A remark about the host.
pub(super) fn advice(cause: &str, summary: String, evidence: Vec<Evidence>) -> Finding {
    Finding {
        code: "ADVICE".to_owned(),
        cause: cause.to_owned(),
        severity: Severity::Info,
        nic: None,
        out_nic: None,
        target: None,
        port: None,
        intermittent: false,
        summary,
        evidence,
        fixes: Vec::new(),
    }
}
