//! What the packet filter would do with the probe and its reply.

use super::Question;
use crate::host::{
    Facts,
    firewall::{self, CtState, Device, Hook, Outcome, Owner, Packet, Place},
};

const IN: [Hook; 3] = [Hook::Ingress, Hook::Prerouting, Hook::Input];
const OUT: [Hook; 3] = [Hook::Output, Hook::Postrouting, Hook::Egress];
/// Ports that stand for any port: a rule that stops both stops all, or is about ports far from the usual.
const ANY: [u16; 2] = [49_151, 1];

/// What would stop the probe or its reply, or send it elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Filtered {
    Probe(Place),
    Reply(Place),
    Translated(Place),
}

/// What surely would happen. Without a port only a rule that names the source counts: what a filter lets in depends on the
/// port.
pub(super) fn filtered(facts: &Facts, question: &Question<'_>, out: Option<&str>) -> Option<Filtered> {
    if question.port.is_some() {
        return on_port(facts, question, out);
    }
    let of_any = ANY.map(|port| on_port(facts, &Question { port: Some(port), ..question.clone() }, out));
    let [Some(one), Some(other)] = of_any else { return None };
    let (Filtered::Probe(place) | Filtered::Reply(place) | Filtered::Translated(place)) = &one;
    let named = place.handle.is_some() && place.rule.contains(&question.peer.to_string());
    (one == other && named).then_some(one)
}

fn on_port(facts: &Facts, question: &Question<'_>, out: Option<&str>) -> Option<Filtered> {
    let (verdicts, probe) = firewall::passing(&facts.firewall, &probe(facts, question), &IN);
    for verdict in verdicts {
        match verdict.outcome {
            Outcome::Drops(place) | Outcome::Rejects(place) => return Some(Filtered::Probe(place)),
            Outcome::Translates(place) => return Some(Filtered::Translated(place)),
            // What comes after may see something else.
            Outcome::CannotTell { .. } => return None,
            Outcome::Accepts => {}
        }
    }
    let (verdicts, _) = firewall::passing(&facts.firewall, &reply(facts, question, &probe, out?), &OUT);
    for verdict in verdicts {
        match verdict.outcome {
            Outcome::Drops(place) | Outcome::Rejects(place) => return Some(Filtered::Reply(place)),
            Outcome::CannotTell { .. } => return None,
            Outcome::Accepts | Outcome::Translates(_) => {}
        }
    }
    None
}

/// The mark that the filter gives the reply; `None` when that cannot be told.
pub(super) fn mark(facts: &Facts, question: &Question<'_>, out: &str) -> Option<u32> {
    let (_, probe) = firewall::passing(&facts.firewall, &probe(facts, question), &IN);
    let reply = reply(facts, question, &probe, out);
    firewall::passing(&facts.firewall, &reply, &[Hook::Output]).1.mark
}

fn probe(facts: &Facts, question: &Question<'_>) -> Packet {
    let device = Device { index: question.nic, name: facts.links.name(question.nic) };
    Packet {
        to_local: Some(true),
        mark: Some(0),
        ct_mark: Some(0),
        ..Packet::syn(Hook::Ingress, device, question.peer_end(), question.end())
    }
}

/// The reply to a probe that got through: what it left behind in its connection is seen again.
fn reply(facts: &Facts, question: &Question<'_>, probe: &Packet, out: &str) -> Packet {
    let index = facts.links.by_name(out).map_or(0, |link| link.index);
    let device = Device { index, name: out.to_owned() };
    let untracked = probe.ct_state == Some(CtState::Untracked);
    let reply = Packet::syn_ack(Hook::Output, device, question.end(), question.peer_end());
    Packet {
        mark: Some(0),
        ct_mark: probe.ct_mark,
        ct_state: if untracked { None } else { reply.ct_state },
        owner: question
            .listener(facts)
            .and_then(|listener| listener.detail)
            .map_or(Owner::Unknown, |detail| Owner::User(detail.uid)),
        ..reply
    }
}
