//! `cargo xtask bench`: nanoseconds per packet of each BPF program.

use std::ffi::OsString;

use anyhow::{Result, bail};

use crate::{
    build, setup,
    workspace::{Workspace, is_root, run},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Options of the bench
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

pub(crate) fn run_command(workspace: &Workspace, options: &Options) -> Result<()> {
    if !is_root() {
        bail!("the bench loads BPF programs into the kernel, which needs root");
    }
    setup::ensure(workspace)?;
    build::bpf(workspace)?;
    run(workspace
        .cargo()
        .args(["run", "--release", "--package", "nvaprobe-tests", "--bin", "nvaprobe-bench", "--"])
        .args(&options.arguments))
}
