//! Cause `accept-queue-full`: the application does not accept, its queue is full, and the kernel drops further SYNs
//! (net/ipv4/tcp_input.c, `tcp_conn_request`).

use super::{Case, Explanation, evidence, trace};
use crate::{
    fix,
    host::{
        counters::{LISTEN_DROPS, LISTEN_OVERFLOWS},
        sockets::Reach,
    },
    report::document::Verdict,
};

pub(super) fn explain(case: &Case<'_>, verdict: Verdict) -> Option<Explanation> {
    let (trace, facts) = trace::of(case)?;
    if verdict != Verdict::NoReply {
        return None;
    }
    // ListenDrops alone proves nothing: a missing route raises it, too.
    let overflows = trace.rose.rose(LISTEN_OVERFLOWS) && trace.rose.rose(LISTEN_DROPS);
    let listener = trace::listeners(facts, trace).into_iter().find(|listener| {
        listener.is_full() == Some(true) && trace::reach(facts, trace, listener) == Reach::Yes
    })?;
    let dropped = trace.dropped(true, &["TCP_LISTEN_OVERFLOW", "LISTEN_OVERFLOW"]);
    if !overflows && dropped.is_none() {
        return None;
    }
    let detail = listener.detail?;
    let mut evidence = vec![evidence::of(
        "socket",
        format!(
            "{} has {} connections waiting to be accepted; its backlog is {}",
            trace::listener_text(facts, listener),
            detail.queue,
            detail.backlog
        ),
    )];
    evidence.extend(trace::counter(trace, LISTEN_OVERFLOWS));
    evidence.extend(trace::counter(trace, LISTEN_DROPS));
    evidence.extend(dropped.map(trace::Drops::evidence));
    if let Some(somaxconn) = facts.sysctls.somaxconn {
        evidence.push(evidence::of(
            "sysctl",
            format!("net.core.somaxconn = {somaxconn}, which bounds every backlog"),
        ));
    }
    evidence.extend(evidence::unread(case));
    let process = listener.process.as_deref().unwrap_or("the application");
    Some(Explanation {
        cause: "accept-queue-full",
        summary: format!(
            "Probes of {} on {} get no reply: {process} does not accept connections and its queue of {} is full.",
            case.place(),
            case.series.nic,
            detail.backlog
        ),
        evidence,
        misroute: None,
        remedy: Some(fix::Intent::Backlog {
            port: trace.local.port(),
            backlog: Some(detail.backlog),
            somaxconn: facts.sysctls.somaxconn,
            process: listener.process.clone(),
        }),
    })
}
