//! A profile's rules with a user's own values.

use std::time::Duration;

use super::Profile;
use crate::probe::rules::{Limit, Rules, Statuses};

/// Values that replace a profile's, one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    pub interval: Option<Duration>,
    pub timeout: Option<Duration>,
    /// Failures in a row that take an instance out.
    pub threshold: Option<u32>,
    /// Successes in a row that bring it back.
    pub rise: Option<u32>,
    pub statuses: Option<Statuses>,
}

impl Overrides {
    /// These, and where they say nothing, those.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        Self {
            interval: self.interval.or(other.interval),
            timeout: self.timeout.or(other.timeout),
            threshold: self.threshold.or(other.threshold),
            rise: self.rise.or(other.rise),
            statuses: self.statuses.or_else(|| other.statuses.clone()),
        }
    }
}

impl Profile {
    /// The rules of this profile with a user's own values.
    pub fn rules(self, own: &Overrides) -> Rules {
        let definition = self.definition();
        let interval = own.interval.or(definition.interval);
        let limit = match (own.timeout, (definition.limit)(interval)) {
            (Some(timeout), _) => Limit::Fixed(timeout),
            // No prober waits for an answer beyond its next probe.
            (None, Limit::Fixed(limit)) => Limit::Fixed(interval.map_or(limit, |every| limit.min(every))),
            (None, Limit::Interval) => Limit::Interval,
        };
        let follows = own.threshold.filter(|_| definition.one_threshold);
        let statuses = definition.statuses.iter().filter_map(|range| {
            // Every range is one that `Statuses` reads: a test says so.
            format!("{}-{}", range.start(), range.end()).parse().ok()
        });
        Rules {
            interval,
            limit,
            fall: own.threshold.unwrap_or(definition.fall).max(1),
            rise: own.rise.or(follows).unwrap_or(definition.rise).max(1),
            statuses: own.statuses.clone().or_else(|| Statuses::any(statuses)).unwrap_or_else(Statuses::ok),
        }
    }
}
