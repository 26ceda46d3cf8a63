//! The fix in the abstract: packets from the NIC's own address to the source use a table of their own, whose route
//! goes out of that NIC. It satisfies strict rp_filter, too.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::host::{
    Facts,
    lookup::{Lookup, Outcome},
    routes::Route,
    rules,
};

/// Tables are numbered from here: above what distributions and cloud agents use by default.
const FIRST_TABLE: u32 = 201;
/// Tables 253 to 255 are the kernel's.
const LAST_TABLE: u32 = 252;

/// A policy rule and the route it leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFix {
    pub nic: String,
    /// The address probed.
    pub from: IpAddr,
    /// The source: an address or a prefix.
    pub to: IpNet,
    pub gateway: IpAddr,
    /// The gateway is not in any route of this NIC: Azure's is the first address of the subnet.
    pub gateway_assumed: bool,
    pub table: u32,
    /// `None` when a rule leads to the table already, and only its route is wrong.
    pub priority: Option<u32>,
}

impl PolicyFix {
    /// Works the fix out for this host; `None` where policy routing is not the cure (a link-local source is bound to
    /// the NIC already) or a fact is missing.
    pub fn plan(facts: &Facts, nic: &str, lookup: &Lookup, source: &str) -> Option<Self> {
        let ifindex = facts.links.iter().find(|link| link.name == nic)?.ifindex;
        if matches!(lookup.to, IpAddr::V6(v6) if v6.is_unicast_link_local()) {
            return None;
        }
        let to = crate::source::parse(source)
            .ok()
            .filter(|net| net.contains(&lookup.to))
            .unwrap_or_else(|| IpNet::from(lookup.to));
        let (gateway, gateway_assumed) = gateway(facts, ifindex, lookup.from)?;
        // A rule of its own that leads to a table with the wrong device: mend the table.
        if let Outcome::Leaves { table, rule: Some(rule), .. } = &lookup.outcome {
            let own = rule.from.is_some_and(|from| from.contains(&lookup.from)) && *table <= LAST_TABLE;
            if own {
                return Some(Self {
                    nic: nic.to_owned(),
                    from: lookup.from,
                    to,
                    gateway,
                    gateway_assumed,
                    table: *table,
                    priority: None,
                });
            }
        }
        Some(Self {
            nic: nic.to_owned(),
            from: lookup.from,
            to,
            gateway,
            gateway_assumed,
            table: free_table(facts, ifindex)?,
            priority: Some(free_priority(facts, lookup)?),
        })
    }
}

/// The gateway on the NIC's own subnet: of its default route in any table, of another route of its, else the first
/// address of the subnet, which is Azure's gateway
/// (<https://learn.microsoft.com/azure/virtual-network/virtual-networks-faq>: the first three are reserved).
fn gateway(facts: &Facts, ifindex: u32, from: IpAddr) -> Option<(IpAddr, bool)> {
    let subnets: Vec<IpNet> = facts
        .addresses
        .iter()
        .filter(|address| address.ifindex == ifindex && address.net.addr().is_ipv4() == from.is_ipv4())
        .map(|address| address.net)
        .collect();
    let via = |route: &&Route| {
        route.device == Some(ifindex)
            && route.gateway.is_some_and(|gateway| {
                gateway.is_ipv4() == from.is_ipv4()
                    && (subnets.iter().any(|net| net.contains(&gateway)) || is_link_local(gateway))
            })
    };
    let of = |route: &Route| route.gateway.map(|gateway| (gateway, false));
    let routes = || facts.routes.iter().filter(via);
    if let Some(found) = routes().find(|route| route.destination.prefix_len() == 0).and_then(of) {
        return Some(found);
    }
    if let Some(found) = routes().next().and_then(of) {
        return Some(found);
    }
    let own = subnets.iter().find(|net| net.contains(&from)).or_else(|| subnets.first())?;
    let first = own.hosts().next()?;
    (first != from && own.prefix_len() < own.max_prefix_len()).then_some((first, true))
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// A table that no route and no rule uses; starting at the NIC's own number keeps the tables of several NICs apart.
fn free_table(facts: &Facts, ifindex: u32) -> Option<u32> {
    let used = |table: u32| {
        facts.routes.iter().any(|route| route.table == table)
            || facts.rules.iter().any(|rule| rule.table == table)
    };
    let position = facts.links.iter().filter(|link| link.ifindex < ifindex && !link.loopback).count() as u32;
    let start = FIRST_TABLE + position % (LAST_TABLE - FIRST_TABLE + 1);
    (start..=LAST_TABLE).chain(FIRST_TABLE..start).find(|table| !used(*table))
}

/// A priority in front of every rule that could catch the reply: 100 if that wins, else the next lower free one.
fn free_priority(facts: &Facts, lookup: &Lookup) -> Option<u32> {
    let lowest = rules::lowest_catching(&facts.rules, lookup.from, lookup.to).unwrap_or(32766);
    (1..=100.min(lowest.saturating_sub(1)))
        .rev()
        .find(|priority| facts.rules.iter().all(|rule| rule.priority != *priority))
}
