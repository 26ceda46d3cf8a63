//! Cause `nothing-listening`: no socket listens on the probed port, so the kernel answers with a RST.

use super::{Case, Explanation, evidence, trace};
use crate::{fix, report::document::Verdict};

pub(super) fn explain(case: &Case<'_>, verdict: Verdict) -> Option<Explanation> {
    let (trace, facts) = trace::of(case)?;
    let refused = verdict == Verdict::Refused && !case.failures.closed_by_application;
    if !refused || !facts.knows("listeners") || !trace::listeners(facts, trace).is_empty() {
        return None;
    }
    let mut evidence = vec![
        evidence::of("packets", format!("{}: SYN came in, a RST left", case.share())),
        evidence::of(
            "socket",
            format!("no socket of this network namespace listens on port {}", trace.local.port()),
        ),
    ];
    evidence.extend(trace.dropped(true, &["NO_SOCKET"]).map(trace::Drops::evidence));
    evidence.extend(evidence::unread(case));
    Some(Explanation {
        cause: "nothing-listening",
        summary: format!(
            "Probes of {} on {} are refused: nothing listens on port {}.",
            case.place(),
            case.series.nic,
            trace.local.port()
        ),
        evidence,
        misroute: None,
        remedy: Some(fix::Intent::Listen(fix::Listen {
            nic: case.series.nic.clone(),
            address: trace.local.ip(),
            port: trace.local.port(),
            bound: Vec::new(),
            process: None,
        })),
    })
}
