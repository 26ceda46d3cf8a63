//! Cause `bound-elsewhere`: something listens on the port, but not where the probe arrives: on another address, another
//! device, or outside of the NIC's VRF.

use super::{Case, Explanation, evidence, trace};
use crate::{fix, host::sockets::Reach, report::document::Verdict};

pub(super) fn explain(case: &Case<'_>, verdict: Verdict) -> Option<Explanation> {
    let (trace, facts) = trace::of(case)?;
    let refused = verdict == Verdict::Refused && !case.failures.closed_by_application;
    if !refused || !facts.knows("listeners") {
        return None;
    }
    let listeners = trace::listeners(facts, trace);
    let elsewhere = |listener: &&crate::host::sockets::Listener| {
        matches!(trace::reach(facts, trace, listener), Reach::OtherAddress | Reach::OtherDevice)
    };
    if listeners.is_empty() || !listeners.iter().all(elsewhere) {
        return None;
    }
    let mut evidence = vec![evidence::of("packets", format!("{}: SYN came in, a RST left", case.share()))];
    for listener in &listeners {
        evidence.push(evidence::of("socket", format!("{} listens", trace::listener_text(facts, listener))));
    }
    if let Some(vrf) = facts.links.vrf(trace.nic) {
        let accept = match facts.sysctls.tcp_l3mdev_accept {
            Some(true) => "1",
            Some(false) => "0",
            None => "not known",
        };
        evidence.push(evidence::of(
            "vrf",
            format!(
                "{} is in the VRF {}; net.ipv4.tcp_l3mdev_accept is {accept}",
                case.series.nic,
                facts.links.name(vrf)
            ),
        ));
    }
    evidence.extend(evidence::unread(case));
    let bound: Vec<String> = listeners.iter().map(|listener| trace::listener_text(facts, listener)).collect();
    Some(Explanation {
        cause: "bound-elsewhere",
        summary: format!(
            "Probes of {} on {} are refused: the port is open elsewhere only ({}).",
            case.place(),
            case.series.nic,
            bound.join("; ")
        ),
        evidence,
        misroute: None,
        remedy: Some(fix::Intent::Listen(fix::Listen {
            nic: case.series.nic.clone(),
            address: trace.local.ip(),
            port: trace.local.port(),
            bound,
            process: listeners.iter().find_map(|listener| listener.process.clone()),
        })),
    })
}
