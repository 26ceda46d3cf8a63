//! Family `network-scripts` (RHEL 7, and 8 without NetworkManager): route- and rule- files, one a NIC and family.

use super::{
    Family, PolicyFix, Unfit,
    family::{Entry, assumptions, by_nic, keep_from_networkd, replaced},
    iproute2, shell,
};
use crate::host::{Facts, managers::Manager};

pub(super) const FAMILY: Family = Family {
    name: "network-scripts",
    persistent: true,
    manages: |manager| matches!(manager, Manager::NetworkScripts),
    policies: text,
};

const FOLDER: &str = "/etc/sysconfig/network-scripts";

fn text(policies: &[PolicyFix], facts: &Facts) -> Result<String, Unfit> {
    let mut lines = vec![
        "# Persistent: ifup reads the route- and rule- files of the NIC. A route- file that is".to_owned(),
        "# there must have the form of ip's arguments: the ADDRESS0= form does not mix with it.".to_owned(),
    ];
    lines.extend(assumptions(policies));
    lines.extend(replaced(policies));
    lines.extend(keep_from_networkd(facts));
    let mut at_once = Vec::new();
    for (nic, entries) in by_nic(policies)? {
        for (ipv6, digit) in [(false, ""), (true, "6")] {
            let policies: Vec<PolicyFix> = entries
                .iter()
                .filter(|entry| entry.policy.from.is_ipv6() == ipv6)
                .map(Entry::fresh)
                .collect();
            if policies.is_empty() {
                continue;
            }
            let mut routes: Vec<String> = Vec::new();
            for policy in &policies {
                let line = iproute2::route_words(policy);
                if !routes.contains(&line) {
                    routes.push(line);
                }
            }
            let rules: Vec<String> = policies.iter().filter_map(iproute2::rule_words).collect();
            lines.extend(shell::append(&format!("{FOLDER}/route{digit}-{nic}"), &routes.join("\n")));
            lines.extend(shell::append(&format!("{FOLDER}/rule{digit}-{nic}"), &rules.join("\n")));
            at_once.extend(iproute2::commands(&policies));
        }
    }
    lines.push("# At once, without taking the NIC down:".to_owned());
    lines.extend(at_once);
    Ok(lines.join("\n"))
}
