//! `nvaprobe schema`: the JSON Schemas, generated from the types that are printed or read.

use super::output;
use crate::{config, report::schema};

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum What {
    /// The document of `doctor --json`
    #[default]
    Report,
    /// The lines of `run --json`
    Event,
    /// The file of `--config` (TOML)
    Config,
}

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Which document
    #[arg(value_enum, default_value_t)]
    what: What,
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    output::print(&match args.what {
        What::Report => schema::report()?,
        What::Event => schema::event()?,
        What::Config => config::schema::text()?,
    })?;
    Ok(super::OK)
}
