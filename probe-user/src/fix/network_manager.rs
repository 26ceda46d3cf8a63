//! Family `networkmanager`: routes and rules of the connection that holds the NIC (nmcli(1), nm-settings-nmcli(5);
//! routing-rules since NetworkManager 1.18).

use super::{
    Family, PolicyFix, Unfit,
    family::{Entry, assumptions, by_nic, keep_from_networkd, manager, replaced, routes},
    shell::word,
};
use crate::host::{
    Facts,
    managers::{Manager, NetworkManager, Writer},
};

pub(super) const FAMILY: Family = Family {
    name: "networkmanager",
    persistent: true,
    manages: |manager| matches!(manager, Manager::NetworkManager(_)),
    policies: text,
};

fn text(policies: &[PolicyFix], facts: &Facts) -> Result<String, Unfit> {
    let mut lines = vec![
        "# Persistent: NetworkManager stores it in the connection and makes it with each activation."
            .to_owned(),
    ];
    lines.extend(assumptions(policies));
    lines.extend(replaced(policies));
    for writer in &facts.managers.writers {
        if matches!(writer, Writer::NmCloudSetup | Writer::CloudNetconfig) {
            lines.push(format!(
                "# {} is active and may add rules of its own: look at 'ip rule' first.",
                writer.name()
            ));
        }
    }
    lines.extend(keep_from_networkd(facts));
    for (nic, entries) in by_nic(policies)? {
        lines.extend(connection(facts, &nic));
        for (ipv6, family) in [(false, "ipv4"), (true, "ipv6")] {
            let of_family: Vec<Entry<'_>> =
                entries.iter().filter(|entry| entry.policy.from.is_ipv6() == ipv6).copied().collect();
            for entry in routes(&of_family) {
                lines.push(format!(
                    "nmcli connection modify \"$connection\" +{family}.routes '{}'",
                    route(&entry)
                ));
            }
            for entry in &of_family {
                lines.push(format!(
                    "nmcli connection modify \"$connection\" +{family}.routing-rules '{}'",
                    rule(entry)
                ));
            }
        }
        // Reapplying does not take the NIC down.
        lines.push(format!("nmcli device reapply {} || nmcli connection up \"$connection\"", word(&nic)));
    }
    Ok(lines.join("\n"))
}

/// Lines that name the connection, by its UUID: names may occur twice.
fn connection(facts: &Facts, nic: &str) -> Vec<String> {
    let nic = word(nic);
    let Some(Manager::NetworkManager(NetworkManager { uuid: Some(uuid), name, .. })) = manager(facts, &nic)
    else {
        return vec![format!("connection=$(nmcli -g GENERAL.CON-UUID device show {nic})")];
    };
    let printable = name.as_ref().filter(|name| !name.contains(char::is_control));
    let called = printable.map(|name| format!("# {nic} is held by the connection '{name}'."));
    called.into_iter().chain([format!("connection={}", word(uuid))]).collect()
}

fn route(entry: &Entry<'_>) -> String {
    let Entry { policy, table, .. } = entry;
    let onlink = if policy.onlink { " onlink=true" } else { "" };
    format!("{} {} table={table}{onlink}", policy.to, policy.gateway)
}

fn rule(entry: &Entry<'_>) -> String {
    let Entry { policy, table, priority } = entry;
    format!("priority {priority} from {} to {} table {table}", policy.from, policy.to)
}
