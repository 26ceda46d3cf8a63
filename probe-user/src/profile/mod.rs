//! Profiles: whose probes to expect, by what rules they are judged, and what happens when one fails.
//!
//! A profile is one file, one `mod` line and one line in [`profiles!`].

mod aws;
mod azure_lb;
mod azure_traffic_manager;
mod custom;
mod definition;
mod gcp;
pub mod pool;
mod rules;
pub mod service_tags;

use std::time::Duration;

use clap::builder::PossibleValue;
use definition::Definition;
use ipnet::IpNet;
pub use pool::Pool;
pub use rules::Overrides;

macro_rules! profiles {
    ($($(#[$mark:meta])* $variant:ident = $module:ident),* $(,)?) => {
        /// Whose probes to expect.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum Profile {
            $($(#[$mark])* $variant),*
        }

        impl Profile {
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            const fn definition(self) -> &'static Definition {
                match self {
                    $(Self::$variant => &$module::DEFINITION),*
                }
            }
        }
    };
}

profiles! {
    #[default]
    AzureLb = azure_lb,
    AzureTrafficManager = azure_traffic_manager,
    Gcp = gcp,
    Aws = aws,
    Custom = custom,
}

impl Profile {
    pub const fn name(self) -> &'static str {
        self.definition().name
    }

    /// One line about it.
    pub const fn about(self) -> &'static str {
        self.definition().about
    }

    /// Its sources; those in one group are spellings of one prober.
    pub const fn sources(self) -> &'static [&'static [IpNet]] {
        self.definition().sources
    }

    /// Where its probes come from, when it has no sources of its own.
    pub const fn where_from(self) -> &'static str {
        self.definition().where_from
    }

    /// Its tag in Azure's service-tags file.
    pub const fn service_tag(self) -> Option<&'static str> {
        self.definition().service_tag
    }

    /// Intervals that its service sets by itself, with who sets them.
    pub const fn default_intervals(self) -> &'static [(Duration, &'static str)] {
        self.definition().default_intervals
    }

    /// The shortest interval that its service accepts.
    pub const fn shortest_interval(self) -> Option<Duration> {
        self.definition().shortest_interval
    }

    /// Ports that its HTTP prober refuses to connect to: such a probe never arrives.
    pub const fn http_refuses(self) -> &'static [u16] {
        self.definition().http_refuses
    }

    /// What happens to flows when this instance alone is down; `None` when it is not known.
    pub const fn when_down(self, pool: Pool) -> Option<&'static str> {
        match pool {
            Pool::Single => self.definition().down.only_one,
            Pool::Unknown | Pool::Shared => self.definition().down.one,
        }
    }

    /// What happens to flows when every instance of the pool is down; `None` when it is not known.
    pub const fn when_all_down(self, pool: Pool) -> Option<&'static str> {
        let down = &self.definition().down;
        match pool {
            Pool::Unknown => down.all,
            Pool::Shared => down.all_of_many,
            Pool::Single => down.only_one,
        }
    }

    /// Both in one line.
    pub fn flows(self, pool: Pool) -> Option<String> {
        if pool == Pool::Single {
            return self.when_down(pool).map(|text| format!("alone in its pool and down: {text}"));
        }
        let one = self.when_down(pool).map(|text| format!("this one down: {text}"));
        let all = self.when_all_down(pool).map(|text| format!("all down: {text}"));
        let both: Vec<String> = one.into_iter().chain(all).collect();
        (!both.is_empty()).then(|| both.join("; "))
    }
}

impl clap::ValueEnum for Profile {
    fn value_variants<'a>() -> &'a [Self] {
        Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()).help(self.about()))
    }
}

#[cfg(test)]
mod tests;
