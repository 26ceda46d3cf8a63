use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    super::{
        Outcome, Verdict, blocking,
        packet::{CtState, Device, Packet},
    },
    *,
};

/// What nft 1.0.6 prints for a ruleset with one rule of each kind.
const RULESET: &str = include_str!("fixtures/ruleset.json");

fn syn() -> Packet {
    let eth1 = Device { index: 3, name: "eth1".to_owned() };
    let (from, to) = ("168.63.129.16:50000".parse().unwrap(), "10.4.3.101:8008".parse().unwrap());
    Packet::syn(Hook::Input, eth1, from, to)
}

/// An inet table with an input chain of these rules, a set, a map and a chain `other` that drops.
fn table(policy: &str, rules: &[Value]) -> String {
    let at = |name: &str| json!({"family": "inet", "table": "t", "name": name});
    let object = |kind: &str, name: &str, more: Value| {
        let mut body = at(name);
        for (key, value) in more.as_object().unwrap() {
            body[key] = value.clone();
        }
        json!({ kind: body })
    };
    let mut list = vec![
        json!({"metainfo": {"json_schema_version": 1}}),
        json!({"table": {"family": "inet", "name": "t"}}),
        object(
            "set",
            "probers",
            json!({"elem": [{"prefix": {"addr": "168.63.129.0", "len": 24}}, {"elem": {"val": "1.2.3.4"}}]}),
        ),
        object("set", "filled", json!({"elem": []})),
        object(
            "map",
            "ports",
            json!({"elem": [[22, {"accept": null}], [{"range": [8000, 8010]}, {"drop": null}]]}),
        ),
        object("counter", "c", json!({"packets": 4, "bytes": 240})),
        object("chain", "input", json!({"type": "filter", "hook": "input", "prio": 0, "policy": policy})),
        object("chain", "other", json!({})),
    ];
    let rule = |chain: &str, handle: usize, expr: &Value| json!({"rule": {"family": "inet", "table": "t", "chain": chain, "handle": handle, "expr": expr}});
    list.extend(rules.iter().enumerate().map(|(index, expr)| rule("input", index + 1, expr)));
    list.push(rule("other", 99, &json!([{"counter": "c"}, {"drop": null}])));
    json!({ "nftables": list }).to_string()
}

fn judged(policy: &str, rules: &[Value]) -> Verdict {
    let ruleset = parse(&table(policy, rules)).unwrap();
    assert_eq!(ruleset.unread, Vec::<String>::new());
    blocking(&ruleset, &syn()).remove(0)
}

/// Whether a single rule with this condition drops: `Some(false)` when it surely does not match.
fn matches(condition: &Value) -> Option<bool> {
    match judged("accept", &[json!([{"match": condition}, {"drop": null}])]).outcome {
        Outcome::Accepts => Some(false),
        Outcome::Drops(_) => Some(true),
        Outcome::CannotTell { .. } => None,
        other => panic!("{other:?}"),
    }
}

fn payload(protocol: &str, field: &str) -> Value {
    json!({"payload": {"protocol": protocol, "field": field}})
}

#[test]
fn comparisons_are_understood() {
    let is = |op: &str, left: Value, right: Value| matches(&json!({"op": op, "left": left, "right": right}));
    let meta = |key: &str| json!({"meta": {"key": key}});
    assert_eq!(is("==", payload("ip", "saddr"), json!("@probers")), Some(true));
    assert_eq!(is("!=", payload("ip", "saddr"), json!("@probers")), Some(false));
    assert_eq!(is("==", payload("ip", "saddr"), json!({"set": ["1.2.3.4", "168.63.129.16"]})), Some(true));
    assert_eq!(is("!=", payload("ip6", "saddr"), json!("fd00::1")), Some(false));
    assert_eq!(is("==", payload("tcp", "dport"), json!({"set": [22, {"range": [8000, 9000]}]})), Some(true));
    assert_eq!(is("!=", payload("udp", "dport"), json!(53)), Some(false));
    assert_eq!(is("==", payload("th", "dport"), json!(8008)), Some(true));
    assert_eq!(is(">=", payload("tcp", "dport"), json!(1024)), Some(true));
    assert_eq!(is("<", payload("tcp", "dport"), json!(1024)), Some(false));
    assert_eq!(is("==", meta("iifname"), json!({"set": ["lo", "eth*"]})), Some(true));
    assert_eq!(is("!=", meta("iif"), json!("eth1")), Some(false));
    assert_eq!(is("==", meta("oifname"), json!("eth1")), Some(false));
    assert_eq!(is("==", meta("l4proto"), json!({"set": ["tcp", "udp"]})), Some(true));
    assert_eq!(is("==", meta("nfproto"), json!("ipv6")), Some(false));
    assert_eq!(is("==", meta("pkttype"), json!({"set": ["broadcast", "multicast"]})), Some(false));
    assert_eq!(is("in", json!({"ct": {"key": "state"}}), json!(["established", "related"])), Some(false));
    assert_eq!(is("in", json!({"ct": {"key": "state"}}), json!("new")), Some(true));
    let masked = json!({"&": [payload("tcp", "flags"), ["fin", "syn", "rst", "ack"]]});
    assert_eq!(is("==", masked, json!("syn")), Some(true));
    let masked = json!({"&": [payload("tcp", "flags"), {"|": [{"|": ["syn", "ack"]}, "rst"]}]});
    assert_eq!(is("!=", masked, json!("syn")), Some(false));
    let both = json!({"concat": [payload("ip", "saddr"), payload("tcp", "dport")]});
    let rows = json!({"set": [{"concat": ["168.63.129.16", 80]}, {"concat": [{"prefix": {"addr": "168.0.0.0", "len": 8}}, {"range": [8000, 8010]}]}]});
    assert_eq!(is("==", both, rows), Some(true));
}

