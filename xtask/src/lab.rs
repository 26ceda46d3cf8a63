//! `cargo xtask lab`: from a fresh clone to a fault reproduced, judged and fixed.

use std::{ffi::OsString, os::unix::process::CommandExt as _, process::Command};

use anyhow::{Context as _, Result, bail};

use crate::{
    build, setup,
    workspace::{Workspace, is_root, run},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Scenario and options of `nvaprobe lab`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

pub(crate) fn run_command(workspace: &Workspace, options: &Options) -> Result<()> {
    let nvaprobe = workspace.nvaprobe();
    if !is_root() {
        bail!(
            "the lab needs root, for network namespaces and BPF: run this as root, or `cargo xtask build` and \
             then `sudo {} lab`",
            workspace.shown(&nvaprobe)
        );
    }
    setup::ensure(workspace)?;
    build::bpf(workspace)?;
    // Only the one binary, unoptimised: a newcomer waits half as long, and a lab's traffic is a trickle.
    run(workspace.cargo().args(["build", "--package", "probe-user", "--bin", "nvaprobe"]))?;

    // Replaces this process, so that the terminal, its signals and the exit code are nvaprobe's own.
    let error = Command::new(&nvaprobe).arg("lab").args(&options.arguments).exec();
    Err(error).with_context(|| format!("cannot run {}", nvaprobe.display()))
}
