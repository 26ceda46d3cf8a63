//! Cause `forward-drop`: the probe was passed on to another machine, that machine answered, and the answer never left.

use std::net::SocketAddr;

use super::{Case, Explanation, evidence, trace};
use crate::{
    fix,
    host::firewall::{self, CtState, Device, Hook, Outcome, Packet},
    report::document::Verdict,
};

pub(super) fn explain(case: &Case<'_>, verdict: Verdict) -> Option<Explanation> {
    let (trace, facts) = trace::of(case)?;
    let (device, to) = trace.forwarded.as_ref()?;
    if verdict != Verdict::NoReply || !trace.returned {
        return None;
    }
    let out = case.lookup.and_then(|lookup| lookup.chosen()).map(|chosen| chosen.hop.device.clone());
    let place = out.as_ref().and_then(|out| rule(facts, device, out, *to, trace.peer));
    let dropped = trace.dropped(false, &["NETFILTER_DROP"]);
    let mut evidence = vec![evidence::of(
        "packets",
        format!(
            "{}: passed on to {to} by {device}, the answer came back by {device}, nothing left",
            case.share()
        ),
    )];
    evidence.extend(place.as_ref().map(|place| evidence::of("rule", place.text())));
    evidence.extend(dropped.map(trace::Drops::evidence));
    evidence.extend(evidence::lookup(case));
    evidence.extend(evidence::unread(case));
    let remedy = place.as_ref().and_then(|place| trace::accept(case, place, fix::Hook::Forward, to.port()));
    let by =
        place.map_or_else(String::new, |place| format!(" by chain {} of table {}", place.chain, place.table));
    Some(Explanation {
        cause: "forward-drop",
        summary: format!(
            "Probes of {} on {} are passed on to {to}; its answers come back and are dropped here{by}.",
            case.place(),
            case.series.nic
        ),
        evidence,
        misroute: None,
        remedy,
    })
}

/// The rule that stops an answer on its way through.
fn rule(
    facts: &crate::host::Facts,
    device: &str,
    out: &str,
    from: SocketAddr,
    to: SocketAddr,
) -> Option<firewall::Place> {
    let named = |name: &str| Device {
        index: facts.links.by_name(name).map_or(0, |link| link.index),
        name: name.to_owned(),
    };
    [Hook::Prerouting, Hook::Forward, Hook::Postrouting].into_iter().find_map(|hook| {
        let mut packet = Packet::syn_ack(hook, named(out), from, to);
        packet.iif = Some(named(device));
        packet.ct_state = Some(CtState::Established);
        packet.forwarded = true;
        firewall::blocking(&facts.firewall, &packet).into_iter().find_map(|verdict| match verdict.outcome {
            Outcome::Drops(place) | Outcome::Rejects(place) => Some(place),
            _ => None,
        })
    })
}
