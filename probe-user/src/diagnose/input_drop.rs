//! Cause `input-drop`: a rule drops the SYN before it reaches the socket.

use super::{Case, Explanation, evidence, trace};
use crate::{fix, host::firewall::Outcome, report::document::Verdict};

/// How kernels name a drop by the packet filter (include/net/dropreason-core.h).
pub(super) const BY_FILTER: [&str; 3] = ["NETFILTER_DROP", "BPF_CGROUP_INGRESS", "TC_INGRESS"];

pub(super) fn explain(case: &Case<'_>, verdict: Verdict) -> Option<Explanation> {
    let (trace, facts) = trace::of(case)?;
    if verdict != Verdict::NoReply || trace.half_open == Some(true) || trace.forwarded.is_some() {
        return None;
    }
    let verdicts = trace::inbound(facts, trace);
    let place = verdicts.iter().find_map(|verdict| match &verdict.outcome {
        Outcome::Drops(place) => Some(place),
        _ => None,
    });
    let dropped = trace.dropped(true, &BY_FILTER);
    // The kernel's word counts more than our reading of the rules: where it was asked and named no drop, none was.
    if dropped.is_none() && (trace.drops_watched || place.is_none()) {
        return None;
    }
    let mut evidence: Vec<_> = place.map(|place| evidence::of("rule", place.text())).into_iter().collect();
    if place.is_none() {
        evidence.extend(trace::may_stop(&verdicts));
        if !trace::filter_known(&facts.firewall) {
            evidence.push(evidence::of(
                "rule",
                "which rule drops it is not known: not every table could be read",
            ));
        }
    }
    evidence.extend(dropped.map(trace::Drops::evidence));
    if trace.half_open == Some(false) {
        evidence.push(evidence::of(
            "socket",
            "no half-open request (SYN-RECV): the SYN did not reach the socket",
        ));
    }
    evidence.extend(evidence::unread(case));
    let by = match (place, dropped) {
        (Some(place), _) => format!("chain {} of table {}", place.chain, place.table),
        (None, Some(drops)) if drops.reason == "BPF_CGROUP_INGRESS" => "a cgroup's BPF program".to_owned(),
        (None, Some(drops)) if drops.reason == "TC_INGRESS" => "a TC filter".to_owned(),
        _ => "the packet filter".to_owned(),
    };
    Some(Explanation {
        cause: "input-drop",
        summary: format!(
            "Probes of {} on {} come in and are dropped by {by} before they reach the socket.",
            case.place(),
            case.series.nic
        ),
        evidence,
        misroute: None,
        remedy: place.and_then(|place| trace::accept(case, place, fix::Hook::Input, trace.local.port())),
    })
}
