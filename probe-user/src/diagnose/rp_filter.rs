//! Cause `rp-filter`: the SYN comes in by one NIC, the route back to its sender leads out of another, and the strict
//! reverse-path filter drops it (net/ipv4/fib_frontend.c, `fib_validate_source`; RFC 3704).

use super::{Case, Explanation, evidence, route, trace};
use crate::{
    host::{counters::REVERSE_PATH_FILTER, lookup::Outcome},
    report::document::Verdict,
};

pub(super) fn explain(case: &Case<'_>, verdict: Verdict) -> Option<Explanation> {
    let (trace, facts) = trace::of(case)?;
    if verdict != Verdict::NoReply || trace.half_open == Some(true) || trace.local.is_ipv6() {
        return None;
    }
    let nic = &case.series.nic;
    let effective = facts.sysctls.rp_filter(nic);
    let dropped = trace.dropped(true, &["IP_RPFILTER"]);
    let elsewhere = case.lookup.is_some_and(|lookup| match &lookup.outcome {
        Outcome::Route(chosen) => !route::leads_to(case, chosen, nic),
        Outcome::Rejected(..) => true,
        Outcome::Failed(_) => false,
    });
    // Without drop reasons the counter speaks for the whole host: it needs the setting and the route beside it.
    let counted = !trace.drops_watched && trace.rose.rose(REVERSE_PATH_FILTER);
    if dropped.is_none() && !(counted && effective.is_some_and(|mode| mode > 0) && elsewhere) {
        return None;
    }
    let mut evidence: Vec<_> = dropped.map(trace::Drops::evidence).into_iter().collect();
    evidence.extend(trace::counter(trace, REVERSE_PATH_FILTER));
    if let (Some(effective), Some(all)) = (effective, facts.sysctls.all.rp_filter) {
        let own = facts.sysctls.devices.get(nic).and_then(|device| device.rp_filter);
        let own = own.map_or_else(|| "?".to_owned(), |own| own.to_string());
        let mode = match effective {
            1 => "strict",
            2 => "loose",
            _ => "off",
        };
        evidence.push(evidence::of(
            "sysctl",
            format!("rp_filter: all = {all}, {nic} = {own}; the larger counts, so {effective} ({mode})"),
        ));
    }
    evidence.extend(evidence::lookup(case));
    let out = case.lookup.and_then(|lookup| lookup.chosen()).map(|chosen| chosen.hop.device.clone());
    let way = out.map_or_else(|| "nowhere".to_owned(), |out| format!("by {out}"));
    evidence.extend(evidence::unread(case));
    Some(Explanation {
        cause: "rp-filter",
        summary: format!(
            "Probes of {} on {nic} are dropped as they come in: the reverse-path filter is on, and the route back to {} \
             leads {way}.",
            case.place(),
            trace.peer.ip()
        ),
        evidence,
        misroute: route::misroute(case),
        remedy: None,
    })
}
