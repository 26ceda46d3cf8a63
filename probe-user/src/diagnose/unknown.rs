//! Cause `unknown`: what was seen, what the table says, and what nobody looked at.

use std::net::IpAddr;

use super::{Case, Explanation, evidence, route};
use crate::report::document::{Evidence, Verdict};

#[expect(clippy::unnecessary_wraps, reason = "one signature for all causes; this one always answers")]
pub(super) fn explain(case: &Case<'_>, verdict: Verdict) -> Option<Explanation> {
    let (summary, mut evidence) = match verdict {
        Verdict::Asymmetric => (route::summary(case), asymmetric(case)),
        _ => (summary(case, verdict), seen(case, verdict)),
    };
    if verdict != Verdict::Asymmetric {
        evidence.extend(evidence::lookup(case));
    }
    evidence.extend(evidence::unread(case));
    evidence.extend(evidence::captured(case).filter(|_| verdict == Verdict::NoReply));
    evidence.push(evidence::of("not-looked-at", not_looked_at(case, verdict)));
    Some(Explanation { cause: "unknown", summary, evidence, misroute: None })
}

fn summary(case: &Case<'_>, verdict: Verdict) -> String {
    let (nic, place, failures) = (&case.series.nic, case.place(), &case.failures);
    let often = if failures.intermittent {
        format!("{} of {} probes", failures.failed, failures.judged)
    } else {
        "Probes".to_owned()
    };
    let what = match verdict {
        Verdict::NoReply => "get no reply: the load balancer counts each as a failure".to_owned(),
        Verdict::Refused => "are refused: the load balancer counts each as a failure at once".to_owned(),
        Verdict::IcmpReject => format!("are rejected with an ICMP error{}", evidence::icmp(case)),
        _ => format!("fail: {verdict}"),
    };
    format!("{often} of {place} on {nic} {what}.")
}

fn seen(case: &Case<'_>, verdict: Verdict) -> Vec<Evidence> {
    let (nic, failures) = (&case.series.nic, &case.failures);
    let (failed, judged) = (failures.failed, failures.judged);
    let text = match verdict {
        Verdict::NoReply => {
            format!("{failed} of {judged} probes: SYN entered {nic}, no reply left by any watched device")
        }
        Verdict::Refused => format!("{failed} of {judged} probes: SYN entered {nic}, a RST left by {nic}"),
        Verdict::IcmpReject => {
            format!(
                "{failed} of {judged} probes: SYN entered {nic}, an ICMP error{} left",
                evidence::icmp(case)
            )
        }
        _ => format!("{failed} of {judged} probes on {nic}: {verdict}"),
    };
    vec![evidence::of("packets", text)]
}

fn asymmetric(case: &Case<'_>) -> Vec<Evidence> {
    let mut evidence = evidence::misrouted_packets(case);
    let Some(lookup) = case.lookup else { return evidence };
    evidence.extend(evidence::lookup(case));
    let nic = &case.series.nic;
    let note = if matches!(lookup.query.to, IpAddr::V6(v6) if v6.is_unicast_link_local()) {
        format!(
            "the kernel binds replies to the link-local {} to {nic}: something else redirects them (a filter, a \
             proxy, a translation)",
            lookup.query.to
        )
    } else if let Some(chosen) = lookup.chosen() {
        format!(
            "the table now says {}, which is not where the replies were seen to leave: it was changed since, or \
             something overrules it (a mark, a socket bound to a device, a filter, a tunnel)",
            chosen.hop.device
        )
    } else {
        "the table now lets no such reply out at all: it was changed since, or something overrules it"
            .to_owned()
    };
    evidence.push(evidence::of("route", note));
    evidence
}

fn not_looked_at(case: &Case<'_>, verdict: Verdict) -> &'static str {
    match (verdict, case.facts.is_some()) {
        (Verdict::Asymmetric, false) => "the routes and rules of the host",
        (Verdict::Asymmetric, true) => "marks, packet filters, bound sockets, tunnels",
        (_, false) => "the host: this is a capture",
        (_, true) => {
            "sockets, packet filters, reverse-path filter, neighbours, IPsec policies, the kernel's counters"
        }
    }
}
