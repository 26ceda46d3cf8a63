//! Cause `output-drop`: the SYN-ACK is made, and a rule drops it on its way out. Every table is searched: the guest agent
//! puts its rule into `security`.

use super::{Case, Explanation, evidence, trace};
use crate::{
    fix,
    host::firewall::{CtState, Place},
    report::document::Verdict,
};

const BY_FILTER: [&str; 3] = ["NETFILTER_DROP", "BPF_CGROUP_EGRESS", "TC_EGRESS"];
/// What conntrack may make of a SYN-ACK: what follows from the way of its SYN, else what the kernel's word shows.
const STATES: [Option<CtState>; 3] = [None, Some(CtState::Invalid), Some(CtState::Untracked)];

pub(super) fn explain(case: &Case<'_>, verdict: Verdict) -> Option<Explanation> {
    let (trace, facts) = trace::of(case)?;
    let dropped = trace.dropped(false, &BY_FILTER);
    // A RST needs no half-open request; then only the kernel's word tells that one was dropped.
    if verdict != Verdict::NoReply || (trace.half_open == Some(false) && dropped.is_none()) {
        return None;
    }
    let device = case.lookup.and_then(|lookup| lookup.chosen()).map(|chosen| chosen.hop.device.as_str())?;
    let mut found: Option<(Place, Option<CtState>)> = None;
    let mut unsure = Vec::new();
    for state in STATES {
        // A state that does not follow is believed only when the kernel says that the reply was dropped.
        if state.is_some() && dropped.is_none() {
            break;
        }
        let (verdicts, state_of_reply) = trace::outbound(facts, trace, device, state);
        if state.is_none() {
            unsure = trace::may_stop(&verdicts);
        }
        if let Some(place) = verdicts.iter().find_map(|verdict| verdict.stops()) {
            found = Some((place.clone(), state_of_reply));
            break;
        }
    }
    if dropped.is_none() && (trace.drops_watched || found.is_none()) {
        return None;
    }
    let mut evidence = Vec::new();
    if let Some((place, state)) = &found {
        evidence.push(evidence::of("rule", place.text()));
        if let Some(state @ (CtState::Invalid | CtState::Untracked)) = state {
            let word = if *state == CtState::Invalid { "invalid" } else { "untracked" };
            evidence.push(evidence::of(
                "conntrack",
                format!("the rule meets it as {word}: the probe itself is not tracked, look for notrack"),
            ));
        }
    } else {
        evidence.extend(unsure);
        if !trace::filter_known(&facts.firewall) {
            evidence.push(evidence::of(
                "rule",
                "which rule drops it is not known: not every table could be read",
            ));
        }
    }
    evidence.extend(dropped.map(trace::Drops::evidence));
    if trace.half_open == Some(true) {
        evidence.push(evidence::of("socket", "the request is half-open (SYN-RECV): the SYN-ACK was made"));
    }
    if facts.knows("listeners") && trace::listeners(facts, trace).is_empty() {
        evidence.push(evidence::of(
            "socket",
            format!("nothing listens on port {} either: what is dropped is a RST", trace.local.port()),
        ));
    }
    evidence.extend(evidence::unread(case));
    let by = found.as_ref().map_or_else(
        || "the packet filter".to_owned(),
        |(place, _)| format!("chain {} of table {}", place.chain, place.table),
    );
    Some(Explanation {
        cause: "output-drop",
        summary: format!(
            "Replies to probes of {} on {} are made and dropped by {by} on their way out.",
            case.place(),
            case.series.nic
        ),
        evidence,
        misroute: None,
        remedy: found.as_ref().and_then(|(place, _)| remedy(case, place, trace.local.port())),
    })
}

/// The guest agent's rules stand in the table `security`, which others hardly use (Azure/WALinuxAgent,
/// azurelinuxagent/ga/persist_firewall_rules.py).
fn remedy(case: &Case<'_>, place: &Place, port: u16) -> Option<fix::Intent> {
    let azure = case.series.source == "168.63.129.16";
    if azure && place.table == "security" {
        return Some(fix::Intent::AgentFirewall { chain: trace::chain(place) });
    }
    trace::accept(case, place, fix::Hook::Output, port)
}
