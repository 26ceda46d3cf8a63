//! `cargo xtask lab`: from a fresh clone to the fault, its cause and its fix.

use std::{os::unix::process::CommandExt, process::Command};

use anyhow::bail;

use crate::{build, run, setup};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Passed on to `nvaprobe lab`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if !run::is_root() {
        bail!(
            "the lab makes network namespaces and loads BPF programs: run it as root (sudo -E cargo xtask lab)"
        );
    }
    setup::run()?;
    // Unoptimised: it builds in half the time, and the lab's pace is the probes'.
    let binary = build::run(&build::Args::default())?;
    println!();
    // In our place, so that the terminal and its signals are the lab's own.
    Err(Command::new(binary).arg("lab").args(&args.rest).exec().into())
}
