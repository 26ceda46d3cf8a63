//! One finding: what, since what, and what to type.

use std::fmt::Write; // to a String it cannot fail

use super::Style;
use crate::report::{
    document::{Evidence, Finding, Fix, Severity},
    endpoint::endpoint,
    style::{clean, pad, width, wrap},
};

/// Labels longer than this stand on a line of their own when the terminal is narrow.
const NARROW: usize = 60;

pub(in crate::report) fn lines(finding: &Finding, style: Style) -> Vec<String> {
    let columns = style.columns();
    let mut lines: Vec<String> = wrap(&clean(&head(finding)), "", "  ", columns)
        .iter()
        .map(|line| style.severity(finding.severity, line))
        .collect();
    lines.extend(wrap(&clean(&finding.summary), "  ", "  ", columns));
    lines.extend(evidence(&finding.evidence, style));
    lines.extend(finding.fixes.iter().flat_map(|fix| commands(fix, columns)));
    lines
}

pub(super) fn evidence(evidence: &[Evidence], style: Style) -> Vec<String> {
    let columns = style.columns();
    let mut lines = Vec::new();
    let label = evidence.iter().map(|evidence| width(&clean(&evidence.kind))).max().unwrap_or(0);
    for evidence in evidence {
        let kind = clean(&evidence.kind);
        // A table's lines or a rule set's stay apart.
        let mut texts = evidence.text.lines().map(clean).collect::<Vec<_>>();
        if texts.is_empty() {
            texts.push(String::new());
        }
        let beside = label + 4 + columns / 3 <= columns && (columns >= NARROW || label <= 9);
        let indent = if beside { " ".repeat(label + 4) } else { "    ".to_owned() };
        let mut first = format!("  {}  ", pad(&kind, label));
        if !beside {
            lines.extend(wrap(&kind, "  ", "  ", columns));
            first.clone_from(&indent);
        }
        for text in &texts {
            lines.extend(wrap(text, &first, &indent, columns).iter().map(|line| line.trim_end().to_owned()));
            first.clone_from(&indent);
        }
    }
    lines
}

/// `ERROR ASYMMETRIC (cause: route) eth1 10.4.3.101:8008, sometimes`: the severity is readable without colour.
fn head(finding: &Finding) -> String {
    let severity = match finding.severity {
        Severity::Error => "ERROR",
        Severity::Warning => "WARNING",
        Severity::Info => "INFO",
    };
    let mut head = format!("{severity} {}", finding.code);
    // A warning or a remark without a cause needs none.
    if finding.severity == Severity::Error || finding.cause != "unknown" {
        let _ = write!(head, " (cause: {})", finding.cause);
    }
    if let Some(nic) = &finding.nic {
        let _ = write!(head, " {nic}");
    }
    match (&finding.target, finding.port) {
        (Some(target), Some(port)) => {
            let _ = write!(head, " {}", endpoint(target, port));
        }
        (None, Some(port)) => {
            let _ = write!(head, " port {port}");
        }
        _ => {}
    }
    if finding.intermittent {
        head.push_str(", sometimes");
    }
    head
}

/// Commands start at the left edge and are never broken, so that a copied block is what was meant, here-documents
/// and YAML included; a terminal breaks long lines without inserting anything.
pub(super) fn commands(fix: &Fix, columns: usize) -> Vec<String> {
    let lasting = if fix.persistent { "persistent" } else { "lost on reboot" };
    let mut lines = wrap(&format!("fix with {}, {lasting}:", clean(&fix.family)), "  ", "  ", columns);
    lines.push(String::new());
    lines.extend(fix.text.lines().map(clean));
    lines
}
