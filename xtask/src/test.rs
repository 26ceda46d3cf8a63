//! `cargo xtask test`: the whole suite.

use anyhow::bail;

use crate::{
    build, lint,
    run::{cargo, is_root, run as execute},
    setup,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Passed on to `cargo test`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    // Before the long part: a test that cannot run must fail, not be left out.
    if !is_root() {
        bail!("the tests make network namespaces and load BPF programs: run them as root");
    }
    setup::run()?;
    lint::run()?;
    build::run(&build::Args::default())?;
    // The namespace tests mostly wait for probes: more of them than processors may wait at once.
    execute(
        cargo()
            .env("RUST_TEST_THREADS", "6")
            .args(["test", "--workspace", "--exclude", "probe-ebpf"])
            .args(&args.rest),
    )
}
