//! Cause `tcp-timestamps`: Azure's page says to expect failing probes with TCP timestamps on. Probes carry none, so that a
//! host with timestamps answers without (RFC 7323, 3.2), and nothing fails: advice for who asks, no more
//! (<https://learn.microsoft.com/azure/load-balancer/load-balancer-custom-probe-overview>).

use super::{Scene, advice::Advice};
use crate::{profile::Profile, report::document::Finding};

pub(super) fn find(scene: &Scene<'_>) -> Vec<Finding> {
    let on = scene.facts.and_then(|facts| facts.sysctls.tcp_timestamps).filter(|value| *value > 0);
    let Some(value) = on.filter(|_| scene.advise && scene.profile == Profile::AzureLb) else {
        return Vec::new();
    };
    let summary = format!(
        "net.ipv4.tcp_timestamps = {value}, Azure's page says 0; probes carry none, so it is low priority."
    );
    vec![Advice { cause: "tcp-timestamps", summary, evidence: Vec::new() }.finding()]
}
