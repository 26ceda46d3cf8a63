//! `cargo xtask setup`: quick when nothing is missing, and it says what it installs.

use std::{path::Path, process::Command};

use anyhow::{Context, bail};

use crate::{
    paths,
    run::{self, is_root, output},
    toolchain::{self, LINKER_VERSION, Missing},
};

/// Debian packages, each with what it is for. `rustc-web` is in bookworm-security (and in bullseye's and trixie's).
const PACKAGES: [(&str, &str); 7] = [
    ("rustc-web", "a rustc that writes LLVM 22 bitcode for BPF"),
    ("libstd-rust-web-dev-bpf", "core, prebuilt for bpfel-unknown-none"),
    ("llvm-22-dev", "what bpf-linker is built on"),
    ("g++", "links bpf-linker to LLVM's C++ libraries"),
    ("zlib1g-dev", "a library of LLVM's"),
    ("libzstd-dev", "a library of LLVM's"),
    ("iproute2", "the tests list namespaces, filters and qdiscs with it"),
];

const ELSEWHERE: &str = "\
This is not a Debian where xtask can install packages. What is needed:
  rustup toolchain install nightly --component rust-src
  cargo install bpf-linker
  and the ip and tc commands (iproute2) for the tests.
`cargo xtask build` finds them by itself.";

pub(crate) fn run() -> anyhow::Result<()> {
    let packages = missing_packages();
    let missing = toolchain::find().err();
    if missing.is_none() && packages.is_empty() {
        println!("setup: nothing is missing");
        return Ok(());
    }
    if !Path::new("/usr/bin/apt-get").exists() {
        if missing.is_none() {
            println!("setup: the BPF toolchain is there; packages are left to you");
            return Ok(());
        }
        bail!("{ELSEWHERE}");
    }
    if !packages.is_empty() {
        install(&packages)?;
    }
    match toolchain::find().err() {
        Some(Missing { linker: true, .. }) => build_linker()?,
        Some(Missing { compiler: true, .. }) => bail!(
            "rustc-web and libstd-rust-web-dev-bpf are installed, but no rustc with bpfel-unknown-none is found.\n{ELSEWHERE}"
        ),
        _ => {}
    }
    toolchain::find()
        .map(|_| println!("setup: done"))
        .map_err(|missing| anyhow::anyhow!("setup ended, and this is still missing: {missing:?}"))
}

fn missing_packages() -> Vec<(&'static str, &'static str)> {
    let Some(status) =
        output(Command::new("dpkg-query").args(["-W", "-f", "${db:Status-Abbrev} ${Package}\n"]))
    else {
        return Vec::new();
    };
    missing_from(&status)
}

fn missing_from(status: &str) -> Vec<(&'static str, &'static str)> {
    let installed: std::collections::BTreeSet<&str> =
        status.lines().filter_map(|line| line.strip_prefix("ii")).map(str::trim).collect();
    PACKAGES.into_iter().filter(|(package, _)| !installed.contains(package)).collect()
}

fn install(packages: &[(&str, &str)]) -> anyhow::Result<()> {
    let names: Vec<&str> = packages.iter().map(|(name, _)| *name).collect();
    println!("setup: installing Debian packages");
    for (name, reason) in packages {
        println!("  {name}: {reason}");
    }
    if !is_root() {
        bail!(
            "not root; run:\n  sudo apt-get update\n  sudo apt-get install --no-install-recommends {}",
            names.join(" ")
        );
    }
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(["-q", "-y"]);
        command
    };
    run::run(apt().arg("update"))?;
    run::run(apt().args(["install", "--no-install-recommends"]).args(&names)).context(
        "apt-get could not install the packages; is bookworm-security (or your release's) in its sources?",
    )
}

fn build_linker() -> anyhow::Result<()> {
    println!(
        "setup: building bpf-linker {LINKER_VERSION} into {} (about a minute)",
        paths::tools().display()
    );
    let llvm = "/usr/lib/llvm-22";
    let path = std::env::var("PATH").unwrap_or_default();
    run::run(
        run::cargo()
            .env("LLVM_SYS_221_PREFIX", llvm)
            .env("PATH", format!("{llvm}/bin:{path}"))
            .args(["install", "bpf-linker", "--version", LINKER_VERSION, "--quiet"])
            // The linker must read the LLVM that the compiler writes: 22 for rustc 1.95 and 1.96.
            .args(["--no-default-features", "--features", "llvm-22", "--root"])
            .arg(paths::tools()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_installed_is_asked_for() {
        let all: String = PACKAGES.iter().map(|(name, _)| format!("ii  {name}\n")).collect();
        assert!(missing_from(&all).is_empty());
        let removed = all.replace("ii  g++", "rc  g++");
        assert_eq!(missing_from(&removed).iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["g++"]);
        assert_eq!(missing_from("").len(), PACKAGES.len());
    }
}
