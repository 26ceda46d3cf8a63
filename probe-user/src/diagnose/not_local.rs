//! Cause `not-local`: the probed address is none of this host's, so the kernel does not deliver the SYN.

use super::{Case, Explanation, evidence, trace};
use crate::{
    host::{
        counters::{IN_ADDR_ERRORS, IN_NO_ROUTES, IN6_ADDR_ERRORS},
        firewall,
        routes::RouteKind,
    },
    report::document::Verdict,
};

pub(super) fn explain(case: &Case<'_>, verdict: Verdict) -> Option<Explanation> {
    let (trace, facts) = trace::of(case)?;
    let silent = matches!(verdict, Verdict::NoReply | Verdict::IcmpReject);
    // Passed on as it came, it was nobody's here; passed on to another address, it was translated.
    let translated = trace.forwarded.as_ref().is_some_and(|(_, to)| *to != trace.local);
    if !silent || trace.half_open == Some(true) || translated || !facts.knows("routes") {
        return None;
    }
    let target = trace.local.ip();
    let local = facts.routes.iter().any(|route| {
        matches!(route.kind, RouteKind::Local | RouteKind::Anycast) && route.destination.contains(&target)
    });
    if local {
        return None;
    }
    // A translation may make it local.
    let translated = trace::inbound(facts, trace)
        .iter()
        .any(|verdict| matches!(verdict.outcome, firewall::Outcome::Translates(_)));
    if translated {
        return None;
    }
    let mut evidence = vec![evidence::of(
        "address",
        format!("{target} is in no local table: no NIC has it, no local route covers it"),
    )];
    evidence.extend(
        trace
            .forwarded
            .as_ref()
            .map(|(device, _)| evidence::of("packets", format!("this host passes the probe on by {device}"))),
    );
    evidence.extend(trace.drops.iter().filter(|drops| drops.from_prober).map(trace::Drops::evidence));
    for counter in [IN_ADDR_ERRORS, IN6_ADDR_ERRORS, IN_NO_ROUTES] {
        evidence.extend(trace::counter(trace, counter));
    }
    evidence.extend(evidence::unread(case));
    Some(Explanation {
        cause: "not-local",
        summary: format!(
            "Probes of {} on {} go nowhere: {target} is no address of this host. A load balancer with floating IP, and \
             GCP's, probes the frontend's address: it must be local.",
            case.place(),
            case.series.nic
        ),
        evidence,
        misroute: None,
        remedy: None,
    })
}
