//! Which rule decides: the walk of `fib_rules_lookup` (net/core/fib_rules.c) over a snapshot. The kernel is
//! asked for the answer; this finds the rule that led to it, which the kernel does not tell.

use std::net::IpAddr;

use super::{
    routes::{Route, RouteKind},
    rules::{Action, Rule},
};

/// A packet of this host as the rules see it.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    pub from: Option<IpAddr>,
    pub to: IpAddr,
    /// Device that the socket is bound to.
    pub oif: Option<&'a str>,
    pub mark: u32,
    /// TCP source port.
    pub port: Option<u16>,
}

/// How a rule's selectors fit a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    No,
    Yes,
    /// It depends on something not known here.
    Unsure(&'static str),
}

/// What the kernel answered, as far as the walk needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A route of this table, with its prefix length if known.
    Table(u32, Option<u8>),
    /// No usable route.
    Rejected,
}

/// The rule that led to the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    Rule(Rule),
    /// Probably this one; why it is not sure.
    Unsure(Rule, &'static str),
    /// None of the rules read explains the answer (or the rules could not be read).
    Unknown,
}

/// How this rule's selectors fit (`fib_rule_match`).
pub fn fit(rule: &Rule, packet: &Packet<'_>) -> Fit {
    if rule.ipv6 != packet.to.is_ipv6() {
        return Fit::No;
    }
    let contains = |net: Option<ipnet::IpNet>, address: Option<IpAddr>| {
        net.is_none_or(|net| address.is_some_and(|address| net.contains(&address)))
    };
    let in_range = |(first, last): (u16, u16), port: u16| (first..=last).contains(&port);
    let fits = contains(rule.from, packet.from)
        && contains(rule.to, Some(packet.to))
        // The input device of what this host sends is lo.
        && rule.iif.as_deref().is_none_or(|iif| iif == "lo")
        && rule.oif.as_deref().is_none_or(|oif| packet.oif == Some(oif))
        && rule.mark.is_none_or(|(mark, mask)| packet.mark & mask == mark)
        && rule.tos == 0
        && rule.tunnel.is_none()
        && rule.ip_protocol.is_none_or(|protocol| protocol == 6)
        && rule.source_ports.is_none_or(|ports| packet.port.is_none_or(|port| in_range(ports, port)));
    if !fits {
        return if rule.invert { Fit::Yes } else { Fit::No };
    }
    let doubt = if rule.unknown_selectors {
        Some("it has selectors that nvaprobe does not know")
    } else if rule.destination_ports.is_some() {
        Some("it depends on the prober's port")
    } else if rule.source_ports.is_some() && packet.port.is_none() {
        Some("it depends on the local port")
    } else if rule.uids.is_some() {
        Some("it depends on the user that owns the socket")
    } else {
        None
    };
    match doubt {
        Some(why) => Fit::Unsure(why),
        None if rule.invert => Fit::No,
        None => Fit::Yes,
    }
}

/// The route of a table that wins: longest prefix, then (IPv6) longest source prefix, then lowest metric, then the first.
pub fn best<'a>(routes: &'a [Route], table: u32, packet: &Packet<'_>) -> Option<&'a Route> {
    routes
        .iter()
        .rev()
        .filter(|route| route.table == table && route.covers(packet.from, packet.to))
        .max_by_key(|route| {
            (
                route.destination.prefix_len(),
                route.source.map_or(0, |net| net.prefix_len()),
                std::cmp::Reverse(route.metric),
            )
        })
}

/// Finds the rule, and for a rejection the route that rejects.
pub fn select<'a>(
    rules: &[Rule],
    routes: &'a [Route],
    packet: &Packet<'_>,
    answer: Answer,
) -> (Choice, Option<&'a Route>) {
    let mut doubtful: Option<(Rule, &'static str)> = None;
    let mut resume_at = 0;
    for rule in rules.iter().filter(|rule| rule.ipv6 == packet.to.is_ipv6()) {
        if rule.priority < resume_at {
            continue;
        }
        let mut fit = fit(rule, packet);
        if fit == Fit::No {
            continue;
        }
        let mut rejecting = None;
        let explains = match (rule.action, answer) {
            (Action::Goto(target), _) => {
                if fit == Fit::Yes {
                    resume_at = target;
                }
                continue;
            }
            (Action::Table(table), Answer::Table(answered, length)) => {
                if rule.suppress_group.is_some() {
                    fit = Fit::Unsure("it ignores answers by a group of devices");
                }
                match (rule.suppress_prefix_length, length) {
                    (Some(suppressed), Some(length)) if u32::from(length) <= suppressed => continue,
                    (Some(_), None) => fit = Fit::Unsure("it ignores short prefixes"),
                    _ => {}
                }
                table == answered
            }
            (Action::Table(table), Answer::Rejected) => {
                rejecting = best(routes, table, packet).filter(|route| rejects(route));
                rejecting.is_some()
            }
            // Only packets of a socket bound to a VRF (or one of its devices) get this far into a VRF's table.
            (Action::L3mdev, Answer::Table(..)) if packet.oif.is_some() => {
                fit = Fit::Unsure("it depends on the VRF of the device");
                true
            }
            (Action::Blackhole | Action::Unreachable | Action::Prohibit, Answer::Rejected) => true,
            _ => false,
        };
        if !explains {
            continue;
        }
        match fit {
            Fit::Unsure(why) if doubtful.is_none() => doubtful = Some((rule.clone(), why)),
            Fit::Yes if doubtful.is_none() => return (Choice::Rule(rule.clone()), rejecting),
            Fit::Yes => {
                return (Choice::Unsure(rule.clone(), "an earlier rule may have decided it"), rejecting);
            }
            _ => {}
        }
    }
    (doubtful.map_or(Choice::Unknown, |(rule, why)| Choice::Unsure(rule, why)), None)
}

const fn rejects(route: &Route) -> bool {
    matches!(route.kind, RouteKind::Blackhole | RouteKind::Unreachable | RouteKind::Prohibit)
}

#[cfg(test)]
#[path = "selection_tests.rs"]
mod tests;