#[test]
fn what_depends_on_more_than_the_packet_cannot_be_told() {
    let is = |left: Value, right: Value| matches(&json!({"op": "==", "left": left, "right": right}));
    assert_eq!(is(json!({"meta": {"key": "mark"}}), json!(1)), None);
    assert_eq!(is(json!({"ct": {"key": "status"}}), json!("dnat")), None);
    assert_eq!(is(json!({"fib": {"result": "oif", "flags": ["saddr", "iif"]}}), json!(false)), None);
    assert_eq!(is(payload("ip", "dscp"), json!("cs1")), None);
    assert_eq!(is(payload("ip", "saddr"), json!("@nowhere")), None);
    // An ICMP rule has nothing to say about TCP, whatever it looks at.
    assert_eq!(is(payload("icmp", "type"), json!("echo-request")), Some(false));
    // A set that rules fill may have had the address at the time.
    let fill = json!([{"set": {"op": "add", "elem": payload("ip", "saddr"), "set": "@filled"}}]);
    let test =
        json!([{"match": {"op": "==", "left": payload("ip", "saddr"), "right": "@filled"}}, {"drop": null}]);
    assert!(matches!(judged("accept", std::slice::from_ref(&test)).outcome, Outcome::Accepts));
    assert!(matches!(judged("accept", &[fill, test]).outcome, Outcome::CannotTell { .. }));
}

#[test]
fn verdict_maps_and_chains_decide() {
    let vmap = |data: Value| {
        judged("accept", &[json!([{"vmap": {"key": payload("tcp", "dport"), "data": data}}])]).outcome
    };
    assert!(matches!(vmap(json!("@ports")), Outcome::Drops(place) if place.handle == Some(1)));
    assert!(matches!(vmap(json!({"set": [[22, {"drop": null}]]})), Outcome::Accepts));
    let Outcome::Drops(place) =
        vmap(json!({"set": [["*", {"accept": null}], [8008, {"jump": {"target": "other"}}]]}))
    else {
        panic!()
    };
    assert_eq!(
        (place.text(), place.counter),
        (
            "nft table inet t, chain other, handle 99: counter name \"c\" drop".to_owned(),
            Some(Counter { packets: 4, bytes: 240 })
        )
    );
    assert!(matches!(
        vmap(json!({"set": [["*", {"drop": null}], [8008, {"accept": null}]]})),
        Outcome::Accepts
    ));
    assert!(matches!(vmap(json!("@nowhere")), Outcome::CannotTell { .. }));
}

#[test]
fn unknown_statements_are_neither_conditions_nor_verdicts() {
    let unknown = |policy| judged(policy, &[json!([{"newfangled": {"x": 1}}, {"accept": null}])]).outcome;
    let Outcome::CannotTell { why, may } = unknown("drop") else { panic!() };
    assert!(why.contains("newfangled"), "{why}");
    assert_eq!(may.len(), 1);
    assert!(matches!(unknown("accept"), Outcome::CannotTell { .. }));
    let limited = judged("drop", &[json!([{"limit": {"rate": 5, "per": "second"}}, {"accept": null}])]);
    let Outcome::CannotTell { why, .. } = limited.outcome else { panic!() };
    assert_eq!(why, "rule 1 of chain input depends on `limit rate 5/second`");
}

