//! `unknown`, said plainly: what was seen, and what was ruled out.

use super::{Case, Failure, about, evidence, summary};
use crate::report::document::{Finding, Verdict};

/// Always answers.
#[expect(clippy::unnecessary_wraps, reason = "one signature for every cause")]
pub(super) fn explain(case: &Case<'_>, failure: &Failure) -> Option<Finding> {
    let nic = &case.series.nic;
    let (target, which) = (summary::target(case), summary::which(case));
    let (summary, seen) = match failure.verdict {
        Verdict::NoReply => (
            format!("{which} to {target} on {nic} get no reply on any device."),
            format!(
                "SYN in by {nic} ({} retransmissions of the last one), nothing out by any device",
                failure.retransmits
            ),
        ),
        Verdict::Refused => (
            format!("{which} to {target} on {nic} are refused with a RST."),
            format!("SYN in by {nic}, RST out by {nic}"),
        ),
        Verdict::IcmpReject => (
            format!("{which} to {target} on {nic} are rejected with an ICMP error."),
            match failure.icmp {
                Some((kind, code)) => format!("ICMP type {kind} code {code} out by {nic}, quoting the probe"),
                None => format!("ICMP error out by {nic}, quoting the probe"),
            },
        ),
        other => (format!("{which} to {target} on {nic} end in {other}."), format!("verdict {other}")),
    };
    let mut finding = about(case, failure, "unknown", summary::sentence(&summary));
    finding.evidence.push(evidence("packets", seen));
    finding.evidence.push(evidence(
        "ruled-out",
        "the reply did not leave by another device: every device that is up is watched".to_owned(),
    ));
    finding.evidence.push(evidence(
        "not-looked-at",
        "firewall rules, sockets, reverse-path filter, neighbours".to_owned(),
    ));
    Some(finding)
}
