//! Cause `no-route`: the kernel has no way to send the reply, so it does not even make one.

use super::{Case, Explanation, evidence, trace};
use crate::{
    fix,
    host::{
        counters::{LISTEN_DROPS, OUT_NO_ROUTES, OUT6_NO_ROUTES},
        lookup::{Outcome, Rejection},
    },
    report::document::Verdict,
};

pub(super) fn explain(case: &Case<'_>, verdict: Verdict) -> Option<Explanation> {
    let (trace, _) = trace::of(case)?;
    if verdict != Verdict::NoReply || trace.half_open == Some(true) {
        return None;
    }
    let Outcome::Rejected(rejection, route) = &case.lookup?.outcome else { return None };
    let stands_in_the_way = route.clone();
    let why = match rejection {
        Rejection::Unreachable => "the route says unreachable",
        Rejection::Blackhole => "the route is a blackhole",
        Rejection::Prohibit => "the route prohibits it",
        Rejection::NoRoute => "there is none",
        Rejection::SourceNotLocal => return None,
    };
    let mut evidence = evidence::lookup(case);
    for counter in [OUT_NO_ROUTES, OUT6_NO_ROUTES, LISTEN_DROPS] {
        evidence.extend(trace::counter(trace, counter));
    }
    evidence.extend(evidence::unread(case));
    Some(Explanation {
        cause: "no-route",
        summary: format!(
            "Probes of {} on {} get no reply: this host has no route back to {} ({why}).",
            case.place(),
            case.series.nic,
            trace.peer.ip()
        ),
        evidence,
        misroute: super::route::misroute(case),
        remedy: stands_in_the_way.map(fix::Intent::RemoveRoute),
    })
}
