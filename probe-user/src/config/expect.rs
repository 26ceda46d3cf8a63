//! One `[[expect]]` entry, or one `--expect` flag.

use std::{fmt, str::FromStr};

use clap::{ValueEnum, builder::PossibleValue};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Choice, Count, Interval, NicName, Port, StatusRange, Timeout,
    value::{Value, from_word, nearest},
};
use crate::{probe::rules::Role, report::document::Protocol};

/// A probe that must come.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Expect {
    /// The NIC it enters by.
    pub nic: NicName,

    /// The port it probes.
    pub port: Port,

    /// What it speaks; any protocol by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Choice<Protocol>>,

    /// What this instance is for: a standby that refuses is no error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Choice<Role>>,

    /// Time between two of these probes; by default that of the whole file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,

    /// Time within which its answer counts; by default that of the whole file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Timeout>,

    /// Failures in a row that take the instance out; by default that of the whole file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<Count>,

    /// Successes in a row that bring it back; by default that of the whole file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rise: Option<Count>,

    /// HTTP statuses that are healthy; by default those of the whole file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default, length(min = 1))]
    pub status: Vec<StatusRange>,
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the probe of port {} on {}", self.port.0, self.nic)
    }
}

const KEYS: [&str; 9] =
    ["nic", "port", "protocol", "role", "interval", "timeout", "threshold", "rise", "status"];

/// The values of a flag, in the order of their keys.
struct Pairs<'a>(Vec<(&'a str, &'a str)>);

impl Pairs<'_> {
    fn all<T: Value>(&self, key: &str) -> Result<Vec<T>, String> {
        let values = self.0.iter().filter(|(name, _)| *name == key);
        values.map(|(_, text)| from_word(text).map_err(|reason| format!("{key}: {reason}"))).collect()
    }

    fn value<T: Value>(&self, key: &str) -> Result<Option<T>, String> {
        let mut values = self.all(key)?;
        match values.len() {
            0 | 1 => Ok(values.pop()),
            _ => Err(format!("{key} is given twice; only status may be repeated")),
        }
    }

    fn required<T: Value>(&self, key: &str) -> Result<T, String> {
        self.value(key)?.ok_or_else(|| format!("{key}= is missing; write nic=eth1,port=8008"))
    }
}

impl FromStr for Expect {
    type Err = String;

    /// `nic=eth1,port=8008,protocol=http,interval=15s`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut pairs = Pairs(Vec::new());
        for pair in text.split(',') {
            let Some((key, value)) = pair.split_once('=') else {
                return Err(format!("'{pair}' is not KEY=VALUE; write nic=eth1,port=8008,protocol=tcp"));
            };
            if !KEYS.contains(&key) {
                return Err(match nearest(key, KEYS.into_iter()) {
                    Some(near) => format!("unknown key '{key}'; did you mean {near}?"),
                    None => format!("unknown key '{key}'; known keys are {}", KEYS.join(", ")),
                });
            }
            pairs.0.push((key, value));
        }
        Ok(Self {
            nic: pairs.required("nic")?,
            port: pairs.required("port")?,
            protocol: pairs.value("protocol")?,
            role: pairs.value("role")?,
            interval: pairs.value("interval")?,
            timeout: pairs.value("timeout")?,
            threshold: pairs.value("threshold")?,
            rise: pairs.value("rise")?,
            status: pairs.all("status")?,
        })
    }
}

impl ValueEnum for Protocol {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Tcp, Self::Http, Self::Https]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            Self::Tcp => ("tcp", "A handshake"),
            Self::Http => ("http", "A request"),
            Self::Https => ("https", "A request over TLS"),
        };
        Some(PossibleValue::new(name).help(help))
    }
}

impl ValueEnum for Role {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Active, Self::Standby]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            Self::Active => ("active", "Answers probes"),
            Self::Standby => ("standby", "Refuses or ignores probes on purpose"),
        };
        Some(PossibleValue::new(name).help(help))
    }
}
