//! `INTERVAL`: what failover time the observed interval implies. Runbooks quote the portal's default; a template that names
//! none gets another.

use std::time::Duration;

use super::{Scene, confirmed, of};
use crate::{
    diagnose::evidence,
    profile::Profile,
    report::document::{Finding, Severity},
};

/// An estimate within this share of a value is that value.
const NEAR: f64 = 0.1;

pub(super) fn find(scene: &Scene<'_>) -> Vec<Finding> {
    confirmed(scene)
        .filter_map(|case| {
            let series = case.series;
            let interval = series.interval_s?;
            let view = series.lb_view.as_ref()?;
            let failover = view.failover_s?;
            let several = series.cadences.len() > 1;
            let often = if several {
                let all: Vec<_> =
                    series.cadences.iter().map(|seconds| format!("{} s", rounded(*seconds))).collect();
                format!("Two load balancers probe it, every {}", all.join(" and every "))
            } else {
                format!("Probed every {} s", rounded(interval))
            };
            let times = match view.threshold {
                1 => "one failure takes it out".to_owned(),
                threshold => format!("{threshold} failures in a row take it out"),
            };
            let defaults = defaults(scene.profile, interval);
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

/// What the service itself sets, beside what was seen.
fn defaults(profile: Profile, interval: f64) -> String {
    let near = |of: f64| (interval - of).abs() <= NEAR * of;
    let (here, others): (Vec<_>, Vec<_>) =
        profile.default_intervals().iter().partition(|(every, _)| near(every.as_secs_f64()));
    let name = |(every, what): &(Duration, &str)| format!("{} s is {what}", every.as_secs());
    let list =
        |defaults: &[&(Duration, &str)]| defaults.iter().map(|d| name(d)).collect::<Vec<_>>().join(", ");
    let shortest = profile.shortest_interval().map_or(0.0, |shortest| shortest.as_secs_f64());
    match (here.is_empty(), others.is_empty()) {
        (true, true) => String::new(),
        (false, true) => format!(" ({})", list(&here)),
        (false, false) => format!(" ({}; {})", list(&here), list(&others)),
        (true, false) if interval < shortest * (1.0 - NEAR) => {
            format!(" (below the service's minimum of {shortest:.0} s; {})", list(&others))
        }
        (true, false) => format!(" ({})", list(&others)),
    }
}

/// Short times with a digit behind the point.
fn rounded(seconds: f64) -> String {
    if seconds < 9.95 { format!("{seconds:.1}") } else { format!("{seconds:.0}") }
}
