//! The report for people: the answer first, then one line a series, then what is wrong, why, and what to type, then
//! how it was observed.

mod answer;
mod finding;
mod observer;
mod table;

use super::document::Report;

pub use super::style::Style;
pub(super) use finding::lines as finding;

/// The whole report.
pub fn report(report: &Report, style: Style) -> String {
    let mut lines = answer::lines(report, style);
    if !report.probes.is_empty() {
        lines.push(String::new());
        lines.extend(table::lines(&report.probes, style));
    }
    for found in &report.findings {
        lines.push(String::new());
        lines.extend(finding(found, style));
    }
    lines.push(String::new());
    lines.extend(observer::lines(report, style));
    lines.join("\n") + "\n"
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

#[cfg(test)]
mod tests;
