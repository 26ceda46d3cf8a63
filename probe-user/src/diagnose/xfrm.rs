//! Cause `xfrm`: an IPsec policy covers the prober's address, so the reply leaves encrypted, for somebody else, or not at
//! all.

use super::{Case, Explanation, evidence, trace};
use crate::{
    host::{
        counters::{XFRM_OUT_NO_STATES, XFRM_OUT_POLICY_BLOCK},
        xfrm::{self, Direction, Flow},
    },
    report::document::Verdict,
};

const TCP: u8 = 6;

pub(super) fn explain(case: &Case<'_>, verdict: Verdict) -> Option<Explanation> {
    let (trace, facts) = trace::of(case)?;
    if verdict != Verdict::NoReply {
        return None;
    }
    let device = case.lookup.and_then(|lookup| lookup.chosen()).map(|chosen| chosen.hop.link);
    let flow = Flow {
        from: trace.local.ip(),
        to: trace.peer.ip(),
        protocol: TCP,
        from_port: trace.local.port(),
        to_port: trace.peer.port(),
        device,
        mark: 0,
    };
    let policy = xfrm::deciding(&facts.xfrm, Direction::Out, &flow).filter(|policy| policy.captures())?;
    let mut evidence = vec![evidence::of("xfrm", policy.text(&facts.links))];
    for counter in [XFRM_OUT_NO_STATES, XFRM_OUT_POLICY_BLOCK] {
        evidence.extend(trace::counter(trace, counter));
    }
    evidence.extend(trace.drops.iter().filter(|drops| !drops.from_prober).map(trace::Drops::evidence));
    evidence.extend(evidence::unread(case));
    Some(Explanation {
        cause: "xfrm",
        summary: format!(
            "Replies to probes of {} on {} are captured by an IPsec policy that covers {}.",
            case.place(),
            case.series.nic,
            trace.peer.ip()
        ),
        evidence,
        misroute: None,
        remedy: None,
    })
}
