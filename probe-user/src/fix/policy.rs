//! Which table, which priority: found so that several NICs fit together and with what is there.

use std::collections::{BTreeMap, BTreeSet};

use super::{Fresh, Misroute, PolicyFix, gateway};
use crate::host::{
    Facts,
    routes::{RouteKind, net_text},
    rules::{Action, Rule},
    selection::{Fit, Packet, fit},
};

/// The number that most guides use; the search for a free one starts here.
const FIRST_TABLE: u32 = 201;
/// One-byte table numbers work with every tool; 253 to 255 are reserved.
const LAST_TABLE: u32 = 252;
/// Priority wanted for a new rule, when nothing forces a lower one.
const WANTED_PRIORITY: u32 = 100;

/// Why no fix can be offered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFix {
    #[error("no fix offered: {0} was not read, and a fix must not collide with it")]
    NotRead(&'static str),
    #[error("no fix offered: there is no device {0} any more")]
    NoNic(String),
    #[error("no fix offered: no gateway is known on {0}; add a policy route to {1} by hand")]
    NoGateway(String, String),
    #[error("no fix offered: no routing table from 201 to 252 is free")]
    NoTable,
    #[error("no fix offered: rule '{0}' comes first whatever is added; change that rule")]
    NoPriority(String),
    #[error("no fix offered: the source {1} and the address {0} are of different families")]
    Families(std::net::IpAddr, ipnet::IpNet),
}

/// What has been handed out while planning.
#[derive(Default)]
struct Taken {
    tables: BTreeMap<(u32, bool), u32>,
    priorities: BTreeSet<u32>,
}

/// One answer for each misroute, in order. Misroutes of one NIC share a table; equal ones share the fix.
pub fn plan(facts: &Facts, misroutes: &[Misroute]) -> Vec<Result<PolicyFix, NoFix>> {
    let mut taken = Taken::default();
    let mut planned: Vec<Result<PolicyFix, NoFix>> = Vec::new();
    for misroute in misroutes {
        let known = planned
            .iter()
            .flatten()
            .find(|fix| (&fix.nic, fix.from, fix.to) == (&misroute.nic, misroute.from, misroute.to));
        let fix = match known {
            Some(fix) => Ok(fix.clone()),
            None => one(facts, misroute, &mut taken),
        };
        planned.push(fix);
    }
    planned
}

fn one(facts: &Facts, misroute: &Misroute, taken: &mut Taken) -> Result<PolicyFix, NoFix> {
    let Misroute { nic, from, to, .. } = misroute;
    for what in ["addresses", "rules", "routes"] {
        if !facts.knows(what) {
            return Err(NoFix::NotRead(what));
        }
    }
    if from.is_ipv4() != to.addr().is_ipv4() {
        return Err(NoFix::Families(*from, *to));
    }
    let link = facts.links.by_name(nic).ok_or_else(|| NoFix::NoNic(nic.clone()))?;
    let index = facts.links.logical_nic(link.index);
    let gateway =
        gateway::of(facts, index, *from, to).ok_or_else(|| NoFix::NoGateway(nic.clone(), net_text(to)))?;
    let fresh = fresh(facts, misroute, (index, from.is_ipv6()), taken);
    let (table, metric, priority) = match own_table(facts, misroute) {
        Some((table, metric)) => (table, metric, None),
        None => fresh.clone().map(|Fresh { table, priority }| (table, 0, Some(priority)))?,
    };
    Ok(PolicyFix {
        nic: nic.clone(),
        from: *from,
        to: *to,
        gateway: gateway.address,
        gateway_assumed: gateway.assumed,
        onlink: gateway.onlink,
        table,
        metric,
        priority,
        fresh: fresh.ok(),
    })
}

/// A table that is the NIC's alone, and a priority that wins.
fn fresh(facts: &Facts, misroute: &Misroute, nic: (u32, bool), taken: &mut Taken) -> Result<Fresh, NoFix> {
    let priority = free_priority(facts, misroute, &taken.priorities)?;
    let table = match taken.tables.get(&nic) {
        Some(table) => *table,
        None => free_table(facts, taken).ok_or(NoFix::NoTable)?,
    };
    taken.tables.insert(nic, table);
    taken.priorities.insert(priority);
    Ok(Fresh { table, priority })
}

