//! Cause `next-hop-unresolved`: the reply waits for the MAC address of a next hop that does not answer.

use super::{Case, Explanation, evidence, route, trace};
use crate::{
    host::neighbours::{self, Resolution},
    report::document::Verdict,
};

pub(super) fn explain(case: &Case<'_>, verdict: Verdict) -> Option<Explanation> {
    let (trace, facts) = trace::of(case)?;
    if verdict != Verdict::NoReply {
        return None;
    }
    let hop = &case.lookup?.chosen()?.hop;
    let next = hop.gateway.unwrap_or_else(|| trace.peer.ip());
    let neighbour = neighbours::find(&facts.neighbours, hop.link, next)?;
    // Once the next hop has FAILED, the kernel gives up the half-open request, too: host unreachable
    // (net/ipv4/tcp_ipv4.c, tcp_req_err). Before that, the request must be there.
    let dropped = trace.dropped(false, &["NEIGH_FAILED", "NEIGH_QUEUEFULL", "NEIGH_DEAD"]);
    let given_up = dropped.is_some() || neighbour.state == Resolution::Failed;
    if !neighbour.state.is_unresolved() || (trace.half_open == Some(false) && !given_up) {
        return None;
    }
    let device = &hop.device;
    let mut evidence = vec![evidence::of("neighbour", format!("{next} on {device} is {}", neighbour.state))];
    evidence.extend(dropped.map(trace::Drops::evidence));
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
