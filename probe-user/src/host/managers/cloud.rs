//! What else writes network configuration on a cloud VM.

use super::Tree;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Writer {
    /// cloud-init renders the network configuration.
    CloudInit,
    /// Adds rules and tables of its own to NetworkManager's connections (RHEL, Alma, Rocky).
    NmCloudSetup,
    /// The same on SUSE.
    CloudNetconfig,
    /// Names and hides VFs; writes no rules.
    AzureVmUtils,
}

impl Writer {
    pub const fn name(self) -> &'static str {
        match self {
            Self::CloudInit => "cloud-init",
            Self::NmCloudSetup => "nm-cloud-setup",
            Self::CloudNetconfig => "cloud-netconfig",
            Self::AzureVmUtils => "azure-vm-utils",
        }
    }
}

pub(super) fn writers(tree: &Tree) -> Vec<Writer> {
    let any = |paths: &[&str]| paths.iter().any(|path| tree.exists(path));
    let mut writers = Vec::new();
    if cloud_init(tree) {
        writers.push(Writer::CloudInit);
    }
    // Enabled, not merely installed.
    if any(&[
        "etc/systemd/system/timers.target.wants/nm-cloud-setup.timer",
        "etc/systemd/system/multi-user.target.wants/nm-cloud-setup.service",
        "etc/systemd/system/NetworkManager.service.wants/nm-cloud-setup.service",
    ]) {
        writers.push(Writer::NmCloudSetup);
    }
    if any(&[
        "etc/systemd/system/timers.target.wants/cloud-netconfig.timer",
        "usr/lib/NetworkManager/dispatcher.d/90-cloud-netconfig",
        "etc/netconfig.d/cloud-netconfig",
    ]) {
        writers.push(Writer::CloudNetconfig);
    }
    if any(&[
        "usr/lib/udev/rules.d/80-azure-disk.rules",
        "usr/lib/udev/rules.d/10-azure-unmanaged-sriov.rules",
    ]) {
        writers.push(Writer::AzureVmUtils);
    }
    writers
}

/// cloud-init is there, not switched off, and its network part is not disabled (cloud-init's documentation, "Disabling
/// network configuration").
fn cloud_init(tree: &Tree) -> bool {
    let installed = tree.exists("etc/cloud/cloud.cfg") && !tree.exists("etc/cloud/cloud-init.disabled");
    let disabled = tree.files("etc/cloud/cloud.cfg.d", ".cfg").into_iter().any(|(_, text)| {
        let text: String = text
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'))
            .flat_map(|line| line.chars().filter(|c| !c.is_whitespace()))
            .collect();
        text.contains("network:{config:disabled}") || text.contains("network:config:disabled")
    });
    installed && !disabled
}
