//! Evidence that several causes share.

use super::Case;
use crate::{
    host::{
        Facts,
        lookup::{Outcome, Rejection, RouteLookup},
        selection::Choice,
        tables::TableNames,
    },
    report::document::{Evidence, Reply},
};

/// One piece of evidence.
pub(super) fn of(kind: &str, text: impl Into<String>) -> Evidence {
    Evidence { kind: kind.to_owned(), text: text.into() }
}

/// The NIC that misrouted replies leave by: the series' own word, else the device seen most.
pub(super) fn out_nic(case: &Case<'_>) -> Option<String> {
    case.series.out_nic.clone().or_else(|| {
        let most = case.failures.out_devices.iter().max_by_key(|(_, count)| *count)?;
        Some(most.0.clone())
    })
}

/// Where the misrouted replies left.
pub(super) fn misrouted_packets(case: &Case<'_>) -> Vec<Evidence> {
    let judged = case.failures.judged;
    let mut evidence: Vec<Evidence> = case
        .failures
        .out_devices
        .iter()
        .map(|(device, count)| {
            of(
                "packets",
                format!(
                    "{count} of {judged} replies left by {device}; the probes came in by {}",
                    case.series.nic
                ),
            )
        })
        .collect();
    if evidence.is_empty() {
        let device = out_nic(case).unwrap_or_else(|| "another device".to_owned());
        evidence.push(of(
            "packets",
            format!("replies left by {device}; the probes came in by {}", case.series.nic),
        ));
    }
    match case.series.reply {
        Reply::Rst => evidence.push(of(
            "packets",
            format!(
                "the replies are RST: {} also refuses connections (nothing listens there, or a rule rejects), so \
                 a right route alone will not bring the probe up",
                case.place()
            ),
        )),
        Reply::Icmp => evidence.push(of("packets", format!("the replies are ICMP errors{}", icmp(case)))),
        _ => {}
    }
    evidence
}

/// ` (type 3 code 13)`, or nothing.
pub(super) fn icmp(case: &Case<'_>) -> String {
    case.failures.icmp.map_or_else(String::new, |(kind, code)| format!(" (type {kind} code {code})"))
}

/// The rule and the route that the kernel uses for the replies.
pub(super) fn lookup(case: &Case<'_>) -> Vec<Evidence> {
    case.lookup.map_or_else(Vec::new, |lookup| way(lookup, case.facts))
}

/// The rule and the route of a look-up.
pub(crate) fn way(lookup: &RouteLookup, facts: Option<&Facts>) -> Vec<Evidence> {
    let names = facts.map(|facts| facts.tables.clone()).unwrap_or_default();
    let mut evidence = match &lookup.rule {
        Choice::Rule(rule) => vec![of("rule", rule.text(&names))],
        Choice::Unsure(rule, why) => {
            vec![of("rule", format!("{} (probably: {why})", rule.text(&names)))]
        }
        Choice::Unknown => Vec::new(),
    };
    evidence.push(of("route", route_text(lookup, &names)));
    evidence
}

/// The outcome of a lookup in one line.
pub(super) fn route_text(lookup: &RouteLookup, names: &TableNames) -> String {
    match &lookup.outcome {
        Outcome::Route(chosen) => {
            if let Some(route) = &chosen.matched {
                return route.evidence(names);
            }
            let via = chosen.hop.gateway.map_or_else(String::new, |gateway| format!(" via {gateway}"));
            let table =
                chosen.table.map_or_else(String::new, |table| format!(", table {}", names.name(table)));
            format!("{}{via} dev {}{table}", lookup.query.to, chosen.hop.device)
        }
        Outcome::Rejected(_, Some(route)) => route.evidence(names),
        Outcome::Rejected(rejection, None) => {
            let to = lookup.query.to;
            match rejection {
                Rejection::Unreachable => format!("{to} is unreachable"),
                Rejection::Blackhole => format!("{to} falls into a blackhole"),
                Rejection::Prohibit => format!("{to} is prohibited"),
                Rejection::NoRoute => format!("there is no route to {to}"),
                Rejection::SourceNotLocal => {
                    let from =
                        lookup.query.from.map_or_else(|| "the address".to_owned(), |from| from.to_string());
                    format!("{from} is no address of this host, so the kernel sends nothing from it")
                }
            }
        }
        Outcome::Failed(why) => format!("not known: {why}"),
    }
}

/// What could not be read from the host.
pub(super) fn unread(case: &Case<'_>) -> Vec<Evidence> {
    let Some(facts) = case.facts else { return Vec::new() };
    facts
        .unread
        .iter()
        .map(|unread| of("not-looked-at", format!("{}: {}", unread.what, unread.why)))
        .collect()
}

/// The PROXY header in front of the requests.
pub(super) fn proxy(case: &Case<'_>) -> Option<Evidence> {
    let version = case.series.proxy.as_ref()?;
    Some(of(
        "proxy",
        format!(
            "PROXY {version} in use: a header precedes each request (Azure: the private link service's option)"
        ),
    ))
}

/// Other NICs may have carried what a capture does not show.
pub(super) fn captured(case: &Case<'_>) -> Option<Evidence> {
    let captured = &case.failures.captured;
    (!captured.is_empty()).then(|| {
        of(
            "not-looked-at",
            format!("captured was {} only; a reply by another NIC would not show", captured.join(", ")),
        )
    })
}
