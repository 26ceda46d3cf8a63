//! The configuration: one structure for the TOML file, its JSON Schema and the command line's flags.
//!
//! [`parse`] reads text and does no I/O; [`load`] reads files. Whoever starts something has a checked [`Config`] first:
//! nothing starts half-configured.

mod check;
mod expect;
mod judging;
pub mod load;
mod metadata;
mod names;
mod overlay;
mod problem;
mod quantity;
mod reader;
pub mod schema;
mod value;

use std::path::PathBuf;

pub use check::Clash;
pub use expect::Expect;
pub use judging::Judging;
pub use metadata::Metadata;
pub use names::{NicName, SourceNet, StatusRange, TagName};
pub use overlay::flag;
pub use problem::{Errors, Problem};
pub use quantity::{Count, Interval, Port, RingSize, Timeout};
use schemars::JsonSchema;
use serde::Serialize;
pub use value::Choice;

use crate::{
    capture::live::mode::{IngressChoice, TcChoice},
    profile::{Pool, Profile},
};

/// The configuration of nvaprobe. Every key is optional and has a flag; a flag overrides its key, and a list given by
/// flags replaces the file's list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(title = "nvaprobe configuration", deny_unknown_fields)]
pub struct Config {
    /// Whose probes to expect: sources and rules of a load balancer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Choice<Profile>>,

    /// Further addresses and prefixes that probes come from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub sources: Vec<SourceNet>,

    /// Leave out the profile's own sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_default_sources: Option<bool>,

    /// Azure's service-tags file (JSON) that further sources are taken from; a relative path starts at the
    /// configuration file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_tags: Option<PathBuf>,

    /// The tag to take from `service_tags`; by default the profile's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_tag: Option<TagName>,

    /// NICs to judge; every physical one by default.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub nics: Vec<NicName>,

    /// Where packets are seen when they enter a judged NIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress: Option<Choice<IngressChoice>>,

    /// How TC programs are attached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tc: Option<Choice<TcChoice>>,

    /// Size of the ring of observations in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring: Option<RingSize>,

    /// Log the BPF programs' slow paths to standard error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_log: Option<bool>,

    /// Ask the kernel why it drops packets of probes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drop_reasons: Option<bool>,

    /// Where Azure's instance metadata service is asked about load balancers; `off` asks nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imds: Option<Metadata>,

    /// Which packets of flows are followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<Choice<FlowMode>>,

    /// Whether misrouted probe replies are steered back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heal: Option<Choice<HealMode>>,

    /// Time between two probes; the profile's by default, else estimated from what arrives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,

    /// Time within which an answer counts; the profile's by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Timeout>,

    /// Failures in a row that take the instance out; for Traffic Manager, tolerated failures plus one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<Count>,

    /// Successes in a row that bring it back; with profiles azure-lb and custom the threshold by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rise: Option<Count>,

    /// HTTP statuses that count as healthy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default, length(min = 1))]
    pub status: Vec<StatusRange>,

    /// Whether this instance is alone in its backend pool: then nothing takes over its flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<Choice<Pool>>,

    /// Probes that must come.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub expect: Vec<Expect>,
}

/// Which packets of flows are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum FlowMode {
    /// None.
    Off,
    /// Those that open, answer and end a flow.
    #[default]
    Control,
    /// All.
    Full,
}

/// Whether misrouted probe replies are steered back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum HealMode {
    /// No packet's way is ever changed.
    #[default]
    Off,
    /// Counts what would be steered.
    DryRun,
    /// Steers them.
    On,
}

/// Reads and checks a configuration. Pure: files that it names are not opened.
pub fn parse(text: &str) -> Result<Config, Errors> {
    let (config, document, mut problems) = reader::read(text);
    if problems.is_empty() {
        problems.extend(check::check(&config).iter().map(|clash| clash.locate(&document)));
    }
    if problems.is_empty() { Ok(config) } else { Err(Errors::new(text, problems)) }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