/// The table that a rule for just this address leads to already, if nobody else uses it: then only its route
/// is wrong. With the metric of the route to be replaced.
fn own_table(facts: &Facts, misroute: &Misroute) -> Option<(u32, u32)> {
    let rule = misroute.rule.as_ref()?;
    let Action::Table(table) = rule.action else { return None };
    if matches!(table, 0 | 253..=255) || !only_from(rule, misroute) {
        return None;
    }
    let others = facts.rules.iter().any(|other| {
        other.ipv6 == rule.ipv6 && other.action == Action::Table(table) && !only_from(other, misroute)
    });
    if others || facts.links.iter().any(|link| link.vrf_table == Some(table)) {
        return None;
    }
    let replaced = misroute.route.as_ref().filter(|route| route.destination == misroute.to);
    Some((table, replaced.map_or(0, |route| route.metric)))
}

fn only_from(rule: &Rule, misroute: &Misroute) -> bool {
    !rule.invert
        && rule
            .from
            .is_some_and(|net| net.prefix_len() == net.max_prefix_len() && net.addr() == misroute.from)
        && rule.to.is_none_or(|to| to.contains(&misroute.to))
}

/// A priority that comes before every rule that could catch the reply, the local table's excepted.
fn free_priority(facts: &Facts, misroute: &Misroute, taken: &BTreeSet<u32>) -> Result<u32, NoFix> {
    let first =
        facts.rules.iter().filter(|rule| catches(facts, rule, misroute)).min_by_key(|rule| rule.priority);
    let highest = match first {
        Some(rule) => WANTED_PRIORITY.min(rule.priority.saturating_sub(1)),
        None => WANTED_PRIORITY,
    };
    let used = |priority: &u32| {
        taken.contains(priority)
            || facts.rules.iter().any(|r| r.priority == *priority && r.ipv6 == misroute.from.is_ipv6())
    };
    (1..=highest)
        .rev()
        .find(|priority| !used(priority))
        .ok_or_else(|| NoFix::NoPriority(first.map(|rule| rule.text(&facts.tables)).unwrap_or_default()))
}

/// Whether a rule could decide the reply (or a reply to some address of a prefix) before a later one.
fn catches(facts: &Facts, rule: &Rule, misroute: &Misroute) -> bool {
    if let Action::Table(table) = rule.action {
        // The local table only delivers; a table without a way to the source lets the walk go on.
        let leads = facts.routes.iter().any(|route| {
            route.table == table
                && !matches!(
                    route.kind,
                    RouteKind::Local | RouteKind::Broadcast | RouteKind::Multicast | RouteKind::Throw
                )
                && (route.destination.contains(&misroute.to) || misroute.to.contains(&route.destination))
        });
        if !leads {
            return false;
        }
    }
    // A mark is set by rules that are not known here, so a rule for a mark may catch replies as well.
    let unmarked = Rule { mark: None, ..rule.clone() };
    let fits = |to| {
        let packet = Packet { from: Some(misroute.from), to, oif: None, mark: 0, port: None };
        fit(&unmarked, &packet) != Fit::No
    };
    let inside = rule.to.filter(|to| misroute.to.contains(to)).map(|to| to.addr());
    fits(misroute.to.addr()) || inside.is_some_and(fits)
}

fn free_table(facts: &Facts, taken: &Taken) -> Option<u32> {
    (FIRST_TABLE..=LAST_TABLE).find(|table| {
        !taken.tables.values().any(|used| used == table)
            && !facts.routes.iter().any(|route| route.table == *table)
            && !facts.rules.iter().any(|rule| rule.action == Action::Table(*table))
            && !facts.links.iter().any(|link| link.vrf_table == Some(*table))
            && !facts.tables.is_named(*table)
    })
}
