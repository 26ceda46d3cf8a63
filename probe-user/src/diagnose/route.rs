//! `route`: the reply was seen leaving by another device, and the routing tables say why.

use super::{Case, Failure, about, evidence, summary};
use crate::{
    fix,
    host::{lookup::Outcome, routes::table_name},
    report::document::{Finding, Reply, Verdict},
};

/// The packets give the verdict; rule and route only explain it. So a look-up that contradicts the packets is said, and
/// is not made the explanation.
pub(super) fn explain(case: &Case<'_>, failure: &Failure) -> Option<Finding> {
    if failure.verdict != Verdict::Asymmetric {
        return None;
    }
    let series = case.series;
    let out = failure.out_nic.as_deref()?;
    let mut finding = about(
        case,
        failure,
        "route",
        format!(
            "Replies to {} on {} ({}) leave by {out}: the load balancer ignores them{}.",
            summary::which(case),
            series.nic,
            summary::target(case),
            if case.failures.last_ok { "" } else { " and takes this instance for down" },
        ),
    );
    finding.evidence.push(evidence("packets", packets(case, failure)));
    if failure.reply == Reply::Rst {
        finding.evidence.push(evidence(
            "packets",
            format!("the reply is a RST: nothing accepts connections on {} either", summary::target(case)),
        ));
    }
    let name = |ifindex| case.facts.name(ifindex);
    let Some(lookup) = case.lookup else {
        finding.evidence.push(evidence("route", "the routing tables could not be asked".to_owned()));
        return Some(finding);
    };
    match &lookup.outcome {
        Outcome::Leaves { device, gateway, table, route, rule } => {
            let device = nic_name(case, *device);
            let agrees = device == out;
            let what = if let Some(route) = route {
                format!("{}, table {}", route.text(name), table_name(*table))
            } else {
                let via = gateway.map(|gateway| format!(" via {gateway}")).unwrap_or_default();
                format!("{} leaves{via} dev {device}, table {}", lookup.to, table_name(*table))
            };
            if agrees {
                finding.evidence.push(evidence("route", what));
            } else {
                // Changed since, or the socket is steered by a mark or a bound device.
                "unknown".clone_into(&mut finding.cause);
                finding.evidence.push(evidence(
                    "route",
                    format!(
                        "the table now says otherwise: {what}; it changed since, or marks or a bound socket steer the reply"
                    ),
                ));
            }
            match rule {
                Some(rule) => finding.evidence.push(evidence("rule", rule.text())),
                None => finding.evidence.push(evidence(
                    "rule",
                    format!("which rule picks table {} cannot be told for sure", table_name(*table)),
                )),
            }
            if agrees || case.failures.failing() {
                finding.fixes = fix::for_route(case, lookup);
            }
        }
        Outcome::Refused(error) => {
            "unknown".clone_into(&mut finding.cause);
            finding.evidence.push(evidence(
                "route",
                format!("the kernel now refuses {} → {}: {error}", lookup.from, lookup.to),
            ));
        }
    }
    Some(finding)
}

/// The logical NIC's name of a device.
fn nic_name(case: &Case<'_>, device: u32) -> String {
    case.facts.name(crate::host::links::nic(device, &case.facts.links))
}

fn packets(case: &Case<'_>, failure: &Failure) -> String {
    let what = match failure.reply {
        Reply::SynAck => "SYN-ACK",
        Reply::Rst => "RST",
        Reply::Data => "answer",
        Reply::Icmp => "ICMP error",
        Reply::None => "reply",
    };
    let seen: Vec<String> = case
        .out_nics
        .iter()
        .map(|(nic, count)| format!("{count} of {} left by {nic}", case.failures.judged))
        .collect();
    format!("SYN in by {}, {what} out by another device: {}", case.series.nic, seen.join(", "))
}
