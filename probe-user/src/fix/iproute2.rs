//! Family `iproute2`: commands, gone with the next reboot.

use super::{Family, PolicyFix, family::assumptions, shell::word};
use crate::host::routes::net_text;

pub(super) const FAMILY: Family = Family {
    name: "iproute2",
    persistent: false,
    manages: |_| false,
    policies: |policies, _| Ok(text(policies, false)),
};

/// With a hint where the configuration is not known.
pub(super) fn text(policies: &[PolicyFix], hint: bool) -> String {
    let mut lines = vec!["# Lost on reboot and network restart: repeat it in the configuration.".to_owned()];
    if hint {
        lines.push("# 'nvaprobe fix' words it for netplan, networkd, NetworkManager and others.".to_owned());
    }
    lines.extend(assumptions(policies));
    lines.extend(commands(policies));
    lines.join("\n")
}

/// The bare commands, each once.
pub(super) fn commands(policies: &[PolicyFix]) -> Vec<String> {
    let mut lines = Vec::new();
    for policy in policies {
        for line in std::iter::once(route(policy)).chain(rule(policy, "add")) {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines
}

pub(super) fn route(policy: &PolicyFix) -> String {
    format!("{} route replace {}", ip(policy), route_words(policy))
}

/// `TO via GATEWAY dev NIC table TABLE`.
pub(super) fn route_words(policy: &PolicyFix) -> String {
    let PolicyFix { gateway, table, metric, .. } = policy;
    let to = net_text(&policy.to);
    let nic = word(&policy.nic);
    let onlink = if policy.onlink { " onlink" } else { "" };
    let metric = if *metric == 0 { String::new() } else { format!(" metric {metric}") };
    format!("{to} via {gateway} dev {nic}{onlink} table {table}{metric}")
}

/// `ip rule add …` or `ip rule del …`; `None` when the rule exists.
pub(super) fn rule(policy: &PolicyFix, verb: &str) -> Option<String> {
    Some(format!("{} rule {verb} {}", ip(policy), rule_words(policy)?))
}

/// `from FROM to TO lookup TABLE priority PRIORITY`.
pub(super) fn rule_words(policy: &PolicyFix) -> Option<String> {
    let PolicyFix { from, table, .. } = policy;
    let priority = policy.priority?;
    Some(format!("from {from} to {} lookup {table} priority {priority}", net_text(&policy.to)))
}

fn ip(policy: &PolicyFix) -> &'static str {
    if policy.from.is_ipv6() { "ip -6" } else { "ip" }
}
