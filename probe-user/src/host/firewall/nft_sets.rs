//! Values, sets and maps of `nft -j`.

use std::{collections::BTreeMap, net::IpAddr};

use serde_json::Value;

use super::{
    Action,
    elements::{Column, Element, Field, number},
    nft_expr,
    packet::CtState,
};

/// What rules of a table may refer to by name.
#[derive(Default)]
pub(super) struct Names {
    /// Elements of sets and maps.
    pub(super) sets: BTreeMap<String, Vec<Value>>,
    /// Sets and maps that packets add to: what is in them now says little about then.
    pub(super) moving: Vec<String>,
    pub(super) counters: BTreeMap<String, super::Counter>,
}

/// The rows that the right side of a comparison stands for.
pub(super) fn rows(columns: &[Column], right: &Value, names: &Names) -> Vec<Vec<Element>> {
    let mut rows = Vec::new();
    match (right.as_str().and_then(|text| text.strip_prefix('@')), right.get("set")) {
        (Some(name), _) => match names.sets.get(name) {
            Some(values) => {
                rows.extend(values.iter().map(|value| row(columns, value)));
                if names.moving.iter().any(|moving| moving == name) {
                    rows.push(unknown(columns, name));
                }
            }
            None => rows.push(unknown(columns, name)),
        },
        (None, Some(Value::Array(values))) => rows.extend(values.iter().map(|value| row(columns, value))),
        // A set of one is printed without brackets by some versions.
        (None, Some(value)) => rows.push(row(columns, value)),
        (None, None) => rows.push(row(columns, right)),
    }
    rows
}

/// The rows of a verdict map.
pub(super) fn map_rows(
    columns: &[Column],
    data: &Value,
    names: &Names,
) -> Result<Vec<(Vec<Element>, Action)>, String> {
    let entries = match (data.as_str().and_then(|text| text.strip_prefix('@')), data.get("set")) {
        (Some(name), _) if names.moving.iter().any(|moving| moving == name) => {
            return Err(format!("map {name} is filled by packets"));
        }
        (Some(name), _) => names.sets.get(name).ok_or_else(|| format!("map {name} is missing"))?,
        (None, Some(Value::Array(entries))) => entries,
        _ => return Err("a map that is not understood".to_owned()),
    };
    let mut rows = Vec::new();
    let mut rest = Vec::new();
    for entry in entries {
        let [key, verdict] = entry.as_array().map(Vec::as_slice).unwrap_or_default() else {
            return Err("an entry of a map that is not understood".to_owned());
        };
        let action = nft_expr::action(verdict).ok_or("an entry of a map that is not understood")?;
        // The entry for everything else is asked when no other fits.
        let into = if unwrapped(key).as_str() == Some("*") { &mut rest } else { &mut rows };
        into.push((row(columns, key), action));
    }
    rows.extend(rest);
    Ok(rows)
}

fn unknown(columns: &[Column], name: &str) -> Vec<Element> {
    vec![Element::Unknown(format!("@{name}")); columns.len()]
}

/// An element without its time-out, counter and comment.
fn unwrapped(value: &Value) -> &Value {
    value.pointer("/elem/val").unwrap_or(value)
}

fn row(columns: &[Column], value: &Value) -> Vec<Element> {
    let value = unwrapped(value);
    match (columns, value.get("concat").and_then(Value::as_array)) {
        ([only], None) => vec![element(only, value)],
        (_, Some(parts)) if parts.len() == columns.len() => {
            columns.iter().zip(parts).map(|(column, part)| element(column, unwrapped(part))).collect()
        }
        (_, None) if value.as_str() == Some("*") => {
            columns.iter().map(|column| element(column, value)).collect()
        }
        _ => vec![Element::Unknown(value.to_string()); columns.len()],
    }
}

