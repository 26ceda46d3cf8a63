//! `INTERVAL`: what failover time the observed interval implies. Runbooks quote the portal's default; a template that names
//! none gets another.

use super::{Scene, confirmed, of};
use crate::{
    diagnose::evidence,
    report::document::{Finding, Severity},
};

/// Default of the portal and of the page; default and minimum of the API (ARM `ProbePropertiesFormat`), seconds.
const PORTAL_S: f64 = 5.0;
const TEMPLATE_S: f64 = 15.0;
const LEAST_S: f64 = 5.0;
/// An estimate within this share of a value is that value.
const NEAR: f64 = 0.1;

pub(super) fn find(scene: &Scene<'_>) -> Vec<Finding> {
    let near = |seconds: f64, of: f64| (seconds - of).abs() <= NEAR * of;
    confirmed(scene)
        .filter_map(|case| {
            let series = case.series;
            let interval = series.interval_s?;
            let view = series.lb_view.as_ref()?;
            let failover = view.failover_s?;
            let several = series.cadences.len() > 1;
            let often = if several {
                let all: Vec<_> = series.cadences.iter().map(|seconds| format!("{} s", rounded(*seconds))).collect();
                format!("Two load balancers probe it, every {}", all.join(" and every "))
            } else {
                format!("Probed every {} s", rounded(interval))
            };
            let times = match view.threshold {
                1 => "one failure takes it out".to_owned(),
                threshold => format!("{threshold} failures in a row take it out"),
            };
            let defaults = if !scene.azure_lb {
                String::new()
            } else if near(interval, PORTAL_S) {
                " (5 s is the portal's default; templates and the API default to 15 s)".to_owned()
            } else if near(interval, TEMPLATE_S) {
                " (15 s is the default of templates and the API; runbooks quote the portal's 5 s)".to_owned()
            } else if interval < LEAST_S * (1.0 - NEAR) {
                " (below the minimum of 5 s, so no Azure load balancer; defaults: 5 s in the portal, 15 s in templates)"
                    .to_owned()
            } else {
                " (defaults: 5 s in the portal, 15 s in templates)".to_owned()
            };
            let evidence = vec![evidence::of(
                "interval",
                format!("{} attempts, retransmissions not counted", series.attempts),
            )];
            Some(of(
                case,
                "INTERVAL",
                Severity::Info,
                format!("{often}{defaults}; {times}: failover within about {} s.", rounded(failover)),
                evidence,
            ))
        })
        .collect()
}

/// Short times with a digit behind the point.
fn rounded(seconds: f64) -> String {
    if seconds < 9.95 { format!("{seconds:.1}") } else { format!("{seconds:.0}") }
}
