//! Cause `nothing-listening`: no socket listens on the probed port, so the kernel answers with a RST.

use super::{Case, Explanation, evidence, trace};
use crate::{fix, report::document::Verdict};

pub(super) fn explain(case: &Case<'_>, verdict: Verdict) -> Option<Explanation> {
    let (trace, facts) = trace::of(case)?;
    let refused = verdict == Verdict::Refused && !case.failures.closed_by_application;
    if !refused || !facts.knows("listeners") {
        return None;
    }
    // A redirected SYN looks for a listener on another port.
    let redirected = trace
        .drops
        .iter()
        .find(|drops| drops.from_prober && drops.reason == "NO_SOCKET" && drops.translated.is_some());
    let port = redirected.and_then(|drops| drops.translated).map_or(trace.local.port(), |to| to.port());
    if facts.listeners.iter().any(|listener| listener.port == port) {
        return None;
    }
    let mut evidence = vec![
        evidence::of("packets", format!("{}: SYN came in, a RST left", case.share())),
        evidence::of("socket", format!("no socket of this network namespace listens on port {port}")),
    ];
    let dropped = redirected.or_else(|| trace.dropped(true, &["NO_SOCKET"]));
    evidence.extend(dropped.map(trace::Drops::evidence));
    evidence.extend(evidence::unread(case));
    Some(Explanation {
        cause: "nothing-listening",
        summary: format!(
            "Probes of {} on {} are refused: nothing listens on port {port}{}.",
            case.place(),
            case.series.nic,
            if redirected.is_some() { ", to which they are translated" } else { "" }
        ),
        evidence,
        misroute: None,
        remedy: Some(fix::Intent::Listen(fix::Listen {
            nic: case.series.nic.clone(),
            address: trace.local.ip(),
            port,
            bound: Vec::new(),
            process: None,
        })),
    })
}
