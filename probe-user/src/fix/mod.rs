//! What puts a fault right. For a misrouted reply: for every NIC, packets from its own address to the source use a table
//! that leads out of that NIC. Planning is pure; each family of files words the plan for one way to configure a host.

mod accept;
mod agent_firewall;
mod backlog;
mod family;
mod gateway;
mod ifupdown;
mod intent;
mod iproute2;
mod listen;
mod netplan;
mod network_manager;
mod network_scripts;
mod networkd;
mod offer;
mod policy;
mod predict;
mod remove_route;
mod shell;
mod sysctl;

use std::net::IpAddr;

use ipnet::IpNet;

pub use self::{
    family::{FAMILIES, Family},
    intent::{Accept, Chain, Hook, Intent, Listen, Tool},
    offer::{Choice, Offer, Unfit, for_finding, offer},
    policy::{NoFix, plan},
    predict::{Checked, Reply, Way, judge, replies},
};
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
    /// What configuration files use: they cannot mend a table that other files fill. `None` when nothing is free.
    pub fresh: Option<Fresh>,
}

/// A table that nobody else uses, and a rule's priority that wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fresh {
    pub table: u32,
    pub priority: u32,
}

/// The fix as commands, whoever manages the NIC.
pub fn render(fix: &PolicyFix) -> Vec<Fix> {
    vec![iproute2::FAMILY.fix(iproute2::text(std::slice::from_ref(fix), true))]
}

#[cfg(test)]
#[path = "family_tests.rs"]
mod family_tests;
#[cfg(test)]
#[path = "intent_tests.rs"]
mod intent_tests;
#[cfg(test)]
#[path = "fix_tests.rs"]
mod tests;
