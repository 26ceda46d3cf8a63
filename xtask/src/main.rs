//! `cargo xtask`: sets up, builds, shows, tests and measures nvaprobe. One file a command.

mod bench;
mod build;
mod lab;
mod lint;
mod paths;
mod run;
mod setup;
mod test;
mod toolchain;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Builds, tests and measures nvaprobe")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Install what building and testing need (Debian; elsewhere: say what to install)
    Setup,
    /// Build the BPF object and everything else
    Build(build::Args),
    /// Build, then reproduce a misrouted probe in network namespaces and fix it (as root)
    Lab(lab::Args),
    /// Format, clippy and every test (as root: the tests make network namespaces)
    Test(test::Args),
    /// Format, clippy and the repository's own rules
    Lint,
    /// Nanoseconds per packet of each program over an empty one (as root)
    Bench(bench::Args),
}

fn main() -> ExitCode {
    match dispatch(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Setup => setup::run(),
        Command::Build(args) => build::run(&args).map(drop),
        Command::Lab(args) => lab::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Lint => lint::run(),
        Command::Bench(args) => bench::run(&args),
    }
}
