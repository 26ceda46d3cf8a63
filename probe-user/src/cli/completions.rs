//! `nvaprobe completions SHELL`

use clap_complete::Shell;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell to complete for
    shell: Shell,
}

pub(super) fn run(args: &Args, command: &mut clap::Command) -> anyhow::Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "nvaprobe", &mut script);
    super::output::print(&String::from_utf8(script)?)?;
    Ok(super::OK)
}
