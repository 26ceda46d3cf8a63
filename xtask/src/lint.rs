//! `cargo xtask lint`: format, clippy, and rules that no tool of others checks.

use std::{fs, process::Command};

use anyhow::{Context, bail};

use crate::{
    paths,
    run::{cargo, output, run as execute},
};

/// No file is longer.
const LONGEST: usize = 700;

pub(crate) fn run() -> anyhow::Result<()> {
    format_and_clippy()?;
    own_rules()
}

/// What `cargo xtask test` checks, too.
pub(crate) fn format_and_clippy() -> anyhow::Result<()> {
    execute(cargo().args(["fmt", "--all", "--", "--check"]))?;
    execute(cargo().args([
        "clippy",
        "--workspace",
        "--exclude",
        "probe-ebpf",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]))
}

/// File lengths, inherited lints, and nothing about one machine.
pub(crate) fn own_rules() -> anyhow::Result<()> {
    let listed = output(Command::new("git").current_dir(paths::workspace()).args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))
    .context("git ls-files failed: lint needs a git checkout")?;
    let mut faults = Vec::new();
    for name in listed.lines() {
        let Ok(text) = fs::read_to_string(paths::workspace().join(name)) else { continue };
        faults.extend(faults_of(name, &text));
    }
    if faults.is_empty() {
        return Ok(());
    }
    bail!("{}", faults.join("\n"));
}

fn faults_of(name: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let lines = text.lines().count();
    if name.ends_with(".rs") && lines > LONGEST {
        faults.push(format!("{name}: {lines} lines, at most {LONGEST}"));
    }
    if name.ends_with("/Cargo.toml") && !text.contains("[lints]\nworkspace = true") {
        faults.push(format!("{name}: does not inherit the workspace's lints"));
    }
    if name.ends_with(".rs") && text.contains(concat!("#[al", "low(")) {
        faults.push(format!("{name}: #[expect(…, reason = \"…\")] instead of allow"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_finds_its_fault() {
        assert_eq!(faults_of("a.rs", &"x\n".repeat(LONGEST)).len(), 0);
        assert_eq!(faults_of("a.rs", &"x\n".repeat(LONGEST + 1)).len(), 1);
        assert_eq!(faults_of("a/Cargo.toml", "[package]").len(), 1);
        assert_eq!(faults_of("a/Cargo.toml", "[lints]\nworkspace = true\n").len(), 0);
        assert_eq!(faults_of("a.rs", concat!("#[al", "low(x)]")).len(), 1);
    }
}
