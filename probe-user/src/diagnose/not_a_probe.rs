//! `NOT_A_PROBE`: one inbound attempt may be a port test.

use super::{Case, evidence, summary};
use crate::report::document::{Finding, Severity};

/// Info, never an error: a load balancer probes again and again, from another port each time.
pub(super) fn explain(case: &Case<'_>) -> Finding {
    let series = case.series;
    let source = series.addresses.first().unwrap_or(&series.source);
    Finding {
        code: "NOT_A_PROBE".to_owned(),
        cause: "unknown".to_owned(),
        severity: Severity::Info,
        nic: Some(series.nic.clone()),
        out_nic: None,
        target: Some(series.target.clone()),
        port: Some(series.port),
        intermittent: false,
        summary: format!(
            "One connection from {source} to {} on {} so far: it may be a port test; a load balancer repeats.",
            summary::target(case),
            series.nic
        ),
        evidence: vec![evidence("packets", format!("1 attempt, verdict {}", series.verdict))],
        fixes: Vec::new(),
    }
}
