//! The command line: one file a subcommand.

mod completions;
mod doctor;
mod explain;
mod fix;
mod judgement;
mod lab;
mod observe;
mod output;
mod replay;
mod run;
mod schema;
mod signals;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::capture::live::guardian;

/// No error finding.
pub const OK: u8 = 0;
/// An error finding.
pub const FOUND: u8 = 1;
/// Could not do it: usage, privileges, cannot observe.
pub const FAILED: u8 = 2;

const AFTER_HELP: &str = "\
Examples:
  nvaprobe doctor --for 30s                 look for half a minute, say what is wrong and what to type
  nvaprobe run --json --nic eth0 --nic eth1 follow two NICs, one JSON object a line
  nvaprobe fix                              what would be misrouted now, and what to type
  nvaprobe replay --nic eth0=2 any.pcap     judge last night's capture
  nvaprobe lab misrouted                    see the fault and its fix in network namespaces

Exit status: 0 no error finding, 1 an error finding, 2 could not do it.
When observation has begun, a line starting with 'ready' goes to standard error.";

/// Finds load-balancer probe replies that leave by the wrong NIC, and says why.
///
/// Every Azure load balancer probes from 168.63.129.16, whichever NIC the probe enters by. Linux routes replies by
/// destination, so all of them leave by one NIC, and the load balancer ignores those that leave by another than
/// the probe came in on. nvaprobe ties the two together in the kernel and never changes a packet's fate.
#[derive(Debug, Parser)]
#[command(name = "nvaprobe", version, after_help = AFTER_HELP, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Observe until stopped: a line for every judged probe and every change
    Run(run::Args),
    /// Look once: observe for a while, then say what is wrong, why, and what to type
    Doctor(doctor::Args),
    /// Print the fixes for what this host would misroute now; changes nothing
    Fix(fix::Args),
    /// The same judgement on stored captures (pcap, pcapng)
    Replay(replay::Args),
    /// Explain a cause: how it looks, why it happens, how it is proved, the fix
    Explain(explain::Args),
    /// Reproduce a fault in network namespaces, judge it, fix it, judge again
    Lab(lab::Args),
    /// Print the JSON Schema of what nvaprobe prints, or of its configuration file
    Schema(schema::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// Internal: removes clsact filters after the observer has died
    #[command(name = guardian::SUBCOMMAND, hide = true)]
    Guardian,
}

/// The whole program; the exit code is the contract.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match dispatch(cli.command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("nvaprobe: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}

fn dispatch(command: Command) -> anyhow::Result<u8> {
    match command {
        Command::Run(args) => runtime()?.block_on(run::run(args)),
        Command::Doctor(args) => runtime()?.block_on(doctor::run(args)),
        Command::Fix(args) => runtime()?.block_on(fix::run(args)),
        Command::Replay(args) => replay::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Lab(args) => lab::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Completions(args) => completions::run(&args, &mut Cli::command()),
        Command::Guardian => guardian::run().map(|()| OK),
    }
}

/// One thread: everything that asks the kernel must do so from the observed network namespace.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
