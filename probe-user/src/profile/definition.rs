//! What a profile consists of.

use std::{ops::RangeInclusive, time::Duration};

use ipnet::IpNet;

use crate::probe::rules::Limit;

#[derive(Debug)]
pub(super) struct Definition {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Groups of spellings; each group is one prober.
    pub(super) sources: &'static [&'static [IpNet]],
    /// Completes "name its sources: …" when `sources` is empty.
    pub(super) where_from: &'static str,
    pub(super) service_tag: Option<&'static str>,
    /// The interval to assume; estimated from attempts when `None`.
    pub(super) interval: Option<Duration>,
    /// Within what time an answer counts, by the interval if it is known.
    pub(super) limit: fn(Option<Duration>) -> Limit,
    /// Failures in a row that take an instance out.
    pub(super) fall: u32,
    /// Successes in a row that bring it back.
    pub(super) rise: u32,
    /// One number counts both ways: `rise` follows a configured threshold.
    pub(super) one_threshold: bool,
    pub(super) statuses: &'static [RangeInclusive<u16>],
    pub(super) default_intervals: &'static [(Duration, &'static str)],
    pub(super) shortest_interval: Option<Duration>,
    pub(super) http_refuses: &'static [u16],
    pub(super) down: Down,
}

/// What becomes of flows.
#[derive(Debug)]
pub(super) struct Down {
    /// One instance of several is down.
    pub(super) one: Option<&'static str>,
    /// All are, and the size of the pool is not known.
    pub(super) all: Option<&'static str>,
    /// All of a pool with more than one member are.
    pub(super) all_of_many: Option<&'static str>,
    /// The only member is.
    pub(super) only_one: Option<&'static str>,
}

impl Down {
    pub(super) const UNKNOWN: Self = Self { one: None, all: None, all_of_many: None, only_one: None };
}
