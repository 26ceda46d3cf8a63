//! What differs between two readings of addresses, rules and routes, and which of it decides where a packet goes.

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;

use super::{
    Facts,
    addresses::Address,
    routes::{Route, RouteKind},
    rules::{Action, Rule},
    selection::{self, Fit, Packet},
};

/// One thing that a packet's way depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    Address(Address),
    Rule(Rule),
    Route(Route),
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    Vanished(Item),
    Appeared(Item),
    /// The same place is taken by something else.
    Replaced(Item, Item),
}

impl Item {
    const fn noun(&self) -> &'static str {
        match self {
            Self::Address(_) => "address",
            Self::Rule(_) => "policy rule",
            Self::Route(Route { kind: RouteKind::Local, .. }) => "local address",
            Self::Route(_) => "route",
        }
    }

    /// In the words of `ip`.
    fn text(&self, facts: &Facts) -> String {
        match self {
            Self::Address(address) => format!("{} on {}", address.net, facts.links.name(address.link)),
            Self::Rule(rule) => rule.text(&facts.tables),
            Self::Route(route) => route.evidence(&facts.tables),
        }
    }

    /// What another item must have in common to stand in its place.
    fn place(&self) -> Self {
        match self.clone() {
            Self::Address(address) => {
                let net = IpNet::from(address.net.addr());
                Self::Address(Address { net, global: true, ..address })
            }
            Self::Rule(rule) => Self::Rule(Rule {
                action: Action::Nop,
                suppress_prefix_length: None,
                suppress_group: None,
                protocol: 0,
                ..rule
            }),
            Self::Route(route) => Self::Route(Route {
                kind: RouteKind::Unicast,
                next_hops: Vec::new(),
                preferred_source: None,
                protocol: 0,
                scope: 0,
                ..route
            }),
        }
    }
}

impl Change {
    /// `policy rule 100: from 10.4.3.101 lookup 201 vanished`; names are those of `before` and `after`.
    pub fn text(&self, before: &Facts, after: &Facts) -> String {
        match self {
            Self::Vanished(item) => format!("{} {} vanished", item.noun(), item.text(before)),
            Self::Appeared(item) => format!("{} {} appeared", item.noun(), item.text(after)),
            Self::Replaced(from, to) => {
                format!("{} {} became {}", from.noun(), from.text(before), to.text(after))
            }
        }
    }

    fn gone(&self) -> Option<&Item> {
        match self {
            Self::Vanished(item) | Self::Replaced(item, _) => Some(item),
            Self::Appeared(_) => None,
        }
    }

    fn come(&self) -> Option<&Item> {
        match self {
            Self::Appeared(item) | Self::Replaced(_, item) => Some(item),
            Self::Vanished(_) => None,
        }
    }
}

/// Leaves out what cannot concern packets to these: full tables of a router are not kept twice.
#[must_use]
pub fn about(mut facts: Facts, peers: &[IpNet]) -> Facts {
    let meets = |route: &Route| {
        peers.iter().any(|peer| route.destination.contains(peer) || peer.contains(&route.destination))
    };
    facts.routes.retain(|route| route.kind == RouteKind::Local || meets(route));
    facts.routes.shrink_to_fit();
    facts
}

/// Every difference, in an order of its own: that of the readings does not matter. What could not be read on either side
/// has not changed.
pub fn diff(before: &Facts, after: &Facts) -> Vec<Change> {
    let known = |what| before.knows(what) && after.knows(what);
    let items = |facts: &Facts| {
        let mut items = Vec::new();
        if known("addresses") {
            items.extend(facts.addresses.iter().cloned().map(Item::Address));
        }
        if known("rules") {
            items.extend(facts.rules.iter().cloned().map(Item::Rule));
        }
        if known("routes") {
            items.extend(facts.routes.iter().cloned().map(Item::Route));
        }
        items.sort_unstable();
        items
    };
    // By place: what is only before, and what is only after.
    let mut places: BTreeMap<Item, (Vec<Item>, Vec<Item>)> = BTreeMap::new();
    let (gone, come) = apart(items(before), items(after));
    for item in gone {
        places.entry(item.place()).or_default().0.push(item);
    }
    for item in come {
        places.entry(item.place()).or_default().1.push(item);
    }
    let mut changes = Vec::new();
    for (gone, come) in places.into_values() {
        let (mut gone, mut come) = (gone.into_iter(), come.into_iter());
        loop {
            changes.push(match (gone.next(), come.next()) {
                (Some(from), Some(to)) => Change::Replaced(from, to),
                (Some(item), None) => Change::Vanished(item),
                (None, Some(item)) => Change::Appeared(item),
                (None, None) => break,
            });
        }
    }
    changes.sort_unstable();
    changes
}

