//! Who manages a NIC's configuration, told from the files that each manager leaves behind. Nothing is asked over D-Bus:
//! an appliance may have none, and the files say the same.

mod cloud;
mod ifupdown;
mod netplan;
mod network_manager;
mod network_scripts;
mod networkd;
mod tree;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use self::tree::Tree;
pub use self::{
    cloud::Writer,
    ifupdown::Ifupdown,
    netplan::Netplan,
    network_manager::NetworkManager,
    networkd::{Networkd, SharedFile},
};
use super::links::{Link, Links};

/// Who manages a NIC, and where its configuration is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manager {
    Netplan(Netplan),
    Networkd(Networkd),
    NetworkManager(NetworkManager),
    Ifupdown(Ifupdown),
    NetworkScripts,
}

/// What was found. The default knows nobody: right for a network namespace, whose NICs no system-wide manager sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managers {
    by_nic: BTreeMap<u32, Manager>,
    /// systemd-networkd runs, whatever it manages: it removes policy rules that it did not make.
    pub networkd_runs: bool,
    /// Others that write network configuration or rules.
    pub writers: Vec<Writer>,
    /// Files of an earlier fix, with their text.
    earlier: BTreeMap<PathBuf, String>,
}

impl Managers {
    /// Reads the files of the running system, unless this thread is in a network namespace of its own: the interface
    /// numbers in those files would mean other devices.
    pub fn of_this_host(links: &Links) -> Self {
        let inode = |path: &str| fs::read_link(path).ok();
        let own = inode("/proc/thread-self/ns/net");
        let first = inode("/proc/1/ns/net");
        // Unreadable without privileges: then it is most likely the same. With them, it is a machine that hides its first
        // process, and what the files are about is not known.
        let hidden = first.is_none() && nix::unistd::geteuid().is_root();
        if hidden || (first.is_some() && own != first) {
            Self::default()
        } else {
            Self::read(Path::new("/"), links)
        }
    }

    /// Reads the files under `root`: `/`, or an image that is being built.
    pub fn read(root: &Path, links: &Links) -> Self {
        let tree = Tree::new(root);
        let nics: Vec<&Link> = links
            .iter()
            .filter(|link| !link.loopback && links.logical_nic(link.index) == link.index)
            .collect();
        let by_nic = nics.iter().filter_map(|nic| Some((nic.index, manager(&tree, links, nic)?))).collect();
        Self {
            by_nic,
            networkd_runs: tree.exists("run/systemd/netif/state"),
            writers: cloud::writers(&tree),
            earlier: earlier(&tree),
        }
    }

    /// Who manages this NIC; `None` when nothing tells.
    pub fn of(&self, nic: u32) -> Option<&Manager> {
        self.by_nic.get(&nic)
    }

    /// `PREFIX.SUFFIX`, or a numbered variant of it if an earlier fix of other content has that name.
    pub fn free_file(&self, prefix: &str, suffix: &str, content: &str) -> String {
        let is_free = |path: &String| {
            self.earlier.get(Path::new(path)).is_none_or(|earlier| earlier.trim() == content.trim())
        };
        let first = format!("{prefix}{suffix}");
        std::iter::once(first.clone())
            .chain((2..100).map(|number| format!("{prefix}-{number}{suffix}")))
            .find(is_free)
            .unwrap_or(first)
    }

    #[cfg(test)]
    pub(crate) fn set(&mut self, nic: u32, manager: Manager) {
        self.by_nic.insert(nic, manager);
    }

    #[cfg(test)]
    pub(crate) fn set_earlier(&mut self, path: &str, content: &str) {
        self.earlier.insert(path.into(), content.to_owned());
    }
}

/// What runs tells more than what is configured; of two configurations the one that renders the other comes first.
fn manager(tree: &Tree, links: &Links, nic: &Link) -> Option<Manager> {
    let networkd = networkd::running(tree, links, nic);
    let network_manager = network_manager::running(tree, nic);
    let netplan = netplan::behind(tree, links, nic, networkd.as_ref(), network_manager.as_ref());
    if let Some(netplan) = netplan {
        return Some(Manager::Netplan(netplan));
    }
    if let Some(networkd) = networkd {
        return Some(Manager::Networkd(networkd));
    }
    if let Some(network_manager) = network_manager {
        return Some(Manager::NetworkManager(network_manager));
    }
    ifupdown::configured(tree, nic)
        .map(Manager::Ifupdown)
        .or_else(|| network_scripts::configured(tree, nic).then_some(Manager::NetworkScripts))
        .or_else(|| network_manager::configured(tree, nic).map(Manager::NetworkManager))
        .or_else(|| netplan::configured(tree, nic).map(Manager::Netplan))
        .or_else(|| networkd::configured(tree, nic).map(Manager::Networkd))
}

/// Everything called nvaprobe where fixes are written.
fn earlier(tree: &Tree) -> BTreeMap<PathBuf, String> {
    let mut folders: Vec<String> =
        ["etc/netplan", "etc/systemd/network", "etc/systemd/networkd.conf.d", "etc/network/interfaces.d"]
            .map(str::to_owned)
            .to_vec();
    let drop_ins = tree.list("etc/systemd/network").into_iter().filter(|name| name.ends_with(".d"));
    folders.extend(drop_ins.map(|name| format!("etc/systemd/network/{name}")));
    let mut files = BTreeMap::new();
    for folder in folders {
        for name in tree.list(&folder).into_iter().filter(|name| name.contains("nvaprobe")) {
            let path = format!("{folder}/{name}");
            if let Some(text) = tree.read(&path) {
                files.insert(PathBuf::from(format!("/{path}")), text);
            }
        }
    }
    files
}

#[cfg(test)]
#[path = "managers_tests.rs"]
mod tests;
