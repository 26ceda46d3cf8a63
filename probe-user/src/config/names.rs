//! Sources, devices, tags and statuses.

use std::fmt;

use ipnet::IpNet;
use serde::{Serialize, Serializer};

use super::value::{Value, written};
use crate::{probe::rules::Statuses, source};

/// An address or prefix; host bits are cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceNet(pub IpNet);

/// The name of a network device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NicName(pub String);

/// The name of a service tag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TagName(pub String);

/// An HTTP status or a range of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusRange(pub Statuses);

impl Value for SourceNet {
    const WHAT: &'static str = "an address or prefix in quotes";
    const EXAMPLE: &'static str = "\"10.4.2.1\"";

    fn from_text(text: &str) -> Option<Result<Self, String>> {
        let hint = "; write 10.4.2.1, 35.191.0.0/16 or fe80::1";
        Some(
            source::parse(text)
                .map(Self)
                .map_err(|_| format!("'{text}' is neither an IP address nor a prefix{hint}")),
        )
    }
}

impl Value for NicName {
    const WHAT: &'static str = "the name of a NIC in quotes";
    const EXAMPLE: &'static str = "\"eth1\"";

    /// What the kernel takes for a name (`dev_valid_name`, net/core/dev.c).
    fn from_text(text: &str) -> Option<Result<Self, String>> {
        let valid = !text.is_empty()
            && text.len() <= 15
            && text != "."
            && text != ".."
            && !text.contains(|c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control());
        Some(if valid {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!("no device can be named '{text}'; `ip link` lists the names, such as eth1"))
        })
    }
}

impl Value for TagName {
    const WHAT: &'static str = "the name of a service tag in quotes";
    const EXAMPLE: &'static str = "\"AzureTrafficManager\"";

    fn from_text(text: &str) -> Option<Result<Self, String>> {
        Some(match text.trim() {
            "" => Err("the service tag is empty; write AzureTrafficManager, or leave the key out".to_owned()),
            name => Ok(Self(name.to_owned())),
        })
    }
}

impl Value for StatusRange {
    const WHAT: &'static str = "an HTTP status";
    const EXAMPLE: &'static str = "\"200-299\"";

    fn from_text(text: &str) -> Option<Result<Self, String>> {
        Some(text.parse().map(Self))
    }

    /// A single code may stand without quotes.
    fn from_number(number: i64) -> Option<Result<Self, String>> {
        Self::from_text(&number.to_string())
    }
}

written! {
    SourceNet: {"type": "string", "examples": ["10.4.2.1", "35.191.0.0/16", "fe80::1"]},
    NicName: {"type": "string", "minLength": 1, "maxLength": 15},
    TagName: {"type": "string", "minLength": 1},
    StatusRange: {"type": ["string", "integer"], "pattern": "^[1-9][0-9]{2}(-[1-9][0-9]{2})?$",
        "minimum": 100, "maximum": 999, "examples": ["200", "200-299"]},
}

impl fmt::Display for SourceNet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        source::Source { net: self.0, peer_id: 0 }.fmt(f)
    }
}

impl fmt::Display for NicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for SourceNet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for StatusRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}
