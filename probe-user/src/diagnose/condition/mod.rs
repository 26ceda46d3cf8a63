//! Conditions: findings about a series, or about one that is missing, that no verdict tells. One file a condition.

mod advice;
mod duplicate_routes;
mod flapping;
mod forwarding;
mod interval;
mod latency;
mod local_network;
mod not_arriving;
mod platform;
mod proxied;
mod rule_changed;
mod shared_signal;
mod single_connection;
mod timestamps;

use super::Case;
use crate::{
    host::{
        Facts,
        lookup::RouteLookup,
        sockets::{Connecting, Listener},
    },
    probe::Expected,
    profile::Profile,
    report::document::{Evidence, Finding, Platform, Severity},
    source::Source,
};

/// What conditions are told by.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    pub cases: &'a [Case<'a>],
    /// Probes that the configuration expects.
    pub expected: &'a [Expected],
    /// Seconds looked at.
    pub window_s: f64,
    /// The NICs that were looked at.
    pub nics: &'a [String],
    /// Whose probes they are.
    pub profile: Profile,
    pub sources: &'a [Source],
    /// The host; `None` for a capture.
    pub facts: Option<&'a Facts>,
    /// Somebody looks closely: what is hardly worth a word is said, too.
    pub advise: bool,
    /// Who listens on the probed ports; empty when nobody could tell.
    pub listeners: &'a [Listener],
    /// Series that fell by a change of addresses, rules or routes.
    pub broken: &'a [Broken],
    /// What this host itself asks of a source; `None` when that is not known.
    pub own: Option<Own<'a>>,
}

/// This host's own traffic with a source.
#[derive(Clone, Copy, Debug)]
pub struct Own<'a> {
    pub packets: Platform,
    /// The source asked.
    pub source: &'a str,
    /// Connections that wait for an answer.
    pub connecting: &'a [Connecting],
    /// Those that waited for long.
    pub waiting: &'a [Waits],
    /// Which way such packets go.
    pub lookup: Option<&'a RouteLookup>,
    pub facts: Option<&'a Facts>,
}

pub use not_arriving::{missing, patience};
pub use platform::{PLATFORM, Waits};
pub use proxied::PassedOn;
pub use rule_changed::{Broken, changed};

/// Every condition.
const CONDITIONS: &[fn(&Scene<'_>) -> Vec<Finding>] = &[
    not_arriving::find,
    proxied::find,
    rule_changed::find,
    flapping::find,
    latency::find,
    platform::find,
    shared_signal::find,
    duplicate_routes::find,
    local_network::find,
    single_connection::find,
    forwarding::find,
    interval::find,
    timestamps::find,
];

/// The findings of all conditions.
pub fn find(scene: &Scene<'_>) -> Vec<Finding> {
    CONDITIONS.iter().flat_map(|find| find(scene)).collect()
}

/// The confirmed series.
fn confirmed<'a>(scene: &Scene<'a>) -> impl Iterator<Item = &'a Case<'a>> {
    scene.cases.iter().filter(|case| case.series.confirmed)
}

/// A condition of one series.
fn of(case: &Case<'_>, code: &str, severity: Severity, summary: String, evidence: Vec<Evidence>) -> Finding {
    Finding {
        code: code.to_owned(),
        cause: "unknown".to_owned(),
        severity,
        nic: Some(case.series.nic.clone()),
        out_nic: None,
        target: Some(case.series.target.clone()),
        port: Some(case.series.port),
        intermittent: false,
        summary,
        evidence,
        fixes: Vec::new(),
    }
}

#[cfg(test)]
mod host_tests;
#[cfg(test)]
mod tests;
