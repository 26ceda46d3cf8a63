//! The flags of every command that judges, live or from captures.

use std::path::PathBuf;

use crate::{
    config::{Choice, Config, Count, Expect, Interval, SourceNet, StatusRange, TagName, Timeout, load},
    profile::{Pool, Profile},
};

#[derive(Debug, clap::Args)]
pub(super) struct Judgement {
    /// Read a configuration file (TOML); flags override it, and a list given by flags replaces its list
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Whose probes to expect [default: azure-lb]
    #[arg(long, value_enum)]
    profile: Option<Profile>,

    /// One more address or prefix that probes come from; repeatable
    #[arg(long = "source", value_name = "ADDR|CIDR")]
    sources: Vec<SourceNet>,

    /// Leave out the profile's own sources
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    no_default_sources: Option<bool>,

    /// Take further sources from Azure's service-tags file (JSON)
    #[arg(long, value_name = "FILE")]
    service_tags: Option<PathBuf>,

    /// The tag to take from it [default: the profile's]
    #[arg(long, value_name = "NAME")]
    service_tag: Option<TagName>,

    /// Time between two probes [default: the profile's, else estimated from what arrives]
    #[arg(long, value_name = "DURATION")]
    interval: Option<Interval>,

    /// Time within which an answer counts [default: the profile's]
    #[arg(long, value_name = "DURATION")]
    timeout: Option<Timeout>,

    /// Failures in a row that take this instance out [default: the profile's]
    #[arg(long, value_name = "N")]
    threshold: Option<Count>,

    /// Successes in a row that bring it back [default: the profile's, or --threshold]
    #[arg(long, value_name = "N")]
    rise: Option<Count>,

    /// HTTP status, or range of them, that counts as healthy; repeatable [default: the profile's]
    #[arg(long, value_name = "CODE|FIRST-LAST")]
    status: Vec<StatusRange>,

    /// Whether this instance is alone in its backend pool
    #[arg(long, value_enum)]
    pool: Option<Pool>,

    /// A probe that must come; repeatable
    ///
    /// nic=NAME,port=PORT and, if known, protocol=tcp|http|https, role=active|standby, interval=DURATION,
    /// timeout=DURATION, threshold=N, rise=N, status=CODE (this one may be repeated).
    #[arg(long, value_name = "nic=NAME,port=PORT,…")]
    expect: Vec<Expect>,
}

impl Judgement {
    /// The file's configuration with these flags, and those of `more`, over it. [`load::resolve`] makes sources and rules
    /// of it; settings of live observation play no part in that.
    pub(super) fn config(&self, more: Config) -> anyhow::Result<Config> {
        let flags = Config {
            profile: self.profile.map(Choice),
            sources: self.sources.clone(),
            no_default_sources: self.no_default_sources,
            service_tags: self.service_tags.clone(),
            service_tag: self.service_tag.clone(),
            interval: self.interval,
            timeout: self.timeout,
            threshold: self.threshold,
            rise: self.rise,
            status: self.status.clone(),
            pool: self.pool.map(Choice),
            expect: self.expect.clone(),
            ..Config::default()
        };
        Ok(load::merged(self.config.as_deref(), more.overridden_by(flags))?)
    }
}
