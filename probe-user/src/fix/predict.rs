//! Which replies would go wrong now, from the kernel's route look-ups alone.

use std::net::IpAddr;

use ipnet::IpNet;

use super::Misroute;
use crate::{
    host::{
        Facts,
        lookup::{Outcome, Query, Rejection, RouteLookup},
        selection::Choice,
        tables,
    },
    source::Source,
};

/// A reply that a probe would ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub nic: u32,
    pub from: IpAddr,
    pub to: IpNet,
    /// What to ask the kernel: of a prefix, its first address.
    pub query: Query,
}

/// Where it would go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// Out of the NIC that the probe comes in by.
    Right,
    /// Elsewhere, or nowhere: in words.
    Wrong(String, Box<Misroute>),
    /// The kernel did not tell.
    Unknown(String),
}

/// A reply and its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    pub reply: Reply,
    pub way: Way,
}

/// From every global address of these NICs to every source of its family. Link-local sources need no check: Linux binds
/// a reply to them to the device that the probe came in by.
pub fn replies(facts: &Facts, nics: impl IntoIterator<Item = u32>, sources: &[Source]) -> Vec<Reply> {
    let mut replies: Vec<Reply> = Vec::new();
    for nic in nics {
        let own = facts
            .addresses
            .iter()
            .filter(|address| address.global && facts.links.logical_nic(address.link) == nic);
        for from in own.map(|address| address.net.addr()) {
            for source in sources {
                let to = source.net;
                let link_local = matches!(to.addr(), IpAddr::V6(v6) if v6.is_unicast_link_local());
                if to.addr().is_ipv4() != from.is_ipv4() || link_local {
                    continue;
                }
                let first = to.hosts().next().unwrap_or(to.addr());
                let query = Query { from: Some(from), ..Query::own(first) };
                let reply = Reply { nic, from, to, query };
                if !replies.contains(&reply) {
                    replies.push(reply);
                }
            }
        }
    }
    replies
}

/// What the kernel's answer means for the reply.
pub fn judge(facts: &Facts, reply: Reply, lookup: &RouteLookup) -> Checked {
    let nic = facts.links.name(reply.nic);
    let rule = match &lookup.rule {
        Choice::Rule(rule) => Some(rule.clone()),
        _ => None,
    };
    let misroute = |route| Box::new(Misroute { nic, from: reply.from, to: reply.to, rule, route });
    let way = match &lookup.outcome {
        Outcome::Route(chosen) => {
            let by_nic = |link| facts.links.carried_by(link, reply.nic);
            let ways = chosen.matched.iter().flat_map(|route| &route.next_hops).chain([&chosen.hop]);
            let wrong = ways.into_iter().find(|hop| !by_nic(hop.link));
            // A source that is an address of this host sends no probes.
            match wrong.filter(|_| chosen.table != Some(tables::LOCAL)) {
                None => Way::Right,
                Some(hop) => {
                    Way::Wrong(format!("would leave by {}", hop.device), misroute(chosen.matched.clone()))
                }
            }
        }
        Outcome::Rejected(Rejection::SourceNotLocal, _) => {
            Way::Unknown(format!("{} is no longer an address of this host", reply.from))
        }
        Outcome::Rejected(rejection, route) => {
            let why = match rejection {
                Rejection::Unreachable => "the destination is unreachable",
                Rejection::Blackhole => "a blackhole route takes it",
                Rejection::Prohibit => "a route prohibits it",
                _ => "there is no route",
            };
            Way::Wrong(format!("would not leave at all: {why}"), misroute(route.clone()))
        }
        Outcome::Failed(why) => Way::Unknown(why.clone()),
    };
    Checked { reply, way }
}

#[cfg(test)]
#[path = "predict_tests.rs"]
mod tests;
