//! `nvaprobe lab`: reproduce, judge, fix, judge again.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) fn run(_args: &Args) -> anyhow::Result<u8> {
    anyhow::bail!("no lab")
}
