//! The OS families: one file and one line here for each.

use super::{PolicyFix, Unfit, ifupdown, iproute2, netplan, network_manager, network_scripts, networkd};
use crate::{
    host::{Facts, managers::Manager},
    report::document::Fix,
};

/// One way to configure a host.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// As in `--family` and the report.
    pub name: &'static str,
    /// Survives a reboot and a restart of whatever manages the NIC.
    pub persistent: bool,
    /// Whether it is this manager's.
    pub(super) manages: fn(&Manager) -> bool,
    /// The policies as one coherent text.
    pub(super) policies: fn(&[PolicyFix], &Facts) -> Result<String, Unfit>,
}

/// Every family, in the order they are shown.
pub const FAMILIES: &[Family] = &[
    netplan::FAMILY,
    networkd::FAMILY,
    network_manager::FAMILY,
    ifupdown::FAMILY,
    network_scripts::FAMILY,
    iproute2::FAMILY,
];

impl Family {
    pub fn find(name: &str) -> Option<Self> {
        FAMILIES.iter().find(|family| family.name == name).copied()
    }

    /// The family of the one who manages this NIC.
    pub fn of(facts: &Facts, nic: &str) -> Option<Self> {
        let manager = manager(facts, nic)?;
        FAMILIES.iter().find(|family| (family.manages)(manager)).copied()
    }

    pub(super) fn fix(&self, text: String) -> Fix {
        Fix { family: self.name.to_owned(), persistent: self.persistent, text }
    }
}

/// Who manages this NIC.
pub(super) fn manager<'a>(facts: &'a Facts, nic: &str) -> Option<&'a Manager> {
    let link = facts.links.by_name(nic)?;
    facts.managers.of(facts.links.logical_nic(link.index))
}

/// The policies as configuration files have them, by NIC in the order given.
pub(super) fn by_nic(policies: &[PolicyFix]) -> Result<Vec<(String, Vec<Entry<'_>>)>, Unfit> {
    let mut nics: Vec<(String, Vec<Entry<'_>>)> = Vec::new();
    for policy in policies {
        if !is_plain(&policy.nic) {
            return Err(Unfit(format!("the name '{}' cannot be written in configuration files", policy.nic)));
        }
        let fresh = policy.fresh.ok_or_else(|| {
            Unfit(format!("no table or rule priority is free for {} to {}", policy.from, policy.to))
        })?;
        let entry = Entry { policy, table: fresh.table, priority: fresh.priority };
        match nics.iter_mut().find(|(nic, _)| *nic == policy.nic) {
            Some((_, entries)) => entries.push(entry),
            None => nics.push((policy.nic.clone(), vec![entry])),
        }
    }
    Ok(nics)
}

/// Not a word for a shell, a pattern, or a quoting rule of any of the formats.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
        && !name.starts_with(['-', '.'])
}

/// One policy with the table and priority that a file may use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub(super) policy: &'a PolicyFix,
    pub(super) table: u32,
    pub(super) priority: u32,
}

impl Entry<'_> {
    /// As a policy that adds its own rule, for the commands of a file.
    pub(super) fn fresh(&self) -> PolicyFix {
        PolicyFix { table: self.table, metric: 0, priority: Some(self.priority), ..self.policy.clone() }
    }
}

/// The routes of some entries, each once: several addresses of a NIC share one.
pub(super) fn routes<'a>(entries: &[Entry<'a>]) -> Vec<Entry<'a>> {
    let mut routes: Vec<Entry<'a>> = Vec::new();
    for entry in entries {
        if routes.iter().all(|known| (known.table, known.policy.to) != (entry.table, entry.policy.to)) {
            routes.push(*entry);
        }
    }
    routes
}

/// Comment lines about what was assumed, each once.
pub(super) fn assumptions<'a>(policies: impl IntoIterator<Item = &'a PolicyFix>) -> Vec<String> {
    let mut lines = Vec::new();
    for policy in policies.into_iter().filter(|policy| policy.gateway_assumed) {
        let line = format!("# Assumed: the gateway is {}, the first address, as on Azure.", policy.gateway);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// Comment lines about tables that are wrong and stay as they are.
pub(super) fn replaced(policies: &[PolicyFix]) -> Vec<String> {
    let mut lines = Vec::new();
    for policy in policies.iter().filter(|policy| policy.priority.is_none()) {
        let line = format!(
            "# Table {} names another device for {}; this rule comes before the one that uses it.",
            policy.table, policy.from
        );
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// When networkd configures a device, it removes every rule that it did not make, unless told otherwise (networkd.conf(5),
/// `ManageForeignRoutingPolicyRules=`): lines that tell it, where it runs beside the one who manages the NIC.
pub(super) fn keep_from_networkd(facts: &Facts) -> Vec<String> {
    if !facts.managers.networkd_runs {
        return Vec::new();
    }
    let mut lines = vec![
        "# systemd-networkd runs, too, and removes rules of others when it configures a device:".to_owned(),
    ];
    lines.extend(networkd::keep_foreign());
    lines
}
