//! The report as one JSON document.

use super::document::Report;

/// Indented, with a newline at the end.
pub fn document(report: &Report) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(report)? + "\n")
}
