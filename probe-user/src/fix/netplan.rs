//! Family `netplan`: one file more, which netplan merges with the others by the id of the definition. Mappings of
//! several files merge and lists add up (<https://netplan.readthedocs.io>, "How the final config is merged").

use super::{
    Family, PolicyFix, Unfit,
    family::{Entry, assumptions, by_nic, manager, replaced, routes},
    shell,
};
use crate::host::{
    Facts,
    managers::{self, Manager, Writer},
};

pub(super) const FAMILY: Family = Family {
    name: "netplan",
    persistent: true,
    manages: |manager| matches!(manager, Manager::Netplan(_)),
    policies: text,
};

fn text(policies: &[PolicyFix], facts: &Facts) -> Result<String, Unfit> {
    let content = content(policies, facts)?;
    // 90 sorts behind cloud-init's 50 and the installer's 00 to 01.
    let file = facts.managers.free_file("/etc/netplan/90-nvaprobe", ".yaml", &content);
    let mut lines = vec![
        "# Persistent: netplan reads every file in /etc/netplan at each boot, and this one".to_owned(),
        "# adds to what the others say about the NIC.".to_owned(),
    ];
    if facts.managers.writers.contains(&Writer::CloudInit) {
        lines.push("# cloud-init may write its 50-cloud-init.yaml anew; this file survives that.".to_owned());
    }
    lines.extend(assumptions(policies));
    lines.extend(replaced(policies));
    lines.extend(shell::write(&file, &content));
    // Other permissions than these make netplan complain: files may hold keys.
    lines.push(format!("chmod 600 {file}"));
    lines.push("# At a terminal, 'netplan try' takes it back unless you confirm.".to_owned());
    lines.push("netplan apply".to_owned());
    Ok(lines.join("\n"))
}

/// The YAML file: definitions by kind, in the order given.
fn content(policies: &[PolicyFix], facts: &Facts) -> Result<String, Unfit> {
    let mut kinds: Vec<(String, Vec<String>)> = Vec::new();
    for (nic, entries) in by_nic(policies)? {
        if let Some(Manager::Networkd(managers::Networkd { file, shared: Some(shared) })) =
            manager(facts, &nic)
        {
            return Err(Unfit(format!(
                "{file} holds for {} as well as {nic}; a definition for {nic} alone has to come first",
                shared.with.join(", ")
            )));
        }
        let (kind, id) = match manager(facts, &nic) {
            Some(Manager::Netplan(netplan)) => (netplan.kind.clone(), scalar(&netplan.id)),
            _ => ("ethernets".to_owned(), scalar(&nic)),
        };
        let lines = definition(&id, &entries);
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, known)) => known.extend(lines),
            None => kinds.push((kind, lines)),
        }
    }
    let mut lines = vec!["network:".to_owned(), "  version: 2".to_owned()];
    for (kind, definitions) in kinds {
        lines.push(format!("  {kind}:"));
        lines.extend(definitions);
    }
    Ok(lines.join("\n") + "\n")
}

fn definition(id: &str, entries: &[Entry<'_>]) -> Vec<String> {
    let mut lines = vec![format!("    {id}:"), "      routes:".to_owned()];
    for Entry { policy, table, .. } in routes(entries) {
        lines.push(format!("        - to: \"{}\"", policy.to));
        lines.push(format!("          via: \"{}\"", policy.gateway));
        if policy.onlink {
            lines.push("          on-link: true".to_owned());
        }
        lines.push(format!("          table: {table}"));
    }
    lines.push("      routing-policy:".to_owned());
    for Entry { policy, table, priority } in entries {
        lines.push(format!("        - from: \"{}\"", ipnet::IpNet::from(policy.from)));
        lines.push(format!("          to: \"{}\"", policy.to));
        lines.push(format!("          table: {table}"));
        lines.push(format!("          priority: {priority}"));
    }
    lines
}

/// A key that YAML reads as this text: `1e3` or `no` alone would be something else.
fn scalar(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
        && !matches!(
            text.to_ascii_lowercase().as_str(),
            "y" | "n" | "yes" | "no" | "on" | "off" | "true" | "false" | "null"
        );
    // YAML's double-quoted strings are a superset of JSON's.
    if plain { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}
