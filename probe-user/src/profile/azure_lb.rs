//! Azure Load Balancer, public, internal and gateway.
//!
//! <https://learn.microsoft.com/azure/load-balancer/load-balancer-custom-probe-overview>

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::definition::{Definition, Down};
use crate::probe::rules::Limit;

/// One prober, two spellings (<https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16>).
const PROBER: &[IpNet] = &[
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(168, 63, 129, 16), 32)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0x1234, 0x5678, 0x9abc), 128)),
];

pub(super) const DEFINITION: Definition = Definition {
    name: "azure-lb",
    about: "Azure Load Balancer: 168.63.129.16 and fe80::1234:5678:9abc",
    sources: &[PROBER],
    where_from: "",
    service_tag: None,
    // The portal and the API have different defaults, so none can be assumed.
    interval: None,
    limit: |_| Limit::Interval,
    // The service came to act on one probe and the portal lost its "unhealthy threshold" (azure-docs pull 97561).
    // Where probeThreshold is set, the same number counts both ways (ARM ProbePropertiesFormat).
    fall: 1,
    rise: 1,
    one_threshold: true,
    statuses: &[200..=200],
    default_intervals: &[
        (Duration::from_secs(5), "the portal's default"),
        (Duration::from_secs(15), "the default of templates and the API"),
    ],
    shortest_interval: Some(Duration::from_secs(5)),
    // Ports that WinHTTP does not connect to; named on the same page.
    http_refuses: &[19, 21, 25, 70, 110, 119, 143, 220, 993],
    // "Probe down behavior" on the same page, standard SKU (basic was retired on 2025-09-30).
    down: Down {
        one: Some("established TCP continues, UDP moves to another"),
        all: Some("established TCP continues if the pool has more than one member, UDP ends"),
        all_of_many: Some("established TCP continues, UDP ends"),
        only_one: Some("all flows end"),
    },
};
