//! Cause `route`: the reply leaves by another device, and the routing table says so too.

use std::net::IpAddr;

use super::{Case, Explanation, evidence};
use crate::{
    fix::Misroute,
    host::{lookup::Chosen, selection::Choice},
    report::document::Verdict,
    source,
};

pub(super) fn explain(case: &Case<'_>, verdict: Verdict) -> Option<Explanation> {
    if verdict != Verdict::Asymmetric {
        return None;
    }
    let lookup = case.lookup?;
    // Linux binds replies to a link-local peer to the device they came in by: no route can misdirect them.
    if matches!(lookup.query.to, IpAddr::V6(v6) if v6.is_unicast_link_local()) {
        return None;
    }
    let chosen = lookup.chosen()?;
    if !agrees(case, chosen) {
        return None;
    }
    let mut evidence = evidence::misrouted_packets(case);
    evidence.extend(evidence::lookup(case));
    evidence.extend(evidence::unread(case));
    Some(Explanation {
        cause: "route",
        summary: summary(case),
        evidence,
        misroute: misroute(case),
        remedy: None,
    })
}

/// What the load balancer makes of it, in one sentence.
pub(super) fn summary(case: &Case<'_>) -> String {
    let nic = &case.series.nic;
    let out = evidence::out_nic(case).unwrap_or_else(|| "another device".to_owned());
    let place = case.place();
    if case.failures.intermittent {
        let (failed, judged) = (case.failures.failed, case.failures.judged);
        return format!(
            "{failed} of {judged} replies to probes on {nic} ({place}) leave by {out}: the load balancer ignores \
             those and marks this instance down now and then."
        );
    }
    format!(
        "Replies to probes on {nic} ({place}) leave by {out}: the load balancer ignores them and marks this \
         instance down."
    )
}

/// Whether the table leads where the packets were seen to go.
pub(super) fn agrees(case: &Case<'_>, chosen: &Chosen) -> bool {
    let seen = case.failures.out_devices.iter().map(|(device, _)| device).chain(&case.series.out_nic);
    let multipath = chosen.matched.iter().flat_map(|route| &route.next_hops);
    let hops: Vec<_> = std::iter::once(&chosen.hop).chain(multipath).collect();
    seen.into_iter().any(|device| {
        hops.iter().any(|hop| {
            let carried = case.facts.is_some_and(|facts| {
                facts
                    .links
                    .by_name(device)
                    .is_some_and(|link| facts.links.carried_by(hop.link, facts.links.logical_nic(link.index)))
            });
            carried || hop.device == *device
        })
    })
}

/// Whether a way leads out of a NIC.
pub(super) fn leads_to(case: &Case<'_>, chosen: &Chosen, nic: &str) -> bool {
    let carried = case.facts.is_some_and(|facts| {
        facts.links.by_name(nic).is_some_and(|link| facts.links.carried_by(chosen.hop.link, link.index))
    });
    carried || chosen.hop.device == nic
}

/// The reply that a policy route would put right. Replies to a link-local prober need none.
pub(super) fn misroute(case: &Case<'_>) -> Option<Misroute> {
    let lookup = case.lookup?;
    if matches!(lookup.query.to, IpAddr::V6(v6) if v6.is_unicast_link_local()) {
        return None;
    }
    let rule = match &lookup.rule {
        Choice::Rule(rule) => Some(rule.clone()),
        _ => None,
    };
    Some(Misroute {
        nic: case.series.nic.clone(),
        from: case.series.target.parse().ok()?,
        to: source::parse(&case.series.source).ok()?,
        rule,
        route: lookup.chosen().and_then(|chosen| chosen.matched.clone()),
    })
}
