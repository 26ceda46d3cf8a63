//! Rules of `nft -j` in the words of `nft list ruleset`; what is not known is shown as it is in JSON.

use serde_json::Value;

use super::Counter;

/// A whole rule.
pub(super) fn rule(expressions: &[Value], comment: Option<&str>) -> String {
    let mut words: Vec<String> = expressions.iter().map(statement).collect();
    words.extend(comment.map(|comment| format!("comment \"{comment}\"")));
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

/// One statement.
pub(super) fn statement(value: &Value) -> String {
    match value.as_object().and_then(|object| object.iter().next()) {
        Some((key, body)) => words(key, body),
        None => scalar(value),
    }
}

/// A statement by its name and body.
pub(super) fn words(key: &str, body: &Value) -> String {
    let field = |name: &str| body.get(name).map(expression);
    match key {
        "match" => comparison(body),
        "counter" => match body.as_str() {
            Some(name) => format!("counter name \"{name}\""),
            None => counter(body).map_or_else(
                || "counter".to_owned(),
                |Counter { packets, bytes }| format!("counter packets {packets} bytes {bytes}"),
            ),
        },
        "jump" | "goto" => format!("{key} {}", field("target").unwrap_or_default()),
        "reject" => match (field("type"), field("expr")) {
            (Some(kind), Some(code)) => format!("reject with {kind} {code}"),
            (Some(kind), None) => format!("reject with {kind}"),
            _ => "reject".to_owned(),
        },
        "dnat" | "snat" | "redirect" | "masquerade" => {
            let mut text = key.to_owned();
            let address = field("addr");
            let port = field("port").map(|port| format!(":{port}"));
            if address.is_some() || port.is_some() {
                text = format!("{text} to {}{}", address.unwrap_or_default(), port.unwrap_or_default());
            }
            text
        }
        "log" => match field("prefix") {
            Some(prefix) => format!("log prefix \"{prefix}\""),
            None => "log".to_owned(),
        },
        "limit" if body.is_string() => format!("limit name \"{}\"", scalar(body)),
        "limit" => {
            let over = if body.get("inv").and_then(Value::as_bool) == Some(true) { "over " } else { "" };
            let (rate, per) = (field("rate").unwrap_or_default(), field("per").unwrap_or_default());
            format!("limit rate {over}{rate}/{per}")
        }
        "mangle" => {
            format!("{} set {}", field("key").unwrap_or_default(), field("value").unwrap_or_default())
        }
        "set" | "map" => {
            let set = field(key).unwrap_or_default();
            format!("{} {set} {{ {} }}", field("op").unwrap_or_default(), field("elem").unwrap_or_default())
        }
        "vmap" => format!("{} vmap {}", field("key").unwrap_or_default(), field("data").unwrap_or_default()),
        "queue" => format!("queue to {}", field("num").unwrap_or_else(|| "0".to_owned())),
        "xt" => format!("xt {} {}", field("type").unwrap_or_default(), field("name").unwrap_or_default()),
        _ if body.is_null() => key.to_owned(),
        _ => format!("{key} {body}"),
    }
}

fn comparison(body: &Value) -> String {
    let masked = body.pointer("/left/&").is_some();
    let side = |name: &str| body.get(name).map(expression).unwrap_or_default();
    match body.get("op").and_then(Value::as_str) {
        None | Some("==" | "in") if !masked => format!("{} {}", side("left"), side("right")),
        operator => {
            format!("{} {} {}", side("left"), operator.unwrap_or("=="), side("right"))
        }
    }
}

fn expression(value: &Value) -> String {
    if let Some(list) = value.as_array() {
        return joined(list, ",");
    }
    let Some((key, body)) = value.as_object().and_then(|object| object.iter().next()) else {
        return scalar(value);
    };
    let word = |name: &str| body.get(name).map(scalar).unwrap_or_default();
    let list = body.as_array().map(Vec::as_slice).unwrap_or_default();
    match key.as_str() {
        "payload" => format!("{} {}", word("protocol"), word("field")),
        "meta" => match word("key") {
            // nft omits `meta` in front of the common ones.
            key if matches!(
                key.as_str(),
                "iif" | "iifname" | "oif" | "oifname" | "iifgroup" | "oifgroup" | "skuid" | "skgid"
            ) =>
            {
                key
            }
            key => format!("meta {key}"),
        },
        "ct" => match body.get("dir") {
            Some(direction) => format!("ct {} {}", scalar(direction), word("key")),
            None => format!("ct {}", word("key")),
        },
        "fib" => format!(
            "fib {} {}",
            body.get("flags")
                .and_then(Value::as_array)
                .map_or_else(|| word("flags"), |flags| joined(flags, " . ")),
            word("result")
        ),
        "socket" => format!("socket {}", word("key")),
        "prefix" => format!("{}/{}", word("addr"), word("len")),
        "range" => joined(list, "-"),
        "concat" => joined(list, " . "),
        "&" => joined(list, " & "),
        "|" => joined(list, " | "),
        "set" if body.is_array() => format!("{{ {} }}", joined_entries(list)),
        "elem" => body.get("val").map(expression).unwrap_or_default(),
        "jump" | "goto" => words(key, body),
        "accept" | "drop" | "return" | "continue" => key.clone(),
        _ => value.to_string(),
    }
}

fn joined(list: &[Value], by: &str) -> String {
    list.iter().map(expression).collect::<Vec<_>>().join(by)
}

/// Elements of a set, or pairs of a map.
fn joined_entries(list: &[Value]) -> String {
    let entry = |value: &Value| match value.as_array().map(Vec::as_slice) {
        Some([key, data]) => format!("{} : {}", expression(key), expression(data)),
        _ => expression(value),
    };
    list.iter().map(entry).collect::<Vec<_>>().join(", ")
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What a `counter` has counted.
pub(super) fn counter(body: &Value) -> Option<Counter> {
    let number = |name: &str| body.get(name).and_then(Value::as_u64);
    Some(Counter { packets: number("packets")?, bytes: number("bytes")? })
}
