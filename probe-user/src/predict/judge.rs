//! From the host's facts to what would happen: pure.

use super::{
    Question, Ways,
    filter::{self, Filtered},
};
use crate::{
    diagnose::way,
    host::{
        Facts,
        changes::candidates,
        lookup::{Outcome, RouteLookup},
        neighbours,
        routes::NextHop,
        selection::{Choice, Packet},
        sockets::Reach,
        xfrm::{self, Direction, Flow},
    },
    report::document::{Evidence, Hearing, Prediction, RpFilter},
};

/// What is wrong, what is not sure, and why.
#[derive(Debug, Default)]
struct Notes {
    problems: Vec<String>,
    doubts: Vec<String>,
    evidence: Vec<Evidence>,
}

impl Notes {
    fn proof(&mut self, kind: &str, text: impl Into<String>) {
        self.evidence.push(Evidence { kind: kind.to_owned(), text: text.into() });
    }
}

pub(super) fn judge(facts: &Facts, question: &Question<'_>, ways: &Ways) -> Prediction {
    let nic = facts.links.name(question.nic);
    let mut notes = Notes::default();
    let rp_filter = reverse_path(facts, question, ways, &mut notes);
    let device = ways.reply.chosen().map(|chosen| chosen.hop.device.as_str());
    let filtered = filter::filtered(facts, question, device);
    if let Some(Filtered::Probe(place)) = &filtered {
        notes.problems.push("the packet filter would drop the probe".to_owned());
        notes.proof("rule", place.text());
    }
    let listener = question.port.map(|port| hearing(facts, question, port, &mut notes));
    let fine = reply(facts, question, ways, &mut notes);
    if let Some(Filtered::Reply(place)) = &filtered {
        notes.problems.push("the packet filter would drop the reply".to_owned());
        notes.proof("rule", place.text());
    }
    captured(facts, question, ways, &mut notes);
    unresolved(facts, ways, &mut notes);
    notes.evidence.extend(way(&ways.reply, Some(facts)));
    let mut text = match notes.problems.as_slice() {
        [] => fine,
        problems => problems.join("; "),
    };
    let mut fails = !notes.problems.is_empty();
    if let Some(Filtered::Translated(place)) = &filtered {
        // Whatever is true of this host, another answers.
        fails = false;
        "the probe would be passed on to another place than this port".clone_into(&mut text);
        notes.evidence.clear();
        notes.proof("rule", place.text());
    }
    if !notes.doubts.is_empty() {
        text = format!("{text}, {}", notes.doubts.join(", "));
    }
    Prediction {
        nic,
        address: question.address.to_string(),
        port: question.port,
        source: question.source.to_string(),
        out_nic: out_nic(facts, question, &ways.reply),
        rp_filter,
        listener,
        fails,
        text,
        evidence: notes.evidence,
    }
}

fn out_nic(facts: &Facts, question: &Question<'_>, lookup: &RouteLookup) -> Option<String> {
    let link = lookup.chosen()?.hop.link;
    let own = facts.links.carried_by(link, question.nic);
    Some(facts.links.name(if own { question.nic } else { facts.links.logical_nic(link) }))
}

/// Every device that the reply may leave by.
fn hops(lookup: &RouteLookup) -> Vec<&NextHop> {
    let Some(chosen) = lookup.chosen() else { return Vec::new() };
    let several = chosen.matched.as_ref().map(|route| &route.next_hops).filter(|hops| hops.len() > 1);
    several.map_or_else(|| vec![&chosen.hop], |hops| hops.iter().collect())
}

/// What the kernel's check of the source address would say (net/ipv4/fib_frontend.c, `__fib_validate_source`).
fn reverse_path(facts: &Facts, question: &Question<'_>, ways: &Ways, notes: &mut Notes) -> RpFilter {
    if question.peer.is_ipv6() {
        return RpFilter::Pass;
    }
    let nic = facts.links.name(question.nic);
    let Some(value) = facts.sysctls.rp_filter(&nic) else { return RpFilter::Unknown };
    let own = |hop: &&NextHop| facts.links.logical_nic(hop.link) == question.nic;
    let passes = match (value, &ways.reverse.outcome) {
        (0, _) => true,
        (_, Outcome::Failed(_)) => return RpFilter::Unknown,
        // Without any way back even the loose check fails.
        (_, Outcome::Rejected(..)) => false,
        (1, Outcome::Route(_)) => hops(&ways.reverse).iter().any(own),
        (_, Outcome::Route(_)) => true,
    };
    if passes {
        return RpFilter::Pass;
    }
    // With the mark taken along the way back may be another.
    if facts.sysctls.src_valid_mark(&nic) != Some(false) && unless(facts, question, &ways.reverse).is_some() {
        return RpFilter::Unknown;
    }
    notes.problems.push(format!("the reverse-path filter of {nic} would drop the probe"));
    notes.proof("sysctl", format!("rp_filter of {nic} is {value} (the larger of all and {nic})"));
    RpFilter::Drop
}

