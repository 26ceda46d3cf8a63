//! What a value of the configuration can be made of, in the file as on the command line.

use std::fmt;

use clap::ValueEnum;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

/// A value that is written as text, a number or a truth value. `None` means that it is not written so; an error
/// is a sentence, with what to write instead behind "; ".
pub(super) trait Value: Sized {
    /// What it is, with its article.
    const WHAT: &'static str;
    /// A value as TOML has it.
    const EXAMPLE: &'static str;

    /// What to write instead of something that is no such value at all.
    fn hint() -> String {
        format!("write {}", Self::EXAMPLE)
    }

    fn from_text(_: &str) -> Option<Result<Self, String>> {
        None
    }

    fn from_number(_: i64) -> Option<Result<Self, String>> {
        None
    }

    fn from_flag(_: bool) -> Option<Self> {
        None
    }
}

impl Value for bool {
    const WHAT: &'static str = "true or false";
    const EXAMPLE: &'static str = "true or false, without quotes";

    fn from_flag(flag: bool) -> Option<Self> {
        Some(flag)
    }
}

impl Value for std::path::PathBuf {
    const WHAT: &'static str = "the path of a file";
    const EXAMPLE: &'static str = "\"/etc/nvaprobe/service-tags.json\"";

    fn from_text(text: &str) -> Option<Result<Self, String>> {
        Some(match text {
            "" => Err("the path is empty; leave the key out when there is no file".to_owned()),
            path => Ok(path.into()),
        })
    }
}

/// One of a few names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice<T>(pub T);

/// The name of a value on the command line and in the file.
pub(super) fn name<T: ValueEnum>(value: &T) -> String {
    value.to_possible_value().map_or_else(String::new, |known| known.get_name().to_owned())
}

fn names<T: ValueEnum>() -> Vec<String> {
    T::value_variants().iter().map(name).collect()
}

/// A sentence about a name that is none of these.
pub(super) fn none_of(text: &str, names: &[String]) -> String {
    let list = names.join(", ");
    match nearest(text, names.iter().map(String::as_str)) {
        Some(near) => format!("'{text}' is none of {list}; did you mean {near}?"),
        None => format!("'{text}' is unknown; write one of {list}"),
    }
}

/// The name that was probably meant.
pub(super) fn nearest<'a>(text: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let text = text.to_lowercase().replace('-', "_");
    names
        .map(|name| {
            // What begins like it probably lacks its end.
            let cut = text.len() >= 3 && name.replace('-', "_").starts_with(&text);
            let wrong = strsim::damerau_levenshtein(&text, &name.replace('-', "_"));
            (if cut { 0 } else { wrong }, name)
        })
        .filter(|(wrong, name)| *wrong <= name.len().max(4) / 3)
        .min()
        .map(|(_, name)| name)
}

impl<T: ValueEnum> Value for Choice<T> {
    const WHAT: &'static str = "a name in quotes";
    const EXAMPLE: &'static str = "a name";

    fn hint() -> String {
        let quoted: Vec<String> = names::<T>().iter().map(|name| format!("\"{name}\"")).collect();
        format!("write one of {}", quoted.join(", "))
    }

    fn from_text(text: &str) -> Option<Result<Self, String>> {
        Some(T::from_str(text, false).map(Self).map_err(|_| none_of(text, &names::<T>())))
    }
}

impl<T: ValueEnum> fmt::Display for Choice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(&self.0))
    }
}

impl<T: ValueEnum> Serialize for Choice<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<T: ValueEnum> JsonSchema for Choice<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("OneOf_{}", names::<T>().join("_")).into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let known: Vec<serde_json::Value> = T::value_variants()
            .iter()
            .filter_map(T::to_possible_value)
            .map(|known| {
                let help = known.get_help().map(ToString::to_string).unwrap_or_default();
                serde_json::json!({"const": known.get_name(), "description": help})
            })
            .collect();
        json_schema!({"type": "string", "oneOf": known})
    }
}

/// A value of the command line, where numbers are text.
pub(super) fn from_word<T: Value>(text: &str) -> Result<T, String> {
    T::from_text(text)
        .or_else(|| text.parse().ok().and_then(T::from_number))
        .unwrap_or_else(|| Err(format!("'{text}' is not {}; {}", T::WHAT, T::hint())))
}

/// `FromStr` and `JsonSchema` for a [`Value`].
macro_rules! written {
    ($($name:ident: $schema:tt),* $(,)?) => {$(
        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                crate::config::value::from_word(text)
            }
        }

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    )*};
}
pub(super) use written;
