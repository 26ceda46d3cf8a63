//! Any other prober: nothing is assumed but the plainest rules.

use super::definition::{Definition, Down};
use crate::probe::rules::Limit;

pub(super) const DEFINITION: Definition = Definition {
    name: "custom",
    about: "No sources of its own; name them with --source",
    sources: &[],
    where_from: "the addresses or prefixes that probes come from, by --source ADDR",
    service_tag: None,
    interval: None,
    limit: |_| Limit::Interval,
    fall: 1,
    rise: 1,
    one_threshold: true,
    statuses: &[200..=200],
    default_intervals: &[],
    shortest_interval: None,
    http_refuses: &[],
    down: Down::UNKNOWN,
};
