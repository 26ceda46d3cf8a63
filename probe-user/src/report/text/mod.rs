//! The report for people: the answer first, then one line a series, then what is wrong, why, and what to type, then
//! how it was observed.

mod answer;
mod finding;
mod headline;
mod infos;
mod lb;
mod observer;
mod ports;
mod predicted;
mod row;
mod table;

use super::{
    document::{Evidence, Finding, Report, Severity},
    style::{clean, wrap},
};

pub use super::style::Style;
pub(super) use finding::lines as finding;

/// The kind under which the load balancer's view stands among a finding's evidence.
const LB_VIEW: &str = "lb-view";

/// The whole report.
pub fn report(report: &Report, style: Style) -> String {
    let mut lines = answer::lines(report, style);
    if !report.probes.is_empty() {
        lines.push(String::new());
        lines.extend(table::lines(report, style));
    }
    let predicted = predicted::lines(report, style);
    if !predicted.is_empty() {
        lines.push(String::new());
        lines.extend(predicted);
    }
    let flows = lb::flows(report);
    if !flows.is_empty() {
        lines.push(String::new());
        for text in flows {
            lines.extend(wrap(&clean(text), "flows  ", "       ", style.columns()));
        }
    }
    let (infos, mut urgent): (Vec<&Finding>, Vec<&Finding>) =
        report.findings.iter().partition(|finding| finding.severity == Severity::Info);
    urgent.sort_by_key(|finding| finding.severity);
    for found in &urgent {
        lines.push(String::new());
        lines.extend(finding(&with_view(found, report), style));
    }
    if !infos.is_empty() {
        lines.push(String::new());
        lines.extend(infos::lines(&infos, urgent.is_empty(), style));
    }
    lines.push(String::new());
    lines.extend(observer::lines(report, style));
    lines.join("\n") + "\n"
}

/// An error with what the load balancer made of it, in the words of Azure's portal.
fn with_view(finding: &Finding, report: &Report) -> Finding {
    let mut finding = finding.clone();
    let view = headline::series(report, &finding).and_then(|series| series.lb_view.as_ref());
    let told = finding.evidence.iter().any(|evidence| evidence.kind == LB_VIEW);
    if let Some(view) = view
        && finding.severity == Severity::Error
        && !told
    {
        let text = lb::evidence(view, &report.window);
        finding.evidence.push(Evidence { kind: LB_VIEW.to_owned(), text });
    }
    finding
}

/// Milliseconds in three significant places.
pub(super) fn ms(milliseconds: f64) -> String {
    if milliseconds < 1.0 {
        format!("{milliseconds:.2}ms")
    } else if milliseconds < 100.0 {
        format!("{milliseconds:.1}ms")
    } else {
        format!("{milliseconds:.0}ms")
    }
}

/// Seconds to a tenth: `5`, `0.5`.
fn tenths(seconds: f64) -> String {
    let text = format!("{seconds:.1}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests;
