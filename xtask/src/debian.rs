//! What apt provides on Debian, and how to ask for it.

use std::{fs, process::Command};

use anyhow::{Context as _, Result};

use crate::workspace::{in_path, run};

/// rustc 1.96 and a prebuilt `core` for BPF; both come with Debian's security updates.
pub(crate) const RUSTC: [&str; 2] = ["rustc-web", "libstd-rust-web-dev-bpf"];

/// The LLVM of that rustc, until it is installed and can be asked.
pub(crate) const LLVM: u32 = 22;

/// A program that must be in PATH, the package that brings it, and why it is needed.
pub(crate) struct Tool {
    pub(crate) program: &'static str,
    pub(crate) package: &'static str,
    pub(crate) reason: &'static str,
}

/// The whole list. A C linker is not in it: without one, this program could not have been compiled.
pub(crate) const TOOLS: [Tool; 2] = [
    Tool { program: "ip", package: "iproute2", reason: "tests compare its listings before and after" },
    Tool { program: "tc", package: "iproute2", reason: "tests set and list foreign filters with it" },
];

/// Packages that programs missing here come in, each once.
pub(crate) fn packages_of_missing_tools() -> Vec<&'static str> {
    let mut packages = Vec::new();
    for tool in TOOLS.iter().filter(|tool| in_path(tool.program).is_none()) {
        if !packages.contains(&tool.package) {
            packages.push(tool.package);
        }
    }
    packages
}

/// What bpf-linker is built with: headers, llvm-config and the shared library. The libraries behind that one
/// (zlib, zstd, libxml2, …) come as its dependencies, and need no headers.
pub(crate) fn linker_package(llvm: u32) -> String {
    format!("llvm-{llvm}-dev")
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

/// The commands that install these packages, as arguments.
pub(crate) fn commands(packages: &[String]) -> [Vec<String>; 2] {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    // Nothing is removed: rustc-web conflicts with Debian's own rustc and rustup, and which of them goes is
    // not for a build to decide.
    let mut install = words(&["apt-get", "install", "-y", "--no-install-recommends", "--no-remove"]);
    install.extend_from_slice(packages);
    [words(&["apt-get", "update"]), install]
}

pub(crate) fn install(packages: &[String]) -> Result<()> {
    eprintln!("setup: installing {} with apt-get", packages.join(" "));
    for command in commands(packages) {
        let (program, arguments) = command.split_first().context("an empty command")?;
        run(Command::new(program)
            .args(["-qq", "-o", "DPkg::Lock::Timeout=120"])
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive"))
        .with_context(|| {
            format!(
                "apt could not install {}; they need Debian's security updates in its sources, and cannot \
                     stand beside Debian's own rustc and rustup packages",
                packages.join(" ")
            )
        })?;
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
        let [update, install] = commands(&["rustc-web".to_owned()]);
        assert_eq!(update.join(" "), "apt-get update");
        assert_eq!(install.join(" "), "apt-get install -y --no-install-recommends --no-remove rustc-web");
    }
}
