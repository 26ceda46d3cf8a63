//! Flags over a file.

use super::Config;

impl Config {
    /// This configuration with the values that `flags` has; lists replace lists.
    #[must_use]
    pub fn overridden_by(self, flags: Self) -> Self {
        fn list<T>(file: Vec<T>, flags: Vec<T>) -> Vec<T> {
            if flags.is_empty() { file } else { flags }
        }
        Self {
            profile: flags.profile.or(self.profile),
            sources: list(self.sources, flags.sources),
            no_default_sources: flags.no_default_sources.or(self.no_default_sources),
            service_tags: flags.service_tags.or(self.service_tags),
            service_tag: flags.service_tag.or(self.service_tag),
            nics: list(self.nics, flags.nics),
            ingress: flags.ingress.or(self.ingress),
            tc: flags.tc.or(self.tc),
            ring: flags.ring.or(self.ring),
            kernel_log: flags.kernel_log.or(self.kernel_log),
            drop_reasons: flags.drop_reasons.or(self.drop_reasons),
            imds: flags.imds.or(self.imds),
            flows: flags.flows.or(self.flows),
            heal: flags.heal.or(self.heal),
            interval: flags.interval.or(self.interval),
            timeout: flags.timeout.or(self.timeout),
            threshold: flags.threshold.or(self.threshold),
            rise: flags.rise.or(self.rise),
            status: list(self.status, flags.status),
            pool: flags.pool.or(self.pool),
            expect: list(self.expect, flags.expect),
        }
    }
}

/// The flag that stands for a key.
pub fn flag(key: &str) -> String {
    match key {
        "nics" => "--nic".to_owned(),
        "sources" => "--source".to_owned(),
        key => format!("--{}", key.replace('_', "-")),
    }
}