#[test]
fn a_dormant_table_does_nothing_and_an_odd_one_may_not() {
    let with = |flags: Value| {
        let json =
            table("drop", &[]).replace("\"name\":\"t\"}}", &format!("\"name\":\"t\",\"flags\":{flags}}}}}"));
        blocking(&parse(&json).unwrap(), &syn())
    };
    assert_eq!(with(json!(["dormant"])), []);
    assert_eq!(with(json!("dormant")), []);
    assert!(with(json!(["owner"]))[0].stops().is_some());
    // nft 1.0.6 prints the table's name there.
    assert!(matches!(with(json!("t"))[0].outcome, Outcome::CannotTell { .. }));
}

#[test]
fn ingress_chains_hold_for_their_devices() {
    let mut ruleset = parse(RULESET).unwrap();
    let syn_at_ingress = Packet { hook: Hook::Ingress, ..syn() };
    assert!(matches!(blocking(&ruleset, &syn_at_ingress)[0].outcome, Outcome::CannotTell { .. }));
    let base = ruleset
        .chains
        .iter_mut()
        .find_map(|chain| chain.base.as_mut().filter(|base| base.hook == Hook::Ingress));
    base.unwrap().devices = Some(vec!["eth0".to_owned()]);
    let at = |name: &str| {
        let iif = Some(Device { index: 2, name: name.to_owned() });
        blocking(&ruleset, &Packet { hook: Hook::Ingress, iif, ..syn() })
    };
    assert!(at("eth0")[0].stops().is_some());
    assert_eq!(at("eth1"), []);
    let unknown = blocking(&ruleset, &Packet { hook: Hook::Ingress, iif: None, ..syn() });
    assert!(matches!(unknown[0].outcome, Outcome::CannotTell { .. }));
}

#[test]
fn rules_read_as_nft_prints_them() {
    let ruleset = parse(RULESET).unwrap();
    assert_eq!(ruleset.unread, Vec::<String>::new());
    let lines: Vec<String> = ruleset
        .chains
        .iter()
        .flat_map(|chain| {
            chain.rules.iter().map(move |rule| format!("{} {}: {}", chain.name, rule.handle, rule.text))
        })
        .collect();
    insta::assert_snapshot!("rules", lines.join("\n"));
    let probe = ruleset.chains[0].rules.iter().find(|rule| rule.text.contains("@probers")).unwrap();
    assert_eq!(probe.counter, Some(Counter { packets: 5, bytes: 300 }));
}

#[test]
fn the_way_through_a_busy_chain_is_found() {
    let ruleset = parse(RULESET).unwrap();
    let verdict = |packet: &Packet| {
        blocking(&ruleset, packet).into_iter().find(|verdict| verdict.chain == "input").unwrap().outcome
    };
    let Outcome::Drops(place) = verdict(&syn()) else { panic!("{:#?}", verdict(&syn())) };
    assert_eq!(
        place.text(),
        "nft table inet f, chain input, handle 17: ip saddr @probers tcp dport @ports counter packets 5 bytes 300 drop"
    );
    assert_eq!(verdict(&Packet { to_port: 22, ..syn() }), Outcome::Accepts);
    let ssh = Packet { iif: Some(Device { index: 2, name: "p0".to_owned() }), to_port: 22, ..syn() };
    assert!(
        matches!(verdict(&ssh), Outcome::Rejects(place) if place.rule.ends_with("reject with tcp reset"))
    );
    let stray = Packet { to_port: 9999, ct_state: Some(CtState::Invalid), ..syn() };
    assert!(matches!(verdict(&stray), Outcome::Drops(place) if place.handle == Some(21)));
}

fn any_json() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "match", "left", "right", "op", "in", "==", "!=", "set", "payload", "protocol", "ip", "saddr", "tcp",
        "dport", "meta", "key", "iifname", "ct", "state", "vmap", "data", "drop", "accept", "jump", "target",
        "other", "prefix", "addr", "len", "range", "concat", "&", "|", "elem", "val", "@probers", "@ports",
        "*", "counter", "limit", "mangle", "value", "mark", "xt", "type", "name",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
        "[0-9a-f:./]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((word.clone(), inner), 0..4).prop_map(|entries| Value::Object(
                entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            )),
        ]
    })
}

proptest! {
    #[test]
    fn any_json_is_taken(rules in prop::collection::vec(prop::collection::vec(any_json(), 0..4), 0..4), text in "\\PC*", loose in any_json()) {
        let rules: Vec<Value> = rules.into_iter().map(Value::from).collect();
        let ruleset = parse(&table("drop", &rules)).unwrap();
        blocking(&ruleset, &syn());
        let _ = parse(&text);
        let _ = parse(&json!({"nftables": [{"chain": loose.clone()}, {"rule": loose.clone()}, {"set": loose}]}).to_string());
    }
}
