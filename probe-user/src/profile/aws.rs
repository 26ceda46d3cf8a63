//! AWS Gateway Load Balancer: the one that appliances stand behind.
//!
//! Defaults of a GENEVE target group:
//! <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateTargetGroup.html> and
//! <https://docs.aws.amazon.com/elasticloadbalancing/latest/gateway/health-checks.html>. A Network Load Balancer differs:
//! interval 30 s, timeout 10 s (HTTP 6 s), unhealthy 2, healthy 5.

use std::time::Duration;

use super::definition::{Definition, Down};
use crate::probe::rules::Limit;

const EVERY: Duration = Duration::from_secs(10);

pub(super) const DEFINITION: Definition = Definition {
    name: "aws",
    about: "AWS Gateway Load Balancer: its nodes' addresses by --source",
    sources: &[],
    where_from: "the private addresses of the load balancer's nodes, or their subnets, by --source",
    service_tag: None,
    // "Distributed": more checks arrive than the interval says, so it cannot be told from them.
    interval: Some(EVERY),
    limit: |_| Limit::Fixed(Duration::from_secs(5)),
    fall: 2,
    rise: 5,
    one_threshold: false,
    statuses: &[200..=399],
    default_intervals: &[(EVERY, "the default")],
    shortest_interval: Some(Duration::from_secs(5)),
    http_refuses: &[],
    // target_failover is no_rebalance by default
    // (<https://docs.aws.amazon.com/elasticloadbalancing/latest/gateway/edit-target-group-attributes.html>).
    // What happens when no target is healthy is not said there.
    down: Down {
        one: Some("its flows stay with it, new ones go to others (target_failover: no_rebalance)"),
        ..Down::UNKNOWN
    },
};
