//! `cargo xtask bench`: what a packet costs.

use anyhow::bail;

use crate::{
    build,
    run::{cargo, is_root, run as execute},
    setup,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Passed on to the benchmark
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if !is_root() {
        bail!("the benchmark loads BPF programs: run it as root");
    }
    setup::run()?;
    build::object()?;
    execute(
        cargo()
            .args([
                "run",
                "--quiet",
                "--release",
                "--package",
                "nvaprobe-tests",
                "--bin",
                "nvaprobe-bench",
                "--",
            ])
            .args(&args.rest),
    )
}
