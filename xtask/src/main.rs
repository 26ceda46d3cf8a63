//! Builds, tests and measures nvaprobe: `cargo xtask --help`.

mod bench;
mod build;
mod debian;
mod lab;
mod linker;
mod lint;
mod rustc;
mod setup;
mod test;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use workspace::Workspace;

/// Builds, tests and measures nvaprobe
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Install what building and testing need and this machine lacks
    Setup,
    /// Build the BPF programs and the binary that embeds them
    Build(build::Options),
    /// Reproduce a fault in network namespaces, judge it, fix it, judge again
    Lab(lab::Options),
    /// Run the whole test suite
    Test(test::Options),
    /// Check format, clippy and the rules of the house
    Lint,
    /// Measure nanoseconds per packet of each BPF program, and a replay beside tshark
    Bench(bench::Options),
}

fn main() -> ExitCode {
    match run(&Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Not anyhow's own print: a backtrace helps nobody whose machine lacks a package.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> Result<()> {
    let workspace = Workspace::find()?;
    match command {
        Command::Setup => setup::run_command(&workspace),
        Command::Build(options) => build::run_command(&workspace, options),
        Command::Lab(options) => lab::run_command(&workspace, options),
        Command::Test(options) => test::run_command(&workspace, options),
        Command::Lint => lint::run_command(&workspace),
        Command::Bench(options) => bench::run_command(&workspace, options),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn options_of_the_lab_pass_through() {
        for line in [
            "xtask lab misrouted --json",
            "xtask lab --json misrouted",
            "xtask test --fast name -- --nocapture",
        ] {
            Arguments::try_parse_from(line.split(' ')).unwrap();
        }
    }
}
