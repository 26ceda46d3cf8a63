//! What would happen to probes where none was seen, in the conditional.

use super::{Style, finding};
use crate::report::{
    document::{Prediction, Report, Severity},
    endpoint::endpoint,
    style::{clean, wrap},
};

/// One line for each NIC and address; evidence where it would go wrong.
pub(super) fn lines(report: &Report, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    if report.predictions.is_empty() {
        return lines;
    }
    lines.extend(wrap("predicted, where no probe was seen", "", "  ", style.columns()));
    for prediction in &report.predictions {
        let text = format!("{}: {}", place(prediction), clean(&prediction.text));
        let wrapped = wrap(&text, "  ", "    ", style.columns());
        lines.extend(
            wrapped
                .into_iter()
                .map(|line| if prediction.fails { style.severity(Severity::Warning, &line) } else { line }),
        );
        if prediction.fails {
            lines.extend(
                finding::evidence(&prediction.evidence, style).iter().map(|line| format!("  {line}")),
            );
        }
    }
    lines
}

/// `eth1 10.4.3.101:8008`, `eth1 10.4.3.101`.
pub(super) fn place(prediction: &Prediction) -> String {
    let end = match prediction.port {
        Some(port) => endpoint(&prediction.address, port),
        None => clean(&prediction.address),
    };
    format!("{} {end}", clean(&prediction.nic))
}
