//! `cargo xtask bench`: nanoseconds per packet of each BPF program, and the speed of a replay beside tshark's.

use std::ffi::OsString;

use anyhow::{Result, bail};

use crate::{
    build, setup,
    workspace::{Workspace, is_root, run},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Measure one of them alone
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// Options of the bench of the BPF programs
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Nanoseconds per packet of each BPF program
    Programs,
    /// A replay of a capture of 500 MB, which is made once, against tshark
    Replay,
}

pub(crate) fn run_command(workspace: &Workspace, options: &Options) -> Result<()> {
    setup::ensure(workspace)?;
    if options.only != Some(Part::Replay) {
        programs(workspace, options)?;
    }
    if options.only != Some(Part::Programs) {
        replay(workspace)?;
    }
    Ok(())
}

fn programs(workspace: &Workspace, options: &Options) -> Result<()> {
    if !is_root() {
        bail!("this bench loads BPF programs into the kernel, which needs root (--only replay does not)");
    }
    build::bpf(workspace)?;
    run(workspace
        .cargo()
        .args(["run", "--release", "--package", "nvaprobe-tests", "--bin", "nvaprobe-bench", "--"])
        .args(&options.arguments))
}

fn replay(workspace: &Workspace) -> Result<()> {
    run(workspace.cargo().args(["build", "--release", "--package", "probe-user", "--bin", "nvaprobe"]))?;
    run(workspace
        .cargo()
        .args(["run", "--release", "--package", "nvaprobe-tests", "--bin", "nvaprobe-bench-replay", "--"])
        .arg(workspace.target.join("release/nvaprobe"))
        .arg(workspace.target.join("bench")))
}
