//! netplan, which writes configuration for networkd or NetworkManager: its generated files carry the id of the
//! definition, and further files must use the same id to add to it (https://netplan.readthedocs.io, "netplan-yaml").

use super::{NetworkManager, Networkd, Tree};
use crate::host::links::{Link, Links};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Netplan {
    /// `ethernets`, `bonds`, `vlans`, …
    pub kind: String,
    /// Name of the definition; the NIC may have another.
    pub id: String,
}

/// The definition that a running manager's configuration was generated from. A definition that several NICs share
/// cannot carry one's routes; then the networkd file generated from it is the thing to start from.
pub(super) fn behind(
    tree: &Tree,
    links: &Links,
    nic: &Link,
    networkd: Option<&Networkd>,
    network_manager: Option<&NetworkManager>,
) -> Option<Netplan> {
    let id = if let Some(networkd) = networkd {
        if networkd.shared.is_some() {
            return None;
        }
        networkd.file.strip_prefix("/run/systemd/network/10-netplan-")?.strip_suffix(".network")?.to_owned()
    } else {
        network_manager?.netplan_id.clone()?
    };
    let found = definitions(tree).into_iter().find(|definition| definition.id == id);
    let kind = found.map_or_else(|| kind_of(links.by_index(nic.index)), |definition| definition.kind);
    Some(Netplan { kind, id })
}

/// The definition that names the NIC, where nothing runs (yet).
pub(super) fn configured(tree: &Tree, nic: &Link) -> Option<Netplan> {
    let mac = nic.mac.map(|mac| mac.map(|byte| format!("{byte:02x}")).join(":"));
    definitions(tree)
        .into_iter()
        .find(|definition| match (&definition.set_name, &definition.match_name, &definition.mac) {
            (Some(name), ..) | (None, Some(name), _) => *name == nic.name,
            (None, None, Some(address)) => mac.as_ref().is_some_and(|mac| mac.eq_ignore_ascii_case(address)),
            (None, None, None) => definition.id == nic.name,
        })
        .map(|definition| Netplan { kind: definition.kind, id: definition.id })
}

fn kind_of(link: Option<&Link>) -> String {
    match link.and_then(|link| link.kind.as_deref()) {
        Some("bond") => "bonds",
        Some("bridge") => "bridges",
        Some("vlan") => "vlans",
        Some("vrf") => "vrfs",
        _ => "ethernets",
    }
    .to_owned()
}

#[derive(Default)]
struct Definition {
    kind: String,
    id: String,
    set_name: Option<String>,
    match_name: Option<String>,
    mac: Option<String>,
}

/// The definitions of all files, as far as block-style YAML tells: cloud-init, subiquity and netplan write no other.
fn definitions(tree: &Tree) -> Vec<Definition> {
    let mut all: Vec<Definition> = Vec::new();
    for folder in ["usr/lib/netplan", "etc/netplan", "run/netplan"] {
        for (_, text) in tree.files(folder, ".yaml") {
            for (path, value) in entries(&text) {
                let [network, kind, id, rest @ ..] = path.as_slice() else { continue };
                if network != "network" {
                    continue;
                }
                let at = all.iter().position(|known| known.kind == *kind && known.id == *id);
                let at = at.unwrap_or_else(|| {
                    all.push(Definition { kind: kind.clone(), id: id.clone(), ..Definition::default() });
                    all.len() - 1
                });
                let Some(definition) = all.get_mut(at) else { continue };
                let value = (!value.is_empty()).then_some(value);
                match rest.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                    ["set-name"] => definition.set_name = value,
                    ["match", "name"] => definition.match_name = value,
                    ["match", "macaddress"] => definition.mac = value,
                    _ => {}
                }
            }
        }
    }
    all
}

/// Every `key: value` with the keys above it, by indentation.
fn entries(text: &str) -> Vec<(Vec<String>, String)> {
    let mut above: Vec<(usize, String)> = Vec::new();
    let mut entries = Vec::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let Some((key, value)) = line.trim().split_once(':') else { continue };
        if key.starts_with(['#', '-']) {
            continue;
        }
        let plain = |text: &str| text.trim().trim_matches(['"', '\'']).to_owned();
        above.retain(|(outer, _)| *outer < indent);
        above.push((indent, plain(key)));
        let value = value.split(" #").next().unwrap_or_default();
        entries.push((above.iter().map(|(_, key)| key.clone()).collect(), plain(value)));
    }
    entries
}
