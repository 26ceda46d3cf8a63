//! The expressions of a rule in `nft -j` (libnftables-json(5)). What is not understood stays as words.

use serde_json::Value;

use super::{
    Action, Statement,
    elements::{Column, Element, Field, Match},
    nft_sets::{Names, bits_of, map_rows, protocol, rows},
    text,
};

/// One element of `expr`.
pub(super) fn statements(expression: &Value, names: &Names) -> Vec<Statement> {
    let words = || text::statement(expression);
    if let Some(action) = action(expression) {
        return vec![Statement::Act(action)];
    }
    let Some((key, body)) = single(expression) else {
        return not_understood(words());
    };
    let statement = match key {
        "match" => condition(body, names, words()),
        "vmap" => verdict_map(body, names),
        "mangle" => mangle(body, words()),
        "notrack" => Statement::Notrack,
        "counter" | "log" | "dup" | "flow" | "ct helper" | "ct timeout" | "ct expectation" | "secmark"
        | "last" | "tunnel" | "optstrip" => Statement::Neutral,
        // Adding to a set is neutral, unless the element carries a limit.
        "set" | "map" => match body.get("stmt") {
            None => Statement::Neutral,
            Some(_) => Statement::Uncertain(words()),
        },
        // Without a socket to give the packet to, tproxy ends the rule.
        "limit" | "quota" | "ct count" | "meter" | "tproxy" => Statement::Uncertain(words()),
        "xt" => return compatible(body, words()),
        _ => return not_understood(words()),
    };
    vec![statement]
}

/// Whether it is a condition or settles the packet's fate cannot be said.
fn not_understood(words: String) -> Vec<Statement> {
    vec![Statement::Uncertain(words.clone()), Statement::Act(Action::Other(words))]
}

/// A match or target of iptables that nft shows by its name only.
fn compatible(body: &Value, words: String) -> Vec<Statement> {
    let field = |name| body.get(name).and_then(Value::as_str).unwrap_or_default();
    match (field("type"), field("name")) {
        ("match", "comment") => vec![Statement::Neutral],
        ("match", _) => vec![Statement::Uncertain(words)],
        ("target", name) => super::iptables::plain_target(name)
            .map_or_else(|| not_understood(words), |statement| vec![statement]),
        _ => not_understood(words),
    }
}

/// A verdict, or a statement that settles the packet's fate.
pub(super) fn action(expression: &Value) -> Option<Action> {
    if let Some(word) = expression.as_str() {
        return verdict(word, &Value::Null);
    }
    let (key, body) = single(expression)?;
    verdict(key, body)
}

fn verdict(key: &str, body: &Value) -> Option<Action> {
    let target = || Some(body.get("target")?.as_str()?.to_owned());
    let words = || text::words(key, body);
    Some(match key {
        "accept" => Action::Accept,
        "drop" => Action::Drop,
        "continue" => Action::Continue,
        "return" => Action::Return,
        "jump" => Action::Jump(target()?),
        "goto" => Action::Goto(target()?),
        "reject" => Action::Reject(words()),
        "dnat" | "snat" | "masquerade" | "redirect" => Action::Translate(words()),
        "queue" | "synproxy" | "fwd" => Action::Other(words()),
        _ => return None,
    })
}

fn single(value: &Value) -> Option<(&str, &Value)> {
    let mut entries = value.as_object()?.iter();
    match (entries.next(), entries.next()) {
        (Some((key, body)), None) => Some((key, body)),
        _ => None,
    }
}

fn condition(body: &Value, names: &Names, words: String) -> Statement {
    let operator = body.get("op").and_then(Value::as_str).unwrap_or("==");
    let (Some(left), Some(right)) = (body.get("left"), body.get("right")) else {
        return Statement::Uncertain(words);
    };
    let Some(columns) = columns(left) else { return Statement::Uncertain(words) };
    let mut negated = false;
    let rows = match operator {
        "==" => rows(&columns, right, names),
        "!=" => {
            negated = true;
            rows(&columns, right, names)
        }
        "in" | "!" => match columns.first().and_then(|column| bits_of(&column.field, right)) {
            Some(bits) => {
                negated = operator == "!";
                vec![vec![Element::Bits(bits)]]
            }
            None => return Statement::Uncertain(words),
        },
        "<" | ">" | "<=" | ">=" => match rows(&columns, right, names).as_slice() {
            [only] => match (operator, only.as_slice()) {
                ("<", [Element::Range(value, _)]) if *value > 0 => vec![vec![Element::Range(0, value - 1)]],
                ("<=", [Element::Range(value, _)]) => vec![vec![Element::Range(0, *value)]],
                (">", [Element::Range(value, _)]) => {
                    vec![vec![Element::Range(value.saturating_add(1), u128::MAX)]]
                }
                (">=", [Element::Range(value, _)]) => vec![vec![Element::Range(*value, u128::MAX)]],
                _ => return Statement::Uncertain(words),
            },
            _ => return Statement::Uncertain(words),
        },
        _ => return Statement::Uncertain(words),
    };
    Statement::Match(Match { columns, rows, negated, text: words })
}

