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
        let fails = if prediction.fails { "would fail: " } else { "" };
        let text = format!("{}: {fails}{}", place(prediction), clean(&prediction.text));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{
        document::{Evidence, Hearing, NOT_OBSERVED, ObserverState, Platform, Reason, RpFilter},
        text::{report, tests::fixtures::document},
    };

    fn prediction(nic: &str, address: &str, port: Option<u16>, fails: bool, text: &str) -> Prediction {
        Prediction {
            nic: nic.to_owned(),
            address: address.to_owned(),
            port,
            source: "168.63.129.16".to_owned(),
            out_nic: Some("eth0".to_owned()),
            rp_filter: RpFilter::Pass,
            listener: port.map(|_| Hearing::Hears),
            fails,
            text: text.to_owned(),
            evidence: vec![Evidence {
                kind: "route".to_owned(),
                text: "168.63.129.16 via 10.4.2.1 dev eth0, table main".to_owned(),
            }],
        }
    }

    #[test]
    fn predictions_are_conditional_and_only_failures_are_proved() {
        let mut looked = document(Vec::new(), Vec::new());
        looked.platform = Platform::default();
        let words = "a reply to 168.63.129.16 would leave by eth0";
        looked.predictions = vec![
            prediction("eth0", "10.4.2.101", None, false, words),
            prediction("eth1", "fd00::65", Some(8008), true, words),
        ];
        let seen = report(&looked, Style::PLAIN);
        looked.observer.state = ObserverState::Degraded;
        looked.observer.reasons =
            vec![Reason { code: NOT_OBSERVED.to_owned(), text: "no packet was looked at".to_owned() }];
        let unseen = report(&looked, Style::PLAIN);
        looked.predictions.truncate(1);
        let well = report(&looked, Style::PLAIN);
        looked.predictions.clear();
        let none = report(&looked, Style::PLAIN);
        insta::assert_snapshot!("predicted", [seen, unseen, well, none].join("\n----\n"));
    }
}
