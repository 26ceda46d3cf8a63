//! `PLATFORM`: what this host itself asks of a source (wire server, DNS) gets no answer. Probes have nothing to do with
//! it, and their verdicts stay as they are.

use super::Scene;
use crate::{
    diagnose::evidence,
    report::document::{Finding, Severity},
};

/// Packets without any in return that are more than the end of an old connection.
const ENOUGH: u64 = 2;

pub(super) fn find(scene: &Scene<'_>) -> Vec<Finding> {
    let Some(own) = scene.own else { return Vec::new() };
    let platform = own.packets;
    if platform.packets_out < ENOUGH || platform.packets_in > 0 {
        return Vec::new();
    }
    let mut evidence = vec![evidence::of(
        "packets",
        format!(
            "{} of this host's own packets left for {}, none came back",
            platform.packets_out, own.source
        ),
    )];
    evidence.extend(own.connecting.iter().map(|waiting| {
        evidence::of("socket", format!("{} waits for an answer of {}", waiting.local, waiting.remote))
    }));
    let mut nic = None;
    if let Some(lookup) = own.lookup {
        evidence.extend(evidence::way(lookup, own.facts));
        nic = lookup.chosen().map(|chosen| chosen.hop.device.clone());
    }
    let by = nic.as_ref().map_or_else(String::new, |nic| format!(" by {nic}"));
    vec![Finding {
        code: "PLATFORM".to_owned(),
        cause: "unknown".to_owned(),
        severity: Severity::Warning,
        nic,
        out_nic: None,
        target: None,
        port: None,
        intermittent: false,
        summary: format!(
            "This host's own traffic to {}{by} gets no answer: guest agent, DNS and extensions fail, probes are another \
             matter. Azure expects it from the primary NIC and its primary address.",
            own.source
        ),
        evidence,
        fixes: Vec::new(),
    }]
}
