//! Cause `local-network`: the platform's address lies within a network that this host takes for its own. Then it is looked
//! for by ARP on that network, whatever a gateway could do.

use super::{PLATFORM, Scene, advice::Advice};
use crate::{
    diagnose::evidence,
    host::{
        Facts,
        links::Layer2,
        routes::{Route, RouteKind},
        selection::{self, Packet},
    },
    report::document::{Evidence, Finding},
};

pub(super) fn find(scene: &Scene<'_>) -> Vec<Finding> {
    let Some(facts) = scene.facts else { return Vec::new() };
    if !scene.sources.iter().any(|source| source.is_exact() && source.net.addr() == PLATFORM) {
        return Vec::new();
    }
    let mut evidence: Vec<Evidence> = facts
        .addresses
        .iter()
        .filter(|address| address.net.contains(&PLATFORM))
        .map(|address| {
            let device = facts.links.name(address.link);
            evidence::of("address", format!("{} on {device}", address.net))
        })
        .collect();
    let routes = facts.routes.iter().filter(|route| is_on_link(facts, route));
    evidence.extend(routes.map(|route| evidence::of("route", route.evidence(&facts.tables))));
    if evidence.is_empty() {
        return Vec::new();
    }
    let summary = format!(
        "{PLATFORM} lies within a network that this host takes for its own: replies are sent to whoever answers ARP for it \
         there, and to nobody if none does. Route it by the NIC's gateway."
    );
    vec![Advice { cause: "local-network", summary, evidence }.finding()]
}

/// Whether a route would send packets to the platform straight onto a network. Those of an address are said with it; a
/// tunnel needs no gateway.
fn is_on_link(facts: &Facts, route: &Route) -> bool {
    let of_address =
        facts.addresses.iter().any(|own| own.net.trunc() == route.destination && own.net.contains(&PLATFORM));
    let packet = Packet { from: None, to: PLATFORM, oif: None, mark: 0, port: None };
    let straight = |route: &Route| {
        route.next_hops.iter().any(|hop| {
            let ethernet = facts.links.by_index(hop.link).is_none_or(|link| link.layer2 == Layer2::Ethernet);
            hop.gateway.is_none() && ethernet
        })
    };
    route.kind == RouteKind::Unicast
        && route.destination.prefix_len() > 0
        && route.destination.contains(&PLATFORM)
        && !of_address
        && straight(route)
        && selection::best(&facts.routes, route.table, &packet) == Some(route)
}
