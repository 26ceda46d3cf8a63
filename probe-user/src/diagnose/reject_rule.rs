//! Cause `reject-rule`: a rule answers the probe with a RST or an ICMP error.

use super::{Case, Explanation, evidence, trace};
use crate::{fix, host::firewall::Outcome, report::document::Verdict};

pub(super) fn explain(case: &Case<'_>, verdict: Verdict) -> Option<Explanation> {
    let (trace, facts) = trace::of(case)?;
    let refused = verdict == Verdict::Refused && !case.failures.closed_by_application;
    if !refused && verdict != Verdict::IcmpReject {
        return None;
    }
    let verdicts = trace::inbound(facts, trace);
    // Only a rule that the packet surely reaches: one that drops before it would have left silence.
    let place = verdicts.iter().find_map(|verdict| match &verdict.outcome {
        Outcome::Rejects(place) => Some(place),
        _ => None,
    })?;
    let what = if verdict == Verdict::Refused {
        "a RST".to_owned()
    } else {
        format!("an ICMP error{}", evidence::icmp(case))
    };
    let mut evidence = vec![
        evidence::of("packets", format!("{}: SYN came in, {what} left", case.share())),
        evidence::of("rule", place.text()),
    ];
    evidence.extend(trace::listeners(facts, trace).into_iter().map(|listener| {
        evidence::of("socket", format!("{} listens", trace::listener_text(facts, listener)))
    }));
    evidence.extend(evidence::unread(case));
    Some(Explanation {
        cause: "reject-rule",
        summary: format!(
            "Probes of {} on {} are rejected with {what} by chain {} of table {}.",
            case.place(),
            case.series.nic,
            place.chain,
            place.table
        ),
        evidence,
        misroute: None,
        remedy: trace::accept(case, place, fix::Hook::Input, trace.local.port()),
    })
}
