//! Where Azure's instance metadata service is asked.

use serde::{Serialize, Serializer};

use super::value::{Value, written};
use crate::host::imds::Service;

/// Where to ask, if at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metadata {
    Off,
    /// At this place; as it was written.
    At(String, Service),
}

impl Metadata {
    /// The service to ask; `None` asks nobody.
    pub const fn service(&self) -> Option<Service> {
        match self {
            Self::Off => None,
            Self::At(_, service) => Some(*service),
        }
    }
}

impl Value for Metadata {
    const WHAT: &'static str = "off or the address of a metadata service in quotes";
    const EXAMPLE: &'static str = "\"off\" or \"http://169.254.169.254\"";

    fn from_text(text: &str) -> Option<Result<Self, String>> {
        Some(match text {
            "off" => Ok(Self::Off),
            place => Service::at(place)
                .map(|service| Self::At(place.to_owned(), service))
                .map_err(|_| format!("'{place}' is no address of a metadata service; {}", Self::hint())),
        })
    }
}

impl Serialize for Metadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Off => "off",
            Self::At(place, _) => place,
        })
    }
}

written! {
    Metadata: {"type": "string", "examples": ["off", "http://169.254.169.254"]},
}
