//! What apt provides on Debian, and how to ask for it.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context as _, Result};

use crate::workspace::{in_path, run};

/// A package and why it is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) reason: &'static str,
}

impl Package {
    fn new(name: &str, reason: &'static str) -> Self {
        Self { name: name.to_owned(), reason }
    }
}

/// Programs that the tests start, the package that brings each, and what it is for. A C linker is not among
/// them: without one, this program could not have been compiled.
const TOOLS: [(&str, &str, &str); 6] = [
    ("ip", "iproute2", "`ip` and `tc`, to compare what is there before and after a test"),
    ("nft", "nftables", "firewalls of the tests' namespaces"),
    ("iptables-legacy", "iptables", "both kinds of `iptables`, for the same"),
    ("netplan", "netplan.io", "netplan and systemd-networkd, which read the fixes that are printed for them"),
    ("tcpdump", "tcpdump", "captures that are replayed"),
    ("tshark", "tshark", "a second opinion on captures, and `dumpcap`"),
];

/// The LLVM of Debian's rustc, until it is installed and can be asked.
pub(crate) const LLVM: u32 = 22;

/// Packages of the tools that are not in PATH.
pub(crate) fn missing_tools() -> Vec<Package> {
    let missing = TOOLS.iter().filter(|(program, ..)| in_path(program).is_none());
    missing.map(|(_, package, reason)| Package::new(package, reason)).collect()
}

/// A rustc with a prebuilt `core` for BPF; both come with Debian's security updates.
pub(crate) fn rustc() -> [Package; 2] {
    [
        Package::new("rustc-web", "a rustc that compiles for BPF"),
        Package::new("libstd-rust-web-dev-bpf", "its `core` for BPF"),
    ]
}

/// Clippy of that rustc: no other can read its `core`.
pub(crate) fn clippy() -> Package {
    Package::new("rust-web-clippy", "clippy for the BPF programs")
}

/// What bpf-linker is built with. The libraries behind LLVM (zlib, zstd, libxml2, …) come as its dependencies,
/// and need no headers.
pub(crate) fn llvm(major: u32) -> Package {
    Package::new(&format!("llvm-{major}-dev"), "what bpf-linker is built on")
}

/// Debian's folder of one LLVM.
pub(crate) fn llvm_folder(major: u32) -> PathBuf {
    PathBuf::from(format!("/usr/lib/llvm-{major}"))
}

/// Whether this is a Debian whose security updates carry those packages.
pub(crate) fn is_supported() -> bool {
    in_path("apt-get").is_some()
        && fs::read_to_string("/etc/os-release").is_ok_and(|text| is_supported_release(&text))
}

fn is_supported_release(os_release: &str) -> bool {
    let field = |name: &str| {
        let value = os_release.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        value.map(|value| value.trim_matches('"'))
    };
    field("ID") == Some("debian") && field("VERSION_ID").is_some_and(|id| matches!(id, "11" | "12" | "13"))
}

/// The commands that install these packages.
pub(crate) fn commands(packages: &[Package]) -> [Vec<&str>; 2] {
    // Nothing is removed: rustc-web conflicts with Debian's own rustc and rustup, and which of them goes is
    // not for a build to decide.
    let mut install = vec!["apt-get", "install", "-y", "--no-install-recommends", "--no-remove"];
    install.extend(packages.iter().map(|package| package.name.as_str()));
    [vec!["apt-get", "update"], install]
}

pub(crate) fn install(packages: &[Package]) -> Result<()> {
    eprintln!("setup: installing with apt-get");
    for package in packages {
        eprintln!("  {}: {}", package.name, package.reason);
    }
    for command in commands(packages) {
        let (program, arguments) = command.split_first().context("an empty command")?;
        let mut apt = Command::new(program);
        apt.args(["-qq", "-o", "DPkg::Lock::Timeout=120", "-o", "Dpkg::Use-Pty=0"])
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive");
        run(&mut apt).context(
            "apt could not install what is missing: it needs Debian's security updates among its sources, and \
             rustc-web cannot stand beside Debian's own packages of rustc and rustup",
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_debian_releases_are_supported() {
        assert!(is_supported_release("NAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\nID=debian\n"));
        assert!(is_supported_release("ID=debian\nVERSION_ID=13\n"));
        assert!(!is_supported_release("ID=debian\nVERSION_ID=\"10\"\n"));
        assert!(!is_supported_release("PRETTY_NAME=\"Debian GNU/Linux forky/sid\"\nID=debian\n"));
        assert!(!is_supported_release("ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"12\"\n"));
    }

    #[test]
    fn installing_never_removes_a_package() {
        let packages = [llvm(23)];
        let [update, install] = commands(&packages);
        assert_eq!(update.join(" "), "apt-get update");
        assert_eq!(install.join(" "), "apt-get install -y --no-install-recommends --no-remove llvm-23-dev");
    }
}