fn element(column: &Column, value: &Value) -> Element {
    let unknown = || Element::Unknown(value.to_string());
    let field = &column.field;
    if let Some(prefix) = value.get("prefix") {
        let address = prefix.get("addr").and_then(Value::as_str).and_then(|text| text.parse().ok());
        let length = prefix.get("len").and_then(Value::as_u64).and_then(|length| u8::try_from(length).ok());
        return address
            .zip(length)
            .map_or_else(unknown, |(address, length): (IpAddr, _)| Element::net(address, length));
    }
    if let Some([first, last]) = value.get("range").and_then(Value::as_array).map(Vec::as_slice) {
        let ends = scalar(field, first).zip(scalar(field, last));
        return ends.map_or_else(unknown, |(first, last)| Element::Range(first, last));
    }
    let several = value.as_array().or_else(|| value.get("|").and_then(Value::as_array));
    if let Some(several) = several {
        let bits = several.iter().try_fold(0, |bits, one| Some(bits | bits_of(field, one)?));
        return bits.map_or_else(unknown, Element::number);
    }
    match (field, value.as_str()) {
        (Field::IifName | Field::OifName, Some("*")) => Element::Prefix(String::new()),
        (_, Some("*")) => Element::Range(0, u128::MAX),
        (Field::IifName | Field::OifName, Some(name)) => Element::device(name, '*'),
        _ => scalar(field, value).map_or_else(unknown, Element::number),
    }
}

/// A list of flags, or one: `["syn", "ack"]`, `{"|": ["syn", "ack"]}`, `{"|": [{"|": …}, "ack"]}`.
pub(super) fn bits_of(field: &Field, value: &Value) -> Option<u128> {
    match value.as_array().or_else(|| value.get("|").and_then(Value::as_array)) {
        Some(several) => several.iter().try_fold(0, |bits, one| Some(bits | bits_of(field, one)?)),
        None => scalar(field, value),
    }
}

/// One value as a number.
fn scalar(field: &Field, value: &Value) -> Option<u128> {
    if let Some(value) = value.as_u64() {
        return Some(value.into());
    }
    if let Some(value) = value.as_bool() {
        return Some(value.into());
    }
    let word = value.as_str()?;
    Some(match field {
        Field::FromV4 | Field::ToV4 | Field::FromV6 | Field::ToV6 => number(word.parse().ok()?),
        Field::CtState => ct_state(word)?,
        Field::Protocol | Field::ProtocolOf(_) => protocol(word)?.into(),
        Field::TcpFlags => tcp_flag(word)?.into(),
        Field::Family => match word {
            "ipv4" => 2,
            "ipv6" => 10,
            _ => return None,
        },
        Field::EtherType => match word {
            "ip" => 0x0800,
            "ip6" => 0x86dd,
            "arp" => 0x0806,
            "vlan" | "8021q" => 0x8100,
            _ => return None,
        },
        Field::PacketType => match word {
            "host" | "unicast" => 0,
            "broadcast" => 1,
            "multicast" => 2,
            "other" => 3,
            _ => return None,
        },
        Field::ToType => match word {
            "unicast" => 1,
            "local" => 2,
            "broadcast" => 3,
            "anycast" => 4,
            "multicast" => 5,
            "blackhole" => 6,
            "unreachable" => 7,
            "prohibit" => 8,
            _ => return None,
        },
        _ => word.parse().ok()?,
    })
}

/// Bits of `ct state` (linux/netfilter/nf_conntrack_common.h, `NF_CT_STATE_BIT`).
pub(super) fn ct_state(word: &str) -> Option<u128> {
    let state = match word.to_ascii_lowercase().as_str() {
        "invalid" => CtState::Invalid,
        "established" => CtState::Established,
        "related" => CtState::Related,
        "new" => CtState::New,
        "untracked" => CtState::Untracked,
        _ => return None,
    };
    Some(state as u128)
}

pub(super) fn tcp_flag(word: &str) -> Option<u8> {
    Some(match word.to_ascii_lowercase().as_str() {
        "fin" => 0x01,
        "syn" => 0x02,
        "rst" => 0x04,
        "psh" => 0x08,
        "ack" => 0x10,
        "urg" => 0x20,
        "ecn" | "ece" => 0x40,
        "cwr" => 0x80,
        _ => return None,
    })
}

/// Numbers of IP protocols, by the names of /etc/protocols.
pub(super) fn protocol(word: &str) -> Option<u8> {
    Some(match word {
        "icmp" => 1,
        "igmp" => 2,
        "ipencap" | "ipip" => 4,
        "tcp" => 6,
        "udp" => 17,
        "dccp" => 33,
        "ipv6" => 41,
        "gre" => 47,
        "esp" => 50,
        "ah" => 51,
        "icmpv6" | "ipv6-icmp" => 58,
        "ospf" => 89,
        "comp" | "ipcomp" => 108,
        "vrrp" => 112,
        "sctp" => 132,
        "udplite" => 136,
        _ => return word.parse().ok(),
    })
}
