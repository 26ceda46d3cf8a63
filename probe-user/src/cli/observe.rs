//! The flags of every command that observes.

use std::time::Duration;

use anyhow::Context;
use ipnet::IpNet;

use crate::{
    capture::live::{
        load::Sizes,
        mode::{IngressChoice, TcChoice},
    },
    monitor,
    source::{self, Profile},
};

#[derive(Debug, clap::Args)]
pub(super) struct Observation {
    /// A NIC to judge; repeat for more [default: every physical NIC]
    ///
    /// Every other device that is up is watched too, for packets from or to a source only.
    #[arg(long = "nic", value_name = "NAME")]
    nics: Vec<String>,

    /// One more address or prefix that probes come from; repeatable
    #[arg(long = "source", value_name = "ADDR|CIDR", value_parser = source::parse)]
    sources: Vec<IpNet>,

    /// Leave out the profile's own sources
    #[arg(long)]
    no_default_sources: bool,

    /// Whose probes to expect
    #[arg(long, value_enum, default_value_t)]
    profile: Profile,

    /// Where packets are seen when they enter a judged NIC
    #[arg(long, value_enum, default_value_t, value_name = "MODE")]
    ingress: IngressChoice,

    /// How TC programs are attached
    #[arg(long, value_enum, default_value_t, value_name = "MODE")]
    tc: TcChoice,

    /// Size of the ring of observations, bytes (a power of two, at least 4096)
    #[arg(long, default_value_t = Sizes::default().ring, value_name = "BYTES", value_parser = ring_size)]
    ring: u32,

    /// Log the BPF programs' slow paths to standard error
    #[arg(long)]
    kernel_log: bool,
}

impl Observation {
    /// The monitor's settings.
    pub(super) fn settings(&self) -> anyhow::Result<monitor::Settings> {
        let sources = source::collect(self.profile, self.no_default_sources, &self.sources)?;
        Ok(monitor::Settings {
            sources,
            nics: self.nics.clone(),
            ingress: self.ingress,
            tc: self.tc,
            sizes: Sizes { ring: self.ring, ..Sizes::default() },
            kernel_log: self.kernel_log,
            guardian: Some(
                std::env::current_exe().context("cannot find the path of the nvaprobe binary itself")?,
            ),
        })
    }

    /// Logging to standard error, by `RUST_LOG` (warnings by default).
    pub(super) fn start_logging(&self) {
        use tracing_subscriber::{EnvFilter, fmt, prelude::*};
        let default = if self.kernel_log { "debug" } else { "warn" };
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
        // A second call in one process (the lab) keeps the first one's settings.
        let _ = tracing_subscriber::registry()
            .with(filter)
            .with(fmt::layer().with_writer(std::io::stderr).without_time())
            .try_init();
    }
}

fn ring_size(text: &str) -> Result<u32, String> {
    let size: u32 = text.parse().map_err(|_| format!("'{text}' is not a number of bytes"))?;
    if size.is_power_of_two() && size >= 4096 {
        Ok(size)
    } else {
        Err(format!("{size} is not a power of two of at least 4096 (BPF_MAP_TYPE_RINGBUF wants whole pages)"))
    }
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

    #[test]
    fn ring_sizes_are_powers_of_two() {
        assert_eq!(ring_size("4096"), Ok(4096));
        for bad in ["0", "100", "5000", "x"] {
            assert!(ring_size(bad).is_err(), "{bad}");
        }
    }
}
