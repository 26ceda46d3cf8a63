//! `nft -j list ruleset` (libnftables-json(5)).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    Chain, Counter, Rule, Ruleset,
    base::{Backend, Base, Family, Hook},
    nft_expr,
    nft_sets::Names,
    text,
};

#[derive(Deserialize)]
struct Document {
    nftables: Vec<Map<String, Value>>,
}

#[derive(Deserialize)]
struct RawTable {
    family: String,
    name: String,
    flags: Option<Value>,
}

#[derive(Deserialize)]
struct RawChain {
    family: String,
    table: String,
    name: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    hook: Option<String>,
    #[serde(default)]
    prio: i32,
    policy: Option<String>,
    dev: Option<Value>,
}

#[derive(Deserialize)]
struct RawRule {
    family: String,
    table: String,
    chain: String,
    #[serde(default)]
    handle: u64,
    comment: Option<String>,
    #[serde(default)]
    expr: Vec<Value>,
}

#[derive(Deserialize)]
struct RawSet {
    family: String,
    table: String,
    name: String,
    #[serde(default)]
    elem: Vec<Value>,
}

#[derive(Deserialize)]
struct RawCounter {
    family: String,
    table: String,
    name: String,
    packets: u64,
    bytes: u64,
}

/// The ruleset that nft has printed.
pub(super) fn parse(json: &str) -> Result<Ruleset, String> {
    let document: Document =
        serde_json::from_str(json).map_err(|error| format!("cannot understand nft's JSON: {error}"))?;
    let mut ruleset = Ruleset::default();
    let mut tables: BTreeMap<(String, String), Names> = BTreeMap::new();
    let mut dormant: BTreeMap<(String, String), Option<bool>> = BTreeMap::new();
    let mut rules = Vec::new();
    for entry in document.nftables {
        for (kind, body) in entry {
            let understood = match kind.as_str() {
                "table" => from_value(body).map(|raw: RawTable| {
                    dormant.insert((raw.family, raw.name), is_dormant(raw.flags.as_ref()));
                }),
                "chain" => from_value(body).and_then(|raw: RawChain| {
                    let active = dormant.get(&(raw.family.clone(), raw.table.clone())).copied().flatten();
                    let known = !dormant.contains_key(&(raw.family.clone(), raw.table.clone()));
                    let active = if known { Some(true) } else { active.map(|dormant| !dormant) };
                    ruleset.chains.push(chain(raw, active)?);
                    Some(())
                }),
                "rule" => from_value(body).map(|raw: RawRule| rules.push(raw)),
                "set" | "map" => from_value(body).map(|raw: RawSet| {
                    tables.entry((raw.family, raw.table)).or_default().sets.insert(raw.name, raw.elem);
                }),
                "counter" => from_value(body).map(|raw: RawCounter| {
                    let counter = Counter { packets: raw.packets, bytes: raw.bytes };
                    tables.entry((raw.family, raw.table)).or_default().counters.insert(raw.name, counter);
                }),
                // Helpers, limits, quotas and the like are looked at by the rules that name them.
                _ => Some(()),
            };
            if understood.is_none() {
                ruleset.unread.push(format!("nft lists a {kind} that is not understood"));
            }
        }
    }
    for raw in &rules {
        let names = tables.entry((raw.family.clone(), raw.table.clone())).or_default();
        for expression in &raw.expr {
            names.moving.extend(filled(expression));
        }
    }
    for raw in rules {
        let names = tables.entry((raw.family.clone(), raw.table.clone())).or_default();
        let family = Family::from_word(&raw.family);
        let chain = ruleset.chains.iter_mut().find(|chain| {
            Some(chain.family) == family && chain.table == raw.table && chain.name == raw.chain
        });
        match chain {
            Some(chain) => chain.rules.push(rule(&raw, names)),
            None => ruleset
                .unread
                .push(format!("nft lists a rule of a chain {} that it does not list", raw.chain)),
        }
    }
    Ok(ruleset)
}

fn from_value<T: serde::de::DeserializeOwned>(value: Value) -> Option<T> {
    serde_json::from_value(value).ok()
}

/// Whether a table is switched off. nft 1.0.6 prints the table's name where its flags should be: then it is not known.
fn is_dormant(flags: Option<&Value>) -> Option<bool> {
    let flags: Vec<&str> = match flags {
        None => return Some(false),
        Some(Value::Array(flags)) => flags.iter().filter_map(Value::as_str).collect(),
        Some(flags) => flags.as_str().into_iter().collect(),
    };
    if flags.contains(&"dormant") {
        return Some(true);
    }
    flags.iter().all(|flag| matches!(*flag, "owner" | "persist")).then_some(false)
}

fn chain(raw: RawChain, active: Option<bool>) -> Option<Chain> {
    let base = match (raw.kind, raw.hook) {
        (Some(kind), Some(hook)) => {
            let hook = Hook::from_word(&hook)?;
            Some(Base {
                kind,
                hook,
                priority: raw.prio,
                drops: raw.policy.as_deref() == Some("drop"),
                counter: None,
                devices: match raw.dev {
                    // nft 1.0.6 leaves them out.
                    None => (!matches!(hook, Hook::Ingress | Hook::Egress)).then(Vec::new),
                    Some(Value::Array(devices)) => {
                        Some(devices.iter().filter_map(Value::as_str).map(str::to_owned).collect())
                    }
                    Some(device) => device.as_str().map(|device| vec![device.to_owned()]),
                },
                active,
            })
        }
        _ => None,
    };
    let family = Family::from_word(&raw.family)?;
    let (table, name) = (raw.table, raw.name);
    Some(Chain { backend: Backend::Nft, family, table, name, base, rules: Vec::new() })
}

fn rule(raw: &RawRule, names: &Names) -> Rule {
    let counter = raw.expr.iter().find_map(|expression| {
        let body = expression.get("counter")?;
        match body.as_str() {
            Some(name) => names.counters.get(name).copied(),
            None => text::counter(body),
        }
    });
    Rule {
        handle: raw.handle,
        text: text::rule(&raw.expr, raw.comment.as_deref()),
        counter,
        statements: raw.expr.iter().flat_map(|expression| nft_expr::statements(expression, names)).collect(),
    }
}

/// The set or map that a statement adds packets to.
fn filled(expression: &Value) -> Option<String> {
    let name = expression.pointer("/set/set").or_else(|| expression.pointer("/map/map"))?;
    Some(name.as_str()?.trim_start_matches('@').to_owned())
}

#[cfg(test)]
#[path = "nft_tests.rs"]
mod tests;
