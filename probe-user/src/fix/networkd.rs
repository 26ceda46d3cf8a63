//! Family `systemd-networkd`: a drop-in beside the .network file that holds the NIC, else a file of its own.

use super::{
    Family, PolicyFix, Unfit,
    family::{Entry, assumptions, by_nic, manager, replaced, routes},
    shell::{self, word},
};
use crate::host::{
    Facts,
    managers::{Manager, Networkd, SharedFile},
    routes::net_text,
};

pub(super) const FAMILY: Family = Family {
    name: "systemd-networkd",
    persistent: true,
    manages: |manager| matches!(manager, Manager::Networkd(_)),
    policies: text,
};

/// Comes before every file that distributions, netplan and administrators number.
const FIRST: &str = "00-nvaprobe";
/// Comes after them.
const LAST: &str = "90-nvaprobe";

fn text(policies: &[PolicyFix], facts: &Facts) -> Result<String, Unfit> {
    let mut lines = vec!["# Persistent: systemd-networkd makes and keeps what its own files say.".to_owned()];
    lines.extend(assumptions(policies));
    lines.extend(replaced(policies));
    let nics = by_nic(policies)?;
    for (nic, entries) in &nics {
        lines.extend(file(nic, &sections(entries), facts)?);
    }
    lines.push("networkctl reload".to_owned());
    let names: Vec<String> = nics.iter().map(|(nic, _)| word(nic)).collect();
    lines.push(format!("networkctl reconfigure {}", names.join(" ")));
    Ok(lines.join("\n"))
}

fn file(nic: &str, sections: &str, facts: &Facts) -> Result<Vec<String>, Unfit> {
    let base = match manager(facts, nic) {
        Some(Manager::Networkd(networkd)) => Some(networkd.clone()),
        // netplan's own files are in /run; a drop-in in /etc holds for them all the same.
        Some(Manager::Netplan(netplan)) => Some(Networkd {
            file: format!("/run/systemd/network/10-netplan-{}.network", netplan.id),
            shared: None,
        }),
        _ => None,
    };
    match base {
        Some(Networkd { file, shared: None }) => {
            let name = file.rsplit('/').next().unwrap_or(&file);
            Ok(drop_in(name, sections, facts))
        }
        Some(Networkd { file, shared: Some(shared) }) => copy(nic, &file, &shared, sections),
        None => Ok(own(nic, sections)),
    }
}

/// Lines that add to the .network file of this name.
pub(super) fn drop_in(name: &str, sections: &str, facts: &Facts) -> Vec<String> {
    let folder = format!("/etc/systemd/network/{name}.d");
    let file = facts.managers.free_file(&format!("{folder}/nvaprobe"), ".conf", sections);
    let mut lines = vec![format!("mkdir -p {}", word(&folder))];
    lines.extend(shell::write(&file, sections));
    lines
}

/// The NIC's part of a file for several NICs: routes of one do not belong to the others, where they fail.
fn copy(nic: &str, file: &str, shared: &SharedFile, sections: &str) -> Result<Vec<String>, Unfit> {
    let name = file.rsplit('/').next().unwrap_or(file);
    let path = format!("{FIRST}-{nic}.network");
    // networkd takes the first file by name that matches (systemd.network(5)).
    if *name <= *path {
        return Err(Unfit(format!("{file} holds for several NICs and comes before every other file")));
    }
    let mut lines = vec![
        format!("# {file}"),
        format!("# holds for {}, too: this copy is for {nic} alone, first by name.", shared.with.join(", ")),
        "# Settings of that file's drop-ins, if it has any, are to be copied by hand.".to_owned(),
    ];
    let content = format!("[Match]\nName={nic}\n\n{}\n{sections}", without_match(&shared.text));
    lines.extend(shell::write(&format!("/etc/systemd/network/{path}"), &content));
    Ok(lines)
}

/// The text without its [Match] section and comments.
fn without_match(text: &str) -> String {
    let mut kept = String::new();
    let mut in_match = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            in_match = line == "[Match]";
        }
        if !in_match && !line.is_empty() && !line.starts_with(['#', ';']) {
            if line.starts_with('[') && !kept.is_empty() {
                kept.push('\n');
            }
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// A file for a NIC that no file of networkd holds so far. Whatever the NIC has, stays.
fn own(nic: &str, sections: &str) -> Vec<String> {
    let mut lines = vec![
        format!("# No file of networkd is known for {nic}. This one leaves its addresses and routes"),
        "# alone, and comes last: if a file holds the NIC, put the sections there instead.".to_owned(),
    ];
    // Link-local addresses and router advertisements stay as they are by default.
    let content = format!("[Match]\nName={nic}\n\n[Network]\nKeepConfiguration=yes\n\n{sections}");
    lines.extend(shell::write(&format!("/etc/systemd/network/{LAST}-{nic}.network"), &content));
    lines
}

fn sections(entries: &[Entry<'_>]) -> String {
    let mut sections = Vec::new();
    for Entry { policy, table, .. } in routes(entries) {
        let onlink = if policy.onlink { "GatewayOnLink=yes\n" } else { "" };
        sections.push(format!(
            "[Route]\nDestination={}\nGateway={}\n{onlink}Table={table}\n",
            net_text(&policy.to),
            policy.gateway
        ));
    }
    for Entry { policy, table, priority } in entries {
        sections.push(format!(
            "[RoutingPolicyRule]\nFrom={}\nTo={}\nTable={table}\nPriority={priority}\n",
            policy.from,
            net_text(&policy.to)
        ));
    }
    sections.join("\n")
}

/// Lines that make networkd leave alone what others made.
pub(super) fn keep_foreign() -> Vec<String> {
    let mut lines = vec!["mkdir -p /etc/systemd/networkd.conf.d".to_owned()];
    lines.extend(shell::write(
        "/etc/systemd/networkd.conf.d/nvaprobe.conf",
        "[Network]\nManageForeignRoutingPolicyRules=no\nManageForeignRoutes=no\n",
    ));
    lines
}
