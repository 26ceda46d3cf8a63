//! What became of a series' packets inside the host: the facts that tell its causes apart.

use std::net::SocketAddr;

use super::{Case, evidence};
use crate::{
    fix,
    host::{
        Facts,
        counters::Counters,
        firewall::{self, Backend, CtState, Device, Family, Hook, Owner, Packet, Place, Ruleset, Verdict},
        sockets::{Listener, Reach},
    },
    report::document::Evidence,
    source,
};

/// Packets of one series that the kernel dropped, by reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drops {
    /// The prober's packets; else those to it.
    pub from_prober: bool,
    /// As this kernel names it, without prefix: `IP_RPFILTER`.
    pub reason: String,
    /// The device it was on, where the kernel tells.
    pub device: Option<String>,
    /// The other end in the packet, where it was not the one probed: it had been translated.
    pub translated: Option<SocketAddr>,
    pub count: u64,
}

/// One series' latest failing attempt, and what the host shows about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The prober's end.
    pub peer: SocketAddr,
    /// The end that was probed.
    pub local: SocketAddr,
    /// ifindex of the logical NIC that the probe came in by.
    pub nic: u32,
    /// Whether a half-open request of this tuple exists; `None` when that could not be asked.
    pub half_open: Option<bool>,
    pub drops: Vec<Drops>,
    /// The kernel's drop reasons were watched: what is not in `drops` was not dropped with a reason.
    pub drops_watched: bool,
    /// How much counters rose during the look.
    pub rose: Counters,
    /// Where a forwarded probe went: device and end.
    pub forwarded: Option<(String, SocketAddr)>,
    /// An answer to the forwarded probe came back from behind.
    pub returned: bool,
}

impl Trace {
    /// Drops of one way with one of these reasons.
    pub(super) fn dropped(&self, from_prober: bool, reasons: &[&str]) -> Option<&Drops> {
        self.drops
            .iter()
            .filter(|drops| drops.from_prober == from_prober && reasons.contains(&drops.reason.as_str()))
            .max_by_key(|drops| drops.count)
    }
}

impl Drops {
    pub(super) fn evidence(&self) -> Evidence {
        let whose = if self.from_prober { "of the prober" } else { "to the prober" };
        let translated = self.translated.map_or_else(String::new, |to| format!(" (translated to {to})"));
        let on = self.device.as_ref().map_or_else(String::new, |device| format!(" on {device}"));
        evidence::of(
            "drop-reason",
            format!("the kernel dropped {} packets {whose}{translated}{on}: {}", self.count, self.reason),
        )
    }
}

/// The trace, with the host it was taken on.
pub(super) fn of<'a>(case: &Case<'a>) -> Option<(&'a Trace, &'a Facts)> {
    Some((case.trace?, case.facts?))
}

/// A counter that rose, as evidence.
pub(super) fn counter(trace: &Trace, name: &str) -> Option<Evidence> {
    let rose = trace.rose.get(name).filter(|rose| *rose > 0)?;
    Some(evidence::of("counter", format!("{name} rose by {rose}")))
}

/// The listeners on the probed port.
pub(super) fn listeners<'a>(facts: &'a Facts, trace: &Trace) -> Vec<&'a Listener> {
    facts.listeners.iter().filter(|listener| listener.port == trace.local.port()).collect()
}

/// Whether a listener hears the probe.
pub(super) fn reach(facts: &Facts, trace: &Trace, listener: &Listener) -> Reach {
    let vrf = facts.links.vrf(trace.nic);
    listener.hears(trace.local.ip(), trace.nic, vrf, facts.sysctls.tcp_l3mdev_accept)
}

/// A listener in words: `0.0.0.0:8008 (haproxy)`.
pub(super) fn listener_text(facts: &Facts, listener: &Listener) -> String {
    let process = listener.process.as_ref().map_or_else(String::new, |process| format!(" ({process})"));
    let device = listener
        .detail
        .and_then(|detail| detail.device)
        .map_or_else(String::new, |device| format!(", bound to {}", facts.links.name(device)));
    format!("{}{process}{device}", SocketAddr::new(listener.address, listener.port))
}

/// What the packet filter would do with the probe's SYN up to the socket.
pub(super) fn inbound(facts: &Facts, trace: &Trace) -> Vec<Verdict> {
    arrive(facts, trace).0
}

fn arrive(facts: &Facts, trace: &Trace) -> (Vec<Verdict>, Packet) {
    let device = Device { index: trace.nic, name: facts.links.name(trace.nic) };
    let mut syn = Packet::syn(Hook::Ingress, device, trace.peer, trace.local);
    syn.to_local = Some(true);
    firewall::passing(&facts.firewall, &syn, &[Hook::Ingress, Hook::Prerouting, Hook::Input])
}

/// What it would do with the reply, by the device that the route names, and what conntrack makes of the reply: what follows
/// from the SYN's way in, or `state`.
pub(super) fn outbound(
    facts: &Facts,
    trace: &Trace,
    device: &str,
    state: Option<CtState>,
) -> (Vec<Verdict>, Option<CtState>) {
    let index = facts.links.by_name(device).map_or(0, |link| link.index);
    let device = Device { index, name: device.to_owned() };
    let mut reply = arrive(facts, trace).1.answer(Hook::Output, device);
    reply.ct_state = state.or(reply.ct_state);
    // The SYN-ACK carries its listener's owner.
    reply.owner = listeners(facts, trace)
        .into_iter()
        .find(|listener| reach(facts, trace, listener) == Reach::Yes)
        .and_then(|listener| listener.detail)
        .map_or(Owner::Unknown, |detail| Owner::User(detail.uid));
    let hooks = [Hook::Output, Hook::Postrouting, Hook::Egress];
    (firewall::passing(&facts.firewall, &reply, &hooks).0, reply.ct_state)
}

/// Places that may stop it, where something is not understood.
pub(super) fn may_stop(verdicts: &[Verdict]) -> Vec<Evidence> {
    verdicts
        .iter()
        .filter_map(|verdict| match &verdict.outcome {
            firewall::Outcome::CannotTell { why, may } => Some((why, may)),
            _ => None,
        })
        .flat_map(|(why, may)| {
            may.iter().map(move |place| evidence::of("rule", format!("may be {} ({why})", place.text())))
        })
        .collect()
}

/// Whether every table of the packet filter was read.
pub(super) fn filter_known(ruleset: &Ruleset) -> bool {
    ruleset.unread.is_empty()
}

/// A place of the packet filter as fixes name it.
pub(super) fn chain(place: &Place) -> fix::Chain {
    let (tool, family) = match (place.backend, place.family) {
        (Backend::Nft, family) => (fix::Tool::Nft, family.word().to_owned()),
        (Backend::Legacy, Family::Ip6) => (fix::Tool::Ip6tables, String::new()),
        (Backend::Legacy, _) => (fix::Tool::Iptables, String::new()),
    };
    fix::Chain { tool, family, table: place.table.clone(), chain: place.chain.clone(), rule: place.handle }
}

/// A rule that accepts what `place` stops.
pub(super) fn accept(case: &Case<'_>, place: &Place, hook: fix::Hook, port: u16) -> Option<fix::Intent> {
    let nic = matches!(hook, fix::Hook::Input).then(|| case.series.nic.clone());
    let source = source::parse(&case.series.source).ok()?;
    Some(fix::Intent::FirewallRule(fix::Accept { chain: chain(place), hook, nic, source, port }))
}
