//! Cause `next-hop-unresolved`: the reply waits for the MAC address of a next hop that does not answer.

use super::{Case, Explanation, evidence, route, trace};
use crate::{host::neighbours, report::document::Verdict};

pub(super) fn explain(case: &Case<'_>, verdict: Verdict) -> Option<Explanation> {
    let (trace, facts) = trace::of(case)?;
    if verdict != Verdict::NoReply || trace.half_open == Some(false) {
        return None;
    }
    let hop = &case.lookup?.chosen()?.hop;
    let next = hop.gateway.unwrap_or_else(|| trace.peer.ip());
    let neighbour = neighbours::find(&facts.neighbours, hop.link, next)?;
    if !neighbour.state.is_unresolved() {
        return None;
    }
    let device = &hop.device;
    let mut evidence = vec![evidence::of("neighbour", format!("{next} on {device} is {}", neighbour.state))];
    evidence.extend(evidence::lookup(case));
    if trace.half_open == Some(true) {
        evidence.push(evidence::of("socket", "the request is half-open (SYN-RECV): the SYN-ACK was made"));
    }
    evidence.extend(evidence::unread(case));
    let wrong = if *device == case.series.nic {
        String::new()
    } else {
        format!(", and the probe came in by {}", case.series.nic)
    };
    Some(Explanation {
        cause: "next-hop-unresolved",
        summary: format!(
            "Replies to probes of {} on {} wait on {device}: the next hop {next} does not answer {}{wrong}.",
            case.place(),
            case.series.nic,
            if next.is_ipv4() { "ARP" } else { "neighbour solicitations" }
        ),
        evidence,
        misroute: route::misroute(case).filter(|_| *device != case.series.nic || hop.gateway.is_none()),
        remedy: None,
    })
}
