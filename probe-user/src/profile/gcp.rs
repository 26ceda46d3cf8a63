//! Google Cloud's health checks, as passthrough Network Load Balancers (those of appliances) use them.
//!
//! Sources: <https://cloud.google.com/load-balancing/docs/firewall-rules>. Defaults:
//! <https://cloud.google.com/sdk/gcloud/reference/compute/health-checks/create/tcp>.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::definition::{Definition, Down};
use crate::probe::rules::Limit;

const fn v4(a: u8, b: u8, c: u8, length: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, 0), length))
}

const fn v6(last: u16) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0x2600, 0x2d00, 1, last, 0, 0, 0, 0), 64))
}

const EVERY: Duration = Duration::from_secs(5);

pub(super) const DEFINITION: Definition = Definition {
    name: "gcp",
    about: "Google Cloud health checks: 35.191.0.0/16, 130.211.0.0/22 and their kin",
    // Ranges with many probers each. Not the metadata server, 169.254.169.254: what the VM asks of it is no probe.
    sources: &[
        &[v4(35, 191, 0, 16)],
        &[v4(130, 211, 0, 22)],
        // External passthrough Network Load Balancers.
        &[v4(209, 85, 152, 22)],
        &[v4(209, 85, 204, 22)],
        &[v6(0xb029)],
        &[v6(1)],
    ],
    where_from: "",
    service_tag: None,
    // Several probers check each instance, so the interval cannot be told from what arrives.
    interval: Some(EVERY),
    limit: |_| Limit::Fixed(EVERY),
    fall: 2,
    rise: 2,
    one_threshold: false,
    // "HTTP 200 (OK)"; redirects are failures
    // (<https://cloud.google.com/load-balancing/docs/health-check-concepts>).
    statuses: &[200..=200],
    default_intervals: &[(EVERY, "the default")],
    shortest_interval: Some(Duration::from_secs(1)),
    http_refuses: &[],
    // Connection persistence on unhealthy backends is "default for protocol"; all unhealthy is the last resort
    // (<https://cloud.google.com/load-balancing/docs/internal/int-netlb-traffic-distribution>).
    down: Down {
        one: Some("established TCP continues, UDP moves to another"),
        all: Some("established TCP continues, new flows are spread over all as a last resort"),
        all_of_many: Some("established TCP continues, new flows are spread over all as a last resort"),
        only_one: Some("established TCP continues, new flows come as a last resort"),
    },
};
