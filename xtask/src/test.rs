//! `cargo xtask test`: the whole suite, as continuous integration runs it.

use std::{env, ffi::OsString};

use anyhow::{Result, bail};

use crate::{
    build, lint, setup,
    workspace::{Workspace, is_root, run},
};

const THREADS: &str = "RUST_TEST_THREADS";

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Leave out every test that needs root or the BPF programs. Not the whole suite
    #[arg(long)]
    fast: bool,
    /// Options of `cargo test`, for example a filter, or `-- --nocapture`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

pub(crate) fn run_command(workspace: &Workspace, options: &Options) -> Result<()> {
    if options.fast {
        eprintln!("test: --fast LEAVES OUT the namespace, BPF and command-line tests");
        lint::run_command(workspace)?;
        return run(workspace.cargo().args(arguments(options)));
    }
    // Never a silent skip: a suite without its namespace tests proves little.
    if !is_root() {
        bail!(
            "the tests build network namespaces and load BPF programs: run them as root, or leave those out with --fast"
        );
    }
    setup::ensure(workspace)?;
    lint::run_command(workspace)?;
    build::bpf(workspace)?;
    // The tests start the binary, and `cargo test` alone would not build it.
    build::userspace(workspace, false)?;
    let mut cargo = workspace.cargo();
    if env::var_os(THREADS).is_none() {
        // Namespace tests mostly wait for probes: more of them than processors may wait at once.
        cargo.env(THREADS, "6");
    }
    run(cargo.args(arguments(options)))
}

fn arguments(options: &Options) -> Vec<OsString> {
    let mut arguments: Vec<OsString> =
        ["test", "--workspace", "--exclude", "probe-ebpf"].map(OsString::from).into();
    if options.fast {
        arguments.extend(["--exclude", "nvaprobe-tests"].map(OsString::from));
    }
    arguments.extend_from_slice(&options.arguments);
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(fast: bool, given: &[&str]) -> String {
        let options = Options { fast, arguments: given.iter().map(OsString::from).collect() };
        arguments(&options).join(std::ffi::OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn the_whole_suite_leaves_out_only_the_bpf_crate() {
        assert_eq!(line(false, &[]), "test --workspace --exclude probe-ebpf");
    }

    #[test]
    fn fast_leaves_out_the_tests_that_need_root_and_arguments_pass_through() {
        assert_eq!(
            line(true, &["parse", "--", "--nocapture"]),
            "test --workspace --exclude probe-ebpf --exclude nvaprobe-tests parse -- --nocapture"
        );
    }
}
