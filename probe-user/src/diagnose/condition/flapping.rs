//! `FLAPPING`: the load balancer's view changes so often that the instance is held back.

use super::{Scene, confirmed, of};
use crate::{
    diagnose::evidence,
    report::document::{Finding, LbState, Severity},
};

pub(super) fn find(scene: &Scene<'_>) -> Vec<Finding> {
    confirmed(scene)
        .filter_map(|case| {
            let view = case.series.lb_view.as_ref().filter(|view| view.state == LbState::Held)?;
            let summary = format!(
                "Probes of {} on {} fail and succeed in turn: the load balancer holds the instance back longer than \
                 its threshold says, how much longer is not published.",
                case.place(),
                case.series.nic
            );
            let evidence = vec![
                evidence::of("lb-view", format!("{} changes between up and down within ten intervals", view.changes)),
                evidence::of("packets", format!("{} failed", case.share())),
            ];
            Some(of(case, "FLAPPING", Severity::Warning, summary, evidence))
        })
        .collect()
}
