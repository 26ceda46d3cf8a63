//! What puts a misrouted reply right: for every NIC, packets from its own address to the source use a table
//! that leads out of that NIC. Planning is pure; `iproute2` (and later other families) words the plan.

mod gateway;
mod iproute2;
mod policy;

use std::net::IpAddr;

use ipnet::IpNet;

pub use self::policy::{NoFix, plan};
use crate::{
    host::{routes::Route, rules::Rule},
    report::document::Fix,
};

/// A reply that leaves by the wrong NIC because of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misroute {
    /// The NIC it should leave by.
    pub nic: String,
    /// The address probed.
    pub from: IpAddr,
    /// The source: address or prefix.
    pub to: IpNet,
    /// The rule that decides now, if known for sure.
    pub rule: Option<Rule>,
    /// The route that matches now.
    pub route: Option<Route>,
}

/// A policy route: `from` to `to` by `nic`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFix {
    pub nic: String,
    pub from: IpAddr,
    pub to: IpNet,
    pub gateway: IpAddr,
    /// The gateway is the first address of the subnet, for want of a route that names one.
    pub gateway_assumed: bool,
    /// The gateway is in no subnet of the NIC, and must be taken for directly reachable.
    pub onlink: bool,
    pub table: u32,
    /// Metric of the route; 0 for none.
    pub metric: u32,
    /// Priority of the new rule; `None` when a rule that leads to `table` exists.
    pub priority: Option<u32>,
}

/// The fix in the words of each family.
pub fn render(fix: &PolicyFix) -> Vec<Fix> {
    FAMILIES.iter().map(|family| family(fix)).collect()
}

/// One function a family.
const FAMILIES: &[fn(&PolicyFix) -> Fix] = &[iproute2::render];

#[cfg(test)]
#[path = "fix_tests.rs"]
mod tests;