/// Of two sorted lists, what only the first has and what only the second has; equal items pair off one by one.
fn apart(first: Vec<Item>, second: Vec<Item>) -> (Vec<Item>, Vec<Item>) {
    let (mut only_first, mut only_second) = (Vec::new(), Vec::new());
    let (mut first, mut second) = (first.into_iter().peekable(), second.into_iter().peekable());
    loop {
        match (first.peek(), second.peek()) {
            (Some(a), Some(b)) if a == b => {
                first.next();
                second.next();
            }
            (Some(a), Some(b)) if a < b => only_first.extend(first.next()),
            (_, Some(_)) => only_second.extend(second.next()),
            (Some(_), None) => only_first.extend(first.next()),
            (None, None) => return (only_first, only_second),
        }
    }
}

/// The differences that decide where replies go: what `packet` depended on before, or depends on now.
pub fn deciding(packet: &Packet<'_>, before: &Facts, after: &Facts) -> Vec<Change> {
    let mut changes = diff(before, after);
    changes.retain(|change| {
        change.gone().is_some_and(|item| decides(item, packet, before))
            || change.come().is_some_and(|item| decides(item, packet, after))
    });
    // An address takes its local route along: once is enough.
    let address = |change: &Change| matches!(change.gone().or(change.come()), Some(Item::Address(_)));
    if changes.iter().any(address) {
        let local = |item: &Item| matches!(item, Item::Route(route) if route.kind == RouteKind::Local);
        changes.retain(|change| !change.gone().or(change.come()).is_some_and(local));
    }
    changes
}

fn decides(item: &Item, packet: &Packet<'_>, facts: &Facts) -> bool {
    let is_from = |address: IpAddr| packet.from == Some(address);
    match item {
        Item::Address(address) => is_from(address.net.addr()),
        Item::Route(route) if route.kind == RouteKind::Local => {
            packet.from.is_some_and(|from| route.destination.contains(&from))
        }
        Item::Route(route) => candidates(packet, facts).any(|(_, chosen)| chosen == Some(route)),
        Item::Rule(rule) => candidates(packet, facts).any(|(asked, _)| asked == rule),
    }
}

/// The rules that may decide about a packet, with the route that each leads to, up to the first that surely does. A mark, a
/// bound socket or its user may make a rule fit that else does not.
pub fn candidates<'a>(
    packet: &Packet<'a>,
    facts: &'a Facts,
) -> impl Iterator<Item = (&'a Rule, Option<&'a Route>)> + use<'a> {
    let packet = *packet;
    let mut settled = false;
    let mut resume_at = 0;
    let rules = facts.rules.iter().filter(move |rule| rule.ipv6 == packet.to.is_ipv6());
    rules.filter_map(move |rule| {
        if settled || rule.priority < resume_at {
            return None;
        }
        let free = Rule { mark: None, oif: None, ..rule.clone() };
        let unbound = rule.mark.is_none() && (rule.oif.is_none() || packet.oif.is_some());
        let sure = match selection::fit(if unbound { rule } else { &free }, &packet) {
            Fit::No if unbound || !rule.invert => return None,
            fit => unbound && fit == Fit::Yes,
        };
        let route = match rule.action {
            Action::Table(table) => Some(answer(rule, selection::best(&facts.routes, table, &packet))?),
            Action::Goto(target) => {
                resume_at = if sure { target } else { resume_at };
                return None;
            }
            Action::Nop => return None,
            _ => None,
        };
        settled = sure;
        Some((rule, route))
    })
}

/// The route that answers a rule's question, unless it sends the question on to the next rule.
fn answer<'a>(rule: &Rule, route: Option<&'a Route>) -> Option<&'a Route> {
    let long = |route: &&Route| {
        rule.suppress_prefix_length.is_none_or(|length| u32::from(route.destination.prefix_len()) > length)
    };
    route.filter(|route| route.kind != RouteKind::Throw).filter(long)
}

#[cfg(test)]
#[path = "changes_tests.rs"]
mod tests;
