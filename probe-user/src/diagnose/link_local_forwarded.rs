//! Cause `link-local-forwarded`: an IPv6 probe comes from a link-local address, which no router may pass on (RFC 4291,
//! 2.5.6); the kernel answers "beyond scope of source address" (net/ipv6/ip6_output.c, `ip6_forward`).

use super::{Case, Explanation, evidence, trace};
use crate::{host::counters::IN6_ADDR_ERRORS, report::document::Verdict};

/// Destination unreachable, beyond scope of source address (RFC 4443, 3.1).
const BEYOND_SCOPE: (u8, u8) = (1, 2);

pub(super) fn explain(case: &Case<'_>, verdict: Verdict) -> Option<Explanation> {
    let source_is_local = case.series.addresses.iter().any(|address| address.starts_with("fe80"));
    let rejected = verdict == Verdict::IcmpReject && case.failures.icmp == Some(BEYOND_SCOPE);
    if !rejected || !source_is_local {
        return None;
    }
    let mut evidence = vec![evidence::of(
        "packets",
        format!("{}: SYN came in, ICMPv6 \"beyond scope of source address\" left", case.share()),
    )];
    if let Some((trace, _)) = trace::of(case) {
        evidence.extend(trace::counter(trace, IN6_ADDR_ERRORS));
        if let Some((device, to)) = &trace.forwarded {
            evidence.push(evidence::of("packets", format!("passed on to {to} by {device}")));
        }
    }
    evidence.extend(evidence::unread(case));
    Some(Explanation {
        cause: "link-local-forwarded",
        summary: format!(
            "Probes of {} on {} are translated or forwarded to another machine, and their link-local source cannot be: \
             answer them on this host, or translate the source to a global address as well.",
            case.place(),
            case.series.nic
        ),
        evidence,
        misroute: None,
        remedy: None,
    })
}
