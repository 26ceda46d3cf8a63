//! What judging needs to know of a configuration.

use std::time::Duration;

use super::{Config, Count, Expect, Interval, StatusRange, Timeout};
use crate::{
    probe::rules::{Expected, Rules, Statuses},
    profile::{Overrides, Pool, Profile},
};

/// By what rules probes are judged, and which must come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judging {
    pub profile: Profile,
    /// Of probes that no entry of `expected` is about.
    pub rules: Rules,
    /// The interval in `rules` is the profile's default: nobody said that it is so here.
    pub interval_assumed: bool,
    pub expected: Vec<Expected>,
    pub pool: Pool,
}

impl Default for Judging {
    fn default() -> Self {
        Config::default().judging()
    }
}

impl Judging {
    /// What happens to flows when this instance, or all, are down, in one line.
    pub fn flows(&self) -> Option<String> {
        self.profile.flows(self.pool)
    }
}

fn overrides(
    interval: Option<Interval>,
    timeout: Option<Timeout>,
    threshold: Option<Count>,
    rise: Option<Count>,
    status: &[StatusRange],
) -> Overrides {
    let duration: fn(Interval) -> Duration = |interval| interval.0;
    Overrides {
        interval: interval.map(duration),
        timeout: timeout.map(|timeout| timeout.0),
        threshold: threshold.map(|count| count.0),
        rise: rise.map(|count| count.0),
        statuses: Statuses::any(status.iter().map(|range| range.0.clone())),
    }
}

impl Config {
    pub fn profile(&self) -> Profile {
        self.profile.unwrap_or_default().0
    }

    /// The values that replace the profile's.
    pub(super) fn overrides(&self) -> Overrides {
        overrides(self.interval, self.timeout, self.threshold, self.rise, &self.status)
    }

    /// Those of one expected probe, the file's general ones included.
    pub(super) fn overrides_of(&self, expect: &Expect) -> Overrides {
        let Expect { interval, timeout, threshold, rise, status, .. } = expect;
        overrides(*interval, *timeout, *threshold, *rise, status).or(&self.overrides())
    }

    pub fn judging(&self) -> Judging {
        let profile = self.profile();
        let rules = profile.rules(&self.overrides());
        let expected = self.expect.iter().map(|expect| Expected {
            nic: expect.nic.0.clone(),
            port: expect.port.0,
            protocol: expect.protocol.map(|protocol| protocol.0),
            role: expect.role.unwrap_or_default().0,
            rules: profile.rules(&self.overrides_of(expect)),
        });
        Judging {
            profile,
            interval_assumed: self.interval.is_none() && rules.interval.is_some(),
            expected: expected.collect(),
            pool: self.pool.map_or(Pool::Unknown, |pool| pool.0),
            rules,
        }
    }
}
