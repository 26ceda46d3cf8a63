//! The network-scripts of RHEL 7 and 8: an ifcfg file that NetworkManager does not read.

use super::{Tree, tree::value};
use crate::host::links::Link;

pub(super) fn configured(tree: &Tree, nic: &Link) -> bool {
    let Some(ifcfg) = tree.read(&format!("etc/sysconfig/network-scripts/ifcfg-{}", nic.name)) else {
        return false;
    };
    let told_off = value(&ifcfg, "NM_CONTROLLED").is_some_and(|yes| yes.eq_ignore_ascii_case("no"));
    told_off || !tree.exists("usr/sbin/NetworkManager")
}
