//! Family `ifupdown` (Debian): a file in /etc/network/interfaces.d. Several stanzas of one NIC add up (interfaces(5)).

use super::{
    Family, PolicyFix, Unfit,
    family::{assumptions, by_nic, keep_from_networkd, manager, replaced},
    iproute2, shell,
};
use crate::host::{
    Facts,
    managers::{Ifupdown, Manager},
};

pub(super) const FAMILY: Family = Family {
    name: "ifupdown",
    persistent: true,
    manages: |manager| matches!(manager, Manager::Ifupdown(_)),
    policies: text,
};

fn text(policies: &[PolicyFix], facts: &Facts) -> Result<String, Unfit> {
    let mut content = Vec::new();
    let mut at_once = Vec::new();
    for (nic, entries) in by_nic(policies)? {
        let policies: Vec<PolicyFix> = entries.iter().map(super::family::Entry::fresh).collect();
        // An `iface` line is for one address family; which one does not matter to post-up.
        content.push(format!("iface {nic} inet manual"));
        let commands = iproute2::commands(&policies);
        // A rule that is there already is no failure; ifup would call the NIC unconfigured.
        content.extend(commands.iter().map(|line| format!("    post-up {line} || true")));
        let rules = policies.iter().filter_map(|policy| iproute2::rule(policy, "del"));
        content.extend(rules.map(|line| format!("    pre-down {line} || true")));
        at_once.extend(commands);
    }
    let content = content.join("\n") + "\n";
    // source-directory reads only names of letters, digits, '_' and '-'.
    let file = facts.managers.free_file("/etc/network/interfaces.d/nvaprobe", "", &content);
    let mut lines =
        vec!["# Persistent: ifup runs the post-up lines whenever it brings the NIC up.".to_owned()];
    lines.extend(assumptions(policies));
    lines.extend(replaced(policies));
    lines.extend(keep_from_networkd(facts));
    let unsourced = policies.iter().any(|policy| {
        matches!(manager(facts, &policy.nic), Some(Manager::Ifupdown(Ifupdown { sourced: false })))
    });
    if unsourced {
        lines.push("# /etc/network/interfaces does not read that folder yet:".to_owned());
        lines.push("echo 'source /etc/network/interfaces.d/*' >> /etc/network/interfaces".to_owned());
    }
    lines.extend(shell::write(&file, &content));
    lines.push("# At once, without taking the NIC down:".to_owned());
    lines.extend(at_once);
    Ok(lines.join("\n"))
}
