//! What would happen to a probe and its reply, where none was seen: by the routes, the reverse-path filter, the listeners and
//! the packet filter as they stand. Verdicts come from packets; this is said in the conditional.

mod filter;
mod judge;

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
};

use crate::{
    host::{
        Facts,
        lookup::{Query, RouteLookup},
        sockets::{Listener, Reach},
    },
    probe::{Expected, rules::Role},
    report::document::Prediction,
    source::Source,
};

/// Addresses of one NIC, and sources of one family, that are asked about.
const ADDRESSES: usize = 16;
const SOURCES: usize = 16;
/// A port as good as any for the prober's end, and for a probe whose port is not known.
const SOME_PORT: u16 = 50_000;

/// One probe that may come.
#[derive(Clone, Debug)]
struct Question<'a> {
    /// ifindex of the logical NIC.
    nic: u32,
    address: IpAddr,
    /// `None` when nobody said which port is probed.
    port: Option<u16>,
    /// It may go unanswered there.
    standby: bool,
    source: &'a Source,
    /// One address of the source.
    peer: IpAddr,
}

/// What the kernel says to it.
#[derive(Clone, Debug)]
struct Ways {
    reply: RouteLookup,
    /// The way back to the source as the reverse-path filter looks it up: without ports, sockets and marks.
    reverse: RouteLookup,
}

/// What would happen on each NIC and to each of its global addresses, those that were probed left out.
pub(crate) async fn predict(
    facts: &Facts,
    nics: &BTreeSet<u32>,
    sources: &[Source],
    expected: &[Expected],
    probed: impl Fn(&str, IpAddr) -> bool,
) -> Vec<Prediction> {
    let mut predictions: Vec<Prediction> = Vec::new();
    for question in questions(facts, nics, sources, expected) {
        if probed(&facts.links.name(question.nic), question.address) {
            continue;
        }
        let ways = ask(facts, &question).await;
        let prediction = judge::judge(facts, &question, &ways);
        // Sources that fare alike are said once.
        let fate = |one: &Prediction| {
            let place = (one.nic.clone(), one.address.clone(), one.port);
            (place, one.out_nic.clone(), one.rp_filter, one.listener, one.fails)
        };
        if !predictions.iter().any(|known| fate(known) == fate(&prediction)) {
            predictions.push(prediction);
        }
    }
    predictions
}

fn questions<'a>(
    facts: &Facts,
    nics: &BTreeSet<u32>,
    sources: &'a [Source],
    expected: &[Expected],
) -> Vec<Question<'a>> {
    let mut questions = Vec::new();
    for nic in nics {
        let name = facts.links.name(*nic);
        let ports: Vec<(Option<u16>, bool)> = expected
            .iter()
            .filter(|expected| expected.nic == name)
            .map(|expected| (Some(expected.port), expected.role == Role::Standby))
            .collect();
        let ports = if ports.is_empty() { vec![(None, false)] } else { ports };
        for v4 in [true, false] {
            for address in addresses(facts, nics, *nic).filter(|ip| ip.is_ipv4() == v4).take(ADDRESSES) {
                let family = sources.iter().filter(|source| source.net.addr().is_ipv4() == v4);
                for source in family.take(SOURCES) {
                    let Some(peer) = source.net.hosts().next() else { continue };
                    questions.extend(ports.iter().map(|(port, standby)| Question {
                        nic: *nic,
                        address,
                        port: *port,
                        standby: *standby,
                        source,
                        peer,
                    }));
                }
            }
        }
    }
    questions
}

/// The global addresses of a NIC, and of what it carries unless that is judged itself.
fn addresses<'a>(facts: &'a Facts, nics: &'a BTreeSet<u32>, nic: u32) -> impl Iterator<Item = IpAddr> + 'a {
    let of_nic = move |link: u32| link == nic || !nics.contains(&link) && facts.links.carried_by(link, nic);
    facts
        .addresses
        .iter()
        .filter(move |address| address.global && of_nic(address.link))
        .map(|address| address.net.addr())
}

impl Question<'_> {
    fn end(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port.unwrap_or(SOME_PORT))
    }

    fn peer_end(&self) -> SocketAddr {
        SocketAddr::new(self.peer, SOME_PORT)
    }

    fn reach(&self, facts: &Facts, listener: &Listener) -> Reach {
        listener.hears(self.address, self.nic, facts.links.vrf(self.nic), facts.sysctls.tcp_l3mdev_accept)
    }

    /// The listener that would hear the probe.
    fn listener<'a>(&self, facts: &'a Facts) -> Option<&'a Listener> {
        let port = self.port?;
        let on_port = facts.listeners.iter().filter(|listener| listener.port == port);
        // One that is bound to a device is asked before one that is not (net/ipv4/inet_hashtables.c, compute_score).
        on_port
            .filter(|listener| self.reach(facts, listener) == Reach::Yes)
            .max_by_key(|listener| listener.detail.and_then(|detail| detail.device).is_some())
    }

    /// The device that replies are bound to: the listener's, or the VRF that the NIC is in.
    fn bound(&self, facts: &Facts) -> Option<u32> {
        let listener = self.listener(facts).and_then(|listener| listener.detail?.device);
        listener.or_else(|| facts.links.vrf(self.nic))
    }
}

async fn ask(facts: &Facts, question: &Question<'_>) -> Ways {
    let plain = Query::reply(question.address, question.end().port(), question.peer, question.nic);
    let plain = Query { oif: plain.oif.or_else(|| question.bound(facts)), ..plain };
    // Nobody knows the port: rules that look at ports are told by `judge`.
    let plain = Query { port: question.port, ..plain };
    let mut reply = facts.lookup(plain).await;
    let mark = reply.chosen().and_then(|way| filter::mark(facts, question, &way.hop.device));
    if let Some(mark) = mark.filter(|mark| *mark != 0) {
        reply = facts.lookup(Query { mark, ..plain }).await;
    }
    let reverse = Query { oif: facts.links.vrf(question.nic), mark: 0, port: None, ..plain };
    let reverse = if reverse == reply.query { reply.clone() } else { facts.lookup(reverse).await };
    Ways { reply, reverse }
}

#[cfg(test)]
mod tests;
