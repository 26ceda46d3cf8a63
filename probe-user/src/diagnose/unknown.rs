//! Cause `unknown`: what was seen, what the table says, and what nobody looked at.

use std::net::IpAddr;

use super::{
    Case, Explanation, evidence, route,
    trace::{self, Trace},
};
use crate::{
    host::{Facts, sockets::Reach},
    report::document::{Evidence, Verdict},
};

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
    match trace::of(case) {
        Some((trace, facts)) => evidence.extend(ruled_out(trace, facts, verdict)),
        None => evidence.push(evidence::of("not-looked-at", not_looked_at(case, verdict))),
    }
    Some(Explanation { cause: "unknown", summary, evidence, misroute: None, remedy: None })
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

/// What was looked at and explains nothing, in the order of a packet's way.
fn ruled_out(trace: &Trace, facts: &Facts, verdict: Verdict) -> Vec<Evidence> {
    let mut evidence: Vec<Evidence> = trace.drops.iter().map(trace::Drops::evidence).collect();
    if trace.drops.is_empty() && trace.drops_watched {
        evidence.push(evidence::of("ruled-out", "the kernel gave no reason for dropping any of its packets"));
    }
    if !trace.drops_watched {
        evidence.push(evidence::of("not-looked-at", "the kernel's reasons for dropping packets"));
    }
    if verdict == Verdict::Asymmetric {
        return evidence;
    }
    for listener in trace::listeners(facts, trace) {
        let hears = match trace::reach(facts, trace, listener) {
            Reach::Yes => "listens and hears the probe",
            Reach::OtherAddress | Reach::OtherDevice => "listens elsewhere",
            Reach::Unknown => "listens; whether it hears the probe is not known",
        };
        evidence.push(evidence::of("socket", format!("{} {hears}", trace::listener_text(facts, listener))));
    }
    match trace.half_open {
        Some(true) => evidence.push(evidence::of(
            "socket",
            "the request is half-open (SYN-RECV): the SYN was accepted and answered, and the answer left no device",
        )),
        Some(false) => evidence.push(evidence::of("socket", "no half-open request (SYN-RECV) of the last probe")),
        None => {}
    }
    let inbound = trace::inbound(facts, trace);
    let unsure = trace::may_stop(&inbound);
    if unsure.is_empty() && trace::filter_known(&facts.firewall) {
        evidence.push(evidence::of("ruled-out", "no rule of the packet filter stops the SYN"));
    }
    evidence.extend(unsure);
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
