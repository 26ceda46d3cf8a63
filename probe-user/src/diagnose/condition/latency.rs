//! `LATENCY`: answers come in time, yet so late that the limit is near. A timeout below the p99 drains instances that
//! serve everybody.

use super::{Scene, confirmed, of};
use crate::{
    diagnose::evidence,
    report::document::{Finding, Protocol, Severity},
};

/// Answers needed before a p99 is worth a warning.
const ENOUGH: u64 = 3;

pub(super) fn find(scene: &Scene<'_>) -> Vec<Finding> {
    confirmed(scene)
        .filter_map(|case| {
            let series = case.series;
            let limit = series.limit_s?;
            let (what, latency) = match series.protocol {
                Protocol::Tcp => ("SYN to SYN-ACK", series.latency_ms?),
                Protocol::Http | Protocol::Https => ("request to answer", series.answer_ms?),
            };
            if case.failures.judged < ENOUGH || latency.p99 / 1e3 <= limit / 2.0 {
                return None;
            }
            let seconds = latency.p99 / 1e3;
            let summary = if seconds > limit {
                format!(
                    "The p99 of answers, {seconds:.2} s, is beyond the limit of {limit:.1} s: the load balancer takes \
                     out an instance that does answer."
                )
            } else {
                format!(
                    "The p99 of answers, {seconds:.2} s, is more than half the limit of {limit:.1} s: a little more load \
                     takes this instance out."
                )
            };
            let evidence = vec![evidence::of(
                "latency",
                format!("{what}: p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms", latency.p50, latency.p99, latency.max),
            )];
            Some(of(case, "LATENCY", Severity::Warning, summary, evidence))
        })
        .collect()
}
