//! Cause `forwarding-disabled`: the probe is green, the host has several NICs and looks like a router, and the kernel
//! forwards nothing. An appliance whose data path is a program of its own is right so: a remark.

use super::{Scene, advice::Advice, confirmed};
use crate::{
    diagnose::evidence,
    host::{
        Facts,
        firewall::{Action, Statement},
    },
    report::document::{Evidence, Finding, Verdict},
};

/// Packets for others that are more than strays.
const ENOUGH: u64 = 10;

pub(super) fn find(scene: &Scene<'_>) -> Vec<Finding> {
    let Some(facts) = scene.facts.filter(|_| scene.nics.len() > 1) else { return Vec::new() };
    let green = |v6: bool| {
        confirmed(scene)
            .any(|case| case.series.verdict == Verdict::Ok && case.series.target.contains(':') == v6)
    };
    let v4 = facts.sysctls.v4_forwarding == Some(false) && green(false);
    let v6 = facts.sysctls.v6_forwarding == Some(false) && green(true);
    let (sysctl, errors) = match (v4, v6) {
        (true, _) => ("net.ipv4.ip_forward", "IpInAddrErrors"),
        (false, true) => ("net.ipv6.conf.all.forwarding", "Ip6InAddrErrors"),
        (false, false) => return Vec::new(),
    };
    let mut evidence = signs(facts, errors);
    if evidence.is_empty() {
        return Vec::new();
    }
    evidence.insert(0, evidence::of("sysctl", format!("{sysctl} = 0")));
    let summary = format!(
        "Probes are answered while this host forwards nothing ({sysctl} = 0), and it looks as if it should: what the load \
         balancer sends through it is lost."
    );
    vec![Advice { cause: "forwarding-disabled", summary, evidence }.finding()]
}

/// What a host shows that is meant to forward.
fn signs(facts: &Facts, errors: &str) -> Vec<Evidence> {
    let mut signs = Vec::new();
    if let Some(count) = facts.counters.get(errors).filter(|count| *count >= ENOUGH) {
        signs.push(evidence::of(
            "counter",
            format!("{errors} = {count}: packets for other addresses came in and were thrown away"),
        ));
    }
    let translates = |statement: &Statement| {
        let Statement::Act(Action::Translate(words)) = statement else { return false };
        let words = words.to_ascii_lowercase();
        words.starts_with("masquerade") || words.starts_with("snat")
    };
    let rule = facts
        .firewall
        .chains
        .iter()
        .flat_map(|chain| chain.rules.iter().map(move |rule| (chain, rule)))
        .find(|(_, rule)| rule.statements.iter().any(translates));
    if let Some((chain, rule)) = rule {
        let text = format!(
            "table {}, chain {}: {} (source translation of what is forwarded)",
            chain.table, chain.name, rule.text
        );
        signs.push(evidence::of("rule", text));
    }
    signs
}
