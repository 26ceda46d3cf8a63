//! systemd-networkd: /run/systemd/netif/links/IFINDEX names the .network file that it applies to a link
//! (src/network/networkd-state-file.c).

use super::{Tree, tree::value};
use crate::host::links::{Link, Links};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Networkd {
    /// The .network file that is applied.
    pub file: String,
    /// Set when the file is applied to other NICs too: settings for one of them do not belong there.
    pub shared: Option<SharedFile>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedFile {
    /// The other NICs.
    pub with: Vec<String>,
    /// Its text, for a copy that is for one NIC.
    pub text: String,
}

/// The file that a running networkd applies; `None` when it leaves the NIC alone.
pub(super) fn running(tree: &Tree, links: &Links, nic: &Link) -> Option<Networkd> {
    let file = state_file(tree, nic.index)?;
    let with: Vec<String> = links
        .iter()
        .filter(|other| other.index != nic.index && links.logical_nic(other.index) != nic.index)
        .filter(|other| state_file(tree, other.index).is_some_and(|other| other == file))
        .map(|other| other.name.clone())
        .collect();
    let text = (!with.is_empty()).then(|| tree.read(&file)).flatten();
    Some(Networkd { shared: text.map(|text| SharedFile { with, text }), file })
}

/// The first file by name whose [Match] names the NIC, as networkd would choose; only plain names are understood.
pub(super) fn configured(tree: &Tree, nic: &Link) -> Option<Networkd> {
    let mut found: Option<(String, String)> = None;
    for folder in ["etc/systemd/network", "run/systemd/network", "usr/lib/systemd/network"] {
        for (path, text) in tree.files(folder, ".network") {
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            let names = value(&text, "Name").unwrap_or_default();
            let matches = names.split_whitespace().any(|pattern| pattern == nic.name);
            if matches && found.as_ref().is_none_or(|(earlier, _)| name < *earlier) {
                found = Some((name, format!("/{path}")));
            }
        }
    }
    found.map(|(_, file)| Networkd { file, shared: None })
}

fn state_file(tree: &Tree, ifindex: u32) -> Option<String> {
    let state = tree.read(&format!("run/systemd/netif/links/{ifindex}"))?;
    value(&state, "NETWORK_FILE").filter(|file| file.starts_with('/')).map(str::to_owned)
}
