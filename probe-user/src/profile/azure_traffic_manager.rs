//! Azure Traffic Manager: DNS that stops naming an endpoint whose probes fail.
//!
//! <https://learn.microsoft.com/azure/traffic-manager/traffic-manager-monitoring>

use std::time::Duration;

use super::definition::{Definition, Down};
use crate::probe::rules::Limit;

/// Normal and fast probing.
const NORMAL: Duration = Duration::from_secs(30);
const FAST: Duration = Duration::from_secs(10);

pub(super) const DEFINITION: Definition = Definition {
    name: "azure-traffic-manager",
    about: "Azure Traffic Manager: sources by --service-tags FILE",
    // Public addresses that change from week to week.
    sources: &[],
    where_from: "those of AzureTrafficManager in Azure's service-tags file, by --service-tags FILE",
    service_tag: Some("AzureTrafficManager"),
    interval: Some(NORMAL),
    // The timeout's default and maximum: 10 s, with fast probing 9 s.
    limit: |interval| {
        let fast = interval.is_some_and(|interval| interval <= FAST);
        Limit::Fixed(Duration::from_secs(if fast { 9 } else { 10 }))
    },
    // Three tolerated failures: the fourth degrades the endpoint, one success brings it back.
    fall: 4,
    rise: 1,
    one_threshold: false,
    // Redirects are not followed: 301 and 302 are failures unless they are listed.
    statuses: &[200..=200],
    default_intervals: &[(NORMAL, "the default"), (FAST, "fast probing")],
    shortest_interval: Some(FAST),
    http_refuses: &[],
    down: Down {
        one: Some("DNS stops naming it, flows go on, clients leave as cached answers expire"),
        // When all endpoints are degraded they are treated as if all were online (same page).
        all: Some("DNS names all of them, as if all were up"),
        all_of_many: Some("DNS names all of them, as if all were up"),
        only_one: Some("DNS goes on naming it"),
    },
};
