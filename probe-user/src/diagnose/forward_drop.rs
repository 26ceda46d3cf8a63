//! Cause `forward-drop`: the probe was to be passed on to another machine, and a rule drops it, or the answer, on its way
//! through.

use std::net::SocketAddr;

use super::{Case, Explanation, evidence, trace};
use crate::{
    fix,
    host::firewall::{self, CtState, Device, Hook, Outcome, Packet},
    report::document::Verdict,
};

pub(super) fn explain(case: &Case<'_>, verdict: Verdict) -> Option<Explanation> {
    let (trace, facts) = trace::of(case)?;
    let Some((device, to)) = trace.forwarded.as_ref() else { return on_the_way(case, verdict) };
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

/// The probe itself was translated and dropped before it left.
fn on_the_way(case: &Case<'_>, verdict: Verdict) -> Option<Explanation> {
    let (trace, facts) = trace::of(case)?;
    let drops = trace
        .drops
        .iter()
        .find(|drops| drops.from_prober && drops.translated.is_some() && drops.reason == "NETFILTER_DROP");
    let (drops, to) = drops.and_then(|drops| Some((drops, drops.translated?)))?;
    if verdict != Verdict::NoReply {
        return None;
    }
    let out = facts.routes.iter().filter(|route| route.destination.contains(&to.ip()));
    let out =
        out.max_by_key(|route| route.destination.prefix_len()).and_then(|route| route.next_hops.first());
    let out = out.map_or_else(String::new, |hop| hop.device.clone());
    let mut packet = Packet::syn(Hook::Forward, named(facts, &case.series.nic), trace.peer, to);
    packet.oif = Some(named(facts, &out));
    packet.forwarded = true;
    packet.to_local = Some(false);
    let place =
        firewall::blocking(&facts.firewall, &packet).into_iter().find_map(|verdict| verdict.stops().cloned());
    let mut evidence: Vec<_> = place.iter().map(|place| evidence::of("rule", place.text())).collect();
    evidence.push(drops.evidence());
    evidence.extend(evidence::unread(case));
    let remedy = place.as_ref().and_then(|place| trace::accept(case, place, fix::Hook::Forward, to.port()));
    let by =
        place.map_or_else(String::new, |place| format!(" by chain {} of table {}", place.chain, place.table));
    Some(Explanation {
        cause: "forward-drop",
        summary: format!(
            "Probes of {} on {} are translated to {to} and dropped{by} on their way there.",
            case.place(),
            case.series.nic
        ),
        evidence,
        misroute: None,
        remedy,
    })
}

fn named(facts: &crate::host::Facts, name: &str) -> Device {
    Device { index: facts.links.by_name(name).map_or(0, |link| link.index), name: name.to_owned() }
}

/// The rule that stops an answer on its way through.
fn rule(
    facts: &crate::host::Facts,
    device: &str,
    out: &str,
    from: SocketAddr,
    to: SocketAddr,
) -> Option<firewall::Place> {
    [Hook::Prerouting, Hook::Forward, Hook::Postrouting].into_iter().find_map(|hook| {
        let mut packet = Packet::syn_ack(hook, named(facts, out), from, to);
        packet.iif = Some(named(facts, device));
        packet.ct_state = Some(CtState::Established);
        packet.forwarded = true;
        firewall::blocking(&facts.firewall, &packet).into_iter().find_map(|verdict| match verdict.outcome {
            Outcome::Drops(place) | Outcome::Rejects(place) => Some(place),
            _ => None,
        })
    })
}
