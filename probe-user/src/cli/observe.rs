//! The flags of every command that observes.

use std::time::Duration;

use anyhow::Context;

use super::judgement::Judgement;
use crate::{
    capture::live::{
        drops::DropReasons,
        load::Sizes,
        mode::{IngressChoice, TcChoice},
    },
    config::{Choice, Config, FlowMode, HealMode, Metadata, NicName, RingSize, load},
    host::imds::Service,
    monitor,
};

#[derive(Debug, clap::Args)]
pub(super) struct Observation {
    #[command(flatten)]
    judgement: Judgement,

    /// A NIC to judge; repeat for more [default: every physical NIC]
    ///
    /// Every other device that is up is watched too, for packets from or to a source only.
    #[arg(long = "nic", value_name = "NAME")]
    nics: Vec<NicName>,

    /// Where packets are seen when they enter a judged NIC [default: auto]
    #[arg(long, value_enum, value_name = "MODE")]
    ingress: Option<IngressChoice>,

    /// How TC programs are attached [default: auto]
    #[arg(long, value_enum, value_name = "MODE")]
    tc: Option<TcChoice>,

    /// Size of the ring of observations, bytes (a power of two, at least 4096) [default: 262144]
    #[arg(long, value_name = "BYTES")]
    ring: Option<RingSize>,

    /// Which packets of flows are followed [default: control]
    #[arg(long, value_enum, value_name = "MODE")]
    flows: Option<FlowMode>,

    /// Whether misrouted probe replies are steered back [default: off]
    #[arg(long, value_enum, value_name = "MODE")]
    heal: Option<HealMode>,

    /// Log the BPF programs' slow paths to standard error
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    kernel_log: Option<bool>,

    /// Ask the kernel why it drops packets of probes: a look at every packet that it drops [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    drop_reasons: Option<bool>,

    /// Where Azure's instance metadata service is asked about load balancers, or off [default: http://169.254.169.254]
    #[arg(long, value_name = "off|URL")]
    imds: Option<Metadata>,
}

impl Observation {
    fn config(&self) -> anyhow::Result<Config> {
        self.judgement.config(Config {
            nics: self.nics.clone(),
            ingress: self.ingress.map(Choice),
            tc: self.tc.map(Choice),
            ring: self.ring,
            flows: self.flows.map(Choice),
            heal: self.heal.map(Choice),
            kernel_log: self.kernel_log,
            drop_reasons: self.drop_reasons,
            imds: self.imds.clone(),
            ..Config::default()
        })
    }

    /// The monitor's settings, and what to say about them once observation has begun.
    pub(super) fn settings(&self) -> anyhow::Result<(monitor::Settings, Option<&'static str>)> {
        let config = self.config()?;
        let asked = config.flows.is_some_and(|flows| flows.0 == FlowMode::Control);
        let note = asked
            .then_some("note: flows are not followed in this version, flows = \"control\" changes nothing");
        let (sources, judging) = load::resolve(&config)?;
        let sizes = Sizes::default();
        let settings = monitor::Settings {
            sources,
            judging,
            ingress: config.ingress.unwrap_or_default().0,
            tc: config.tc.unwrap_or_default().0,
            sizes: Sizes { ring: config.ring.map_or(sizes.ring, |ring| ring.0), ..sizes },
            kernel_log: config.kernel_log.unwrap_or(false),
            drop_reasons: if config.drop_reasons == Some(false) { DropReasons::Off } else { DropReasons::On },
            imds: config.imds.as_ref().map_or_else(|| Some(Service::default()), Metadata::service),
            nics: config.nics.into_iter().map(|nic| nic.0).collect(),
            guardian: Some(
                std::env::current_exe().context("cannot find the path of the nvaprobe binary itself")?,
            ),
        };
        Ok((settings, note))
    }
}

/// Logging to standard error, by `RUST_LOG` (warnings by default; with the kernel's log, everything of its own).
pub(super) fn start_logging(kernel_log: bool) {
    use tracing_subscriber::{EnvFilter, fmt, prelude::*};
    let default = if kernel_log { "debug" } else { "warn" };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    // A second call in one process (the lab) keeps the first one's settings.
    let _ = tracing_subscriber::registry()
        .with(filter)
        .with(fmt::layer().with_writer(std::io::stderr).without_time())
        .try_init();
}

/// A positive duration such as `30s`, `500ms` or `2m`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let parsed: jiff::SignedDuration =
        text.parse().map_err(|_| format!("'{text}' is not a duration; write 30s, 500ms or 2m"))?;
    match Duration::try_from(parsed) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err(format!("'{text}' is not a positive duration")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_positive_and_have_units() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_mins(2)));
        for bad in ["", "30", "-5s", "0s", "soon"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    /// The help says the default of the ring in words.
    #[test]
    fn the_ring_is_as_large_as_the_help_says() {
        assert_eq!(Sizes::default().ring, 262_144);
    }
}
