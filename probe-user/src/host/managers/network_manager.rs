//! NetworkManager: /run/NetworkManager/devices/IFINDEX says whether it manages a device, and by which connection
//! (src/core/nm-config.c, `nm_config_device_state_write`).

use super::{Tree, tree::value};
use crate::host::links::Link;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkManager {
    /// UUID of the connection that holds the NIC; `None` where only its file names the NIC.
    pub uuid: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// The netplan definition that the connection was made from.
    pub netplan_id: Option<String>,
}

pub(super) fn running(tree: &Tree, nic: &Link) -> Option<NetworkManager> {
    let state = tree.read(&format!("run/NetworkManager/devices/{}", nic.index))?;
    if value(&state, "managed") != Some("true") {
        return None;
    }
    let uuid = value(&state, "connection-uuid")?.to_owned();
    let file = profiles(tree).into_iter().find(|(_, text)| value(text, "uuid") == Some(&uuid));
    let netplan_id = file.as_ref().and_then(|(path, _)| {
        let name = path.strip_prefix("run/NetworkManager/system-connections/netplan-")?;
        // For a wireless network the name goes on with the SSID; an appliance has none.
        Some(name.strip_suffix(".nmconnection")?.to_owned())
    });
    let name = file.and_then(|(_, text)| value(&text, "id").map(str::to_owned));
    Some(NetworkManager { uuid: Some(uuid), name, netplan_id })
}

/// A connection profile for this NIC, or (on RHEL) an ifcfg file that NetworkManager reads.
pub(super) fn configured(tree: &Tree, nic: &Link) -> Option<NetworkManager> {
    let own = profiles(tree).into_iter().find(|(_, text)| value(text, "interface-name") == Some(&nic.name));
    if let Some((_, text)) = own {
        let owned = |key| value(&text, key).map(str::to_owned);
        return Some(NetworkManager { uuid: owned("uuid"), name: owned("id"), netplan_id: None });
    }
    let ifcfg = tree.read(&format!("etc/sysconfig/network-scripts/ifcfg-{}", nic.name))?;
    Some(NetworkManager { uuid: value(&ifcfg, "UUID").map(str::to_owned), name: None, netplan_id: None })
}

fn profiles(tree: &Tree) -> Vec<(String, String)> {
    ["etc/NetworkManager/system-connections", "run/NetworkManager/system-connections"]
        .iter()
        .flat_map(|folder| tree.files(folder, ".nmconnection"))
        .collect()
}
