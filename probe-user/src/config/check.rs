//! Values that are possible one by one, and not together.

use std::fmt;

use super::{
    Config, Expect, FlowMode, HealMode, Interval, Timeout, overlay::flag, problem::Problem, reader::Document,
};
use crate::probe::rules::Limit;

/// Values that do not go together, by the key to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clash {
    key: &'static str,
    /// Index in the list `key`, and the key in that entry.
    entry: Option<(usize, &'static str)>,
    message: String,
    hint: String,
}

impl Clash {
    fn new(key: &'static str, message: String, hint: impl Into<String>) -> Self {
        Self { key, entry: None, message, hint: hint.into() }
    }

    fn in_entry(index: usize, key: &'static str, message: String, hint: impl Into<String>) -> Self {
        Self { key: "expect", entry: Some((index, key)), message, hint: hint.into() }
    }

    pub(super) const fn key(&self) -> &'static str {
        self.key
    }

    /// Where it is in the document that has its key.
    pub(super) fn locate(&self, document: &Document<'_>) -> Problem {
        let mut span = document.span();
        if let Some(value) = document.get_ref().get(self.key) {
            span = value.span();
            let entry =
                self.entry.and_then(|(index, key)| Some((value.get_ref().as_array()?.get(index)?, key)));
            if let Some((entry, key)) = entry {
                let field = entry.get_ref().as_table().and_then(|table| table.get(key));
                span = field.unwrap_or(entry).span();
            }
        }
        Problem::new(span, &self.message, &self.hint)
    }
}

impl fmt::Display for Clash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", flag(self.key), self.message, self.hint)
    }
}

/// What is wrong whatever is added by flags.
pub(super) fn check(config: &Config) -> Vec<Clash> {
    let mut clashes = Vec::new();
    if let Some(timeout) = config.timeout {
        let interval = config.profile().rules(&config.overrides()).interval.map(Interval);
        if let Some(interval) = interval.filter(|interval| timeout.0 > interval.0) {
            clashes.push(Clash::new("timeout", too_long(timeout, interval), "make it the interval at most"));
        }
    }
    for (index, expect) in config.expect.iter().enumerate() {
        clashes.extend(unwatched(config, index, expect));
        clashes.extend(late(config, index, expect));
        let before = config.expect.iter().take(index).position(|other| same(expect, other));
        clashes.extend(before.map(|before| {
            let message = format!("{expect} is expected twice: by entries {} and {}", before + 1, index + 1);
            Clash::in_entry(index, "port", message, "keep one of them, or tell them apart by `protocol`")
        }));
    }
    clashes
}

/// Two entries that are about one probe; no protocol means any.
fn same(one: &Expect, other: &Expect) -> bool {
    let either = one.protocol.is_none() || other.protocol.is_none();
    one.nic == other.nic && one.port == other.port && (either || one.protocol == other.protocol)
}

fn unwatched(config: &Config, index: usize, expect: &Expect) -> Option<Clash> {
    if config.nics.is_empty() || config.nics.contains(&expect.nic) {
        return None;
    }
    let nics: Vec<String> = config.nics.iter().map(ToString::to_string).collect();
    let message = format!("{expect} is expected, but the NICs to judge are {}", nics.join(", "));
    Some(Clash::in_entry(index, "nic", message, format!("add \"{}\" to `nics`", expect.nic)))
}

/// An expected probe's timeout beyond its interval, when one of the two is its own.
fn late(config: &Config, index: usize, expect: &Expect) -> Option<Clash> {
    let key = match (expect.timeout, expect.interval) {
        (Some(_), _) => "timeout",
        (None, Some(_)) => "interval",
        (None, None) => return None,
    };
    let rules = config.profile().rules(&config.overrides_of(expect));
    match (rules.limit, rules.interval) {
        (Limit::Fixed(limit), Some(interval)) if limit > interval => {
            let message = too_long(Timeout(limit), Interval(interval));
            Some(Clash::in_entry(index, key, message, "make the timeout the interval at most"))
        }
        _ => None,
    }
}

fn too_long(timeout: Timeout, interval: Interval) -> String {
    format!("the timeout, {timeout}, is longer than the interval, {interval}: the next probe is due first")
}

/// What is wrong with the whole, flags included.
pub(super) fn check_whole(config: &Config) -> Vec<Clash> {
    let mut clashes = check(config);
    let (profile, file) = (config.profile(), &config.service_tags);
    if config.service_tag.is_some() && file.is_none() {
        let message = "a service tag is named, and no service-tags file".to_owned();
        clashes.push(Clash::new("service_tag", message, "name the file with service_tags or --service-tags"));
    }
    if file.is_some() && config.service_tag.is_none() && profile.service_tag().is_none() {
        let message = format!("profile {} has no service tag of its own", profile.name());
        let hint = "name one with service_tag or --service-tag, or use profile azure-traffic-manager";
        clashes.push(Clash::new("service_tags", message, hint));
    }
    clashes.extend(unavailable(config));
    clashes
}

/// What the schema knows and this version cannot do: refused, since a setting that is ignored is a trap.
fn unavailable(config: &Config) -> Vec<Clash> {
    let mut clashes = Vec::new();
    if config.heal.is_some_and(|heal| heal.0 != HealMode::Off) {
        let message = "healing is not available in this version".to_owned();
        clashes.push(Clash::new("heal", message, "use off, or leave it out"));
    }
    if config.flows.is_some_and(|flows| flows.0 == FlowMode::Full) {
        let message = "following all packets of flows is not available in this version".to_owned();
        clashes.push(Clash::new("flows", message, "use off or control, or leave it out"));
    }
    clashes
}