/// The reply's way: a problem, or what is fine about it.
fn reply(facts: &Facts, question: &Question<'_>, ways: &Ways, notes: &mut Notes) -> String {
    let source = question.source;
    if let Outcome::Failed(why) = &ways.reply.outcome {
        return format!("where a reply to {source} would leave is not known: {why}");
    }
    let hops = hops(&ways.reply);
    let astray: Vec<&str> = hops
        .iter()
        .filter(|hop| !facts.links.carried_by(hop.link, question.nic))
        .map(|hop| hop.device.as_str())
        .collect();
    let nic = facts.links.name(question.nic);
    let text = if hops.is_empty() {
        format!("a reply to {source} would not leave: {}", rejection(&ways.reply))
    } else if astray.is_empty() {
        return format!("a reply to {source} would leave by {nic}");
    } else if astray.len() < hops.len() {
        format!("some replies to {source} would leave by {}", astray.join(" and "))
    } else {
        format!("a reply to {source} would leave by {}", astray.join(" and "))
    };
    match unless(facts, question, &ways.reply) {
        Some(unless) => notes.doubts.push(unless),
        None => notes.problems.push(text.clone()),
    }
    text
}

fn rejection(lookup: &RouteLookup) -> &'static str {
    use crate::host::lookup::Rejection;
    match &lookup.outcome {
        Outcome::Rejected(Rejection::Blackhole, _) => "a blackhole takes it",
        Outcome::Rejected(Rejection::Prohibit, _) => "the route prohibits it",
        Outcome::Rejected(Rejection::NoRoute, _) => "there is no route",
        Outcome::Rejected(Rejection::SourceNotLocal, _) => "the address is none of this host's",
        _ => "the route says unreachable",
    }
}

/// What could still lead the reply by its own NIC: a mark, a socket that is bound to the device, a rule that is not
/// understood.
fn unless(facts: &Facts, question: &Question<'_>, lookup: &RouteLookup) -> Option<String> {
    let nic = facts.links.name(question.nic);
    let packet = Packet {
        from: Some(question.address),
        to: question.peer,
        oif: None,
        mark: lookup.query.mark,
        port: question.port,
    };
    let chosen = match &lookup.rule {
        Choice::Rule(rule) | Choice::Unsure(rule, _) => Some(rule),
        Choice::Unknown => None,
    };
    let mut candidates = candidates(&packet, facts);
    let own = candidates.find(|(rule, route)| {
        let leads = |hop: &NextHop| facts.links.carried_by(hop.link, question.nic);
        Some(*rule) != chosen && route.is_some_and(|route| route.next_hops.iter().any(leads))
    });
    if let Some((rule, _)) = own {
        return Some(format!("unless the rule `{}` fits it", rule.text(&facts.tables)));
    }
    // Nobody said who is probed: a listener that is bound to the NIC would answer by it.
    let bound = facts.listeners.iter().find(|listener| {
        question.port.is_none() && listener.detail.and_then(|detail| detail.device) == Some(question.nic)
    })?;
    Some(format!("unless the probed listener is bound to {nic}, as that of port {} is", bound.port))
}

fn hearing(facts: &Facts, question: &Question<'_>, port: u16, notes: &mut Notes) -> Hearing {
    if !facts.knows("listeners") {
        return Hearing::Unknown;
    }
    let reach: Vec<Reach> = facts
        .listeners
        .iter()
        .filter(|listener| listener.port == port)
        .map(|listener| question.reach(facts, listener))
        .collect();
    let hearing = if reach.contains(&Reach::Yes) {
        Hearing::Hears
    } else if reach.contains(&Reach::Unknown) {
        Hearing::Unknown
    } else if reach.is_empty() {
        Hearing::None
    } else {
        Hearing::Elsewhere
    };
    let problem = match hearing {
        Hearing::None => format!("nothing listens on port {port}"),
        Hearing::Elsewhere => format!("what listens on port {port} is bound to another address or device"),
        Hearing::Hears | Hearing::Unknown => return hearing,
    };
    let role = if question.standby { ", as on a standby" } else { "" };
    notes.proof("socket", format!("{problem}{role}"));
    if !question.standby {
        notes.problems.push(problem);
    }
    hearing
}

/// An IPsec policy that takes the reply.
fn captured(facts: &Facts, question: &Question<'_>, ways: &Ways, notes: &mut Notes) {
    let flow = Flow {
        from: question.address,
        to: question.peer,
        protocol: 6,
        from_port: question.end().port(),
        to_port: question.peer_end().port(),
        device: ways.reply.chosen().map(|chosen| chosen.hop.link),
        mark: ways.reply.query.mark,
    };
    let policy = xfrm::deciding(&facts.xfrm, Direction::Out, &flow).filter(|policy| policy.captures());
    // Of a policy for some ports nobody can tell whether the probed one is among them.
    let ports = |policy: &&xfrm::Policy| question.port.is_some() || policy.from_port.mask == 0;
    if let Some(policy) = policy.filter(ports) {
        notes.problems.push("an IPsec policy would take the reply".to_owned());
        notes.proof("xfrm", policy.text(&facts.links));
    }
}

/// A next hop that does not answer now.
fn unresolved(facts: &Facts, ways: &Ways, notes: &mut Notes) {
    for hop in hops(&ways.reply) {
        let to = hop.gateway.unwrap_or(ways.reply.query.to);
        if let Some(found) =
            neighbours::find(&facts.neighbours, hop.link, to).filter(|n| n.state.is_unresolved())
        {
            notes.doubts.push(format!("while the next hop {to} on {} does not answer", hop.device));
            notes.proof("neighbour", format!("{to} on {} is {}", hop.device, found.state));
        }
    }
}