fn verdict_map(body: &Value, names: &Names) -> Statement {
    let words = || text::words("vmap", body);
    let known = body.get("key").and_then(columns).zip(body.get("data"));
    match known.map(|(columns, data)| (map_rows(&columns, data, names), columns)) {
        Some((Ok(rows), columns)) => Statement::Map { columns, rows },
        Some((Err(why), _)) => Statement::Act(Action::Other(format!("{}: {why}", words()))),
        None => Statement::Act(Action::Other(words())),
    }
}

fn mangle(body: &Value, words: String) -> Statement {
    let key = body.get("key");
    let of = |name: &str| key.and_then(|key| key.get(name)?.get("key")?.as_str());
    let payload = |name: &str| key.and_then(|key| key.get("payload")?.get(name)?.as_str());
    match (of("meta"), of("ct")) {
        (Some("mark"), _) => Statement::SetMark(
            body.get("value").and_then(Value::as_u64).and_then(|mark| u32::try_from(mark).ok()),
        ),
        (_, Some("mark")) => Statement::SetCtMark,
        _ => match payload("field") {
            // Another address or port, without conntrack's help.
            Some("saddr" | "daddr" | "sport" | "dport") if payload("protocol") != Some("ether") => {
                Statement::Act(Action::Other(words))
            }
            _ => Statement::Neutral,
        },
    }
}

/// The fields on the left side; `None` when one is not understood.
fn columns(left: &Value) -> Option<Vec<Column>> {
    match left.get("concat").and_then(Value::as_array) {
        Some(parts) => parts.iter().map(column).collect(),
        None => Some(vec![column(left)?]),
    }
}

fn column(left: &Value) -> Option<Column> {
    if let Some([inner, mask]) = left.get("&").and_then(Value::as_array).map(Vec::as_slice) {
        let field = field(inner)?;
        let mask = Some(bits_of(&field, mask)?);
        return Some(Column { field, mask });
    }
    field(left).map(Column::whole)
}

fn field(left: &Value) -> Option<Field> {
    let (kind, body) = single(left)?;
    let word = |name: &str| body.get(name).and_then(Value::as_str);
    match kind {
        "meta" => Some(match word("key")? {
            // Printed by name, and compared by index: as long as nothing is renamed, that is the same.
            "iif" | "iifname" => Field::IifName,
            "oif" | "oifname" => Field::OifName,
            "nfproto" => Field::Family,
            "protocol" => Field::EtherType,
            "l4proto" => Field::Protocol,
            "mark" => Field::Mark,
            "pkttype" => Field::PacketType,
            "skuid" => Field::User,
            _ => return None,
        }),
        "ct" if body.get("dir").is_none() => match word("key")? {
            "state" => Some(Field::CtState),
            "mark" => Some(Field::CtMark),
            _ => None,
        },
        "fib" => {
            let flags = body.get("flags")?;
            let to = flags.as_str() == Some("daddr")
                || flags.as_array().is_some_and(|flags| flags.len() == 1 && flags[0] == "daddr");
            (to && word("result") == Some("type")).then_some(Field::ToType)
        }
        "payload" => payload(word("protocol")?, word("field")?),
        _ => None,
    }
}

fn payload(header: &str, field: &str) -> Option<Field> {
    Some(match (header, field) {
        ("ip", "saddr") => Field::FromV4,
        ("ip", "daddr") => Field::ToV4,
        ("ip6", "saddr") => Field::FromV6,
        ("ip6", "daddr") => Field::ToV6,
        ("ip", "protocol") => Field::ProtocolOf(true),
        // Followed by extension headers it names the first of them; probes have none.
        ("ip6", "nexthdr") => Field::ProtocolOf(false),
        ("th", "sport") => Field::FromPort(Vec::new()),
        ("th", "dport") => Field::ToPort(Vec::new()),
        ("tcp", "flags") => Field::TcpFlags,
        ("tcp" | "udp" | "udplite" | "sctp" | "dccp", "sport") => Field::FromPort(vec![protocol(header)?]),
        ("tcp" | "udp" | "udplite" | "sctp" | "dccp", "dport") => Field::ToPort(vec![protocol(header)?]),
        (
            "tcp" | "udp" | "udplite" | "sctp" | "dccp" | "icmp" | "icmpv6" | "igmp" | "esp" | "ah" | "comp",
            _,
        ) => Field::Of(protocol(header)?, format!("{header} {field}")),
        ("ip" | "ip6", _) => Field::OfVersion(header == "ip", format!("{header} {field}")),
        ("arp", _) => Field::Foreign,
        _ => return None,
    })
}
