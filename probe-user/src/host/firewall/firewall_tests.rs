//! Rules as iptables-save prints them are the shortest way to write a chain down.

use proptest::prelude::*;

use super::{packet::Device, *};

/// A filter table whose INPUT has these rules.
fn input(policy: &str, rules: &str) -> Ruleset {
    let save = format!("*filter\n:INPUT {policy} [3:180]\n:own - [0:0]\n:other - [0:0]\n{rules}\nCOMMIT\n");
    let ruleset = legacy::parse(&save, Family::Ip);
    assert_eq!(ruleset.unread, Vec::<String>::new());
    ruleset
}

fn eth1() -> Device {
    Device { index: 3, name: "eth1".to_owned() }
}

fn syn() -> Packet {
    let (from, to) = ("168.63.129.16:50000".parse().unwrap(), "10.4.3.101:8008".parse().unwrap());
    Packet::syn(Hook::Input, eth1(), from, to)
}

fn syn_ack(hook: Hook) -> Packet {
    let (from, to) = ("10.4.3.101:8008".parse().unwrap(), "168.63.129.16:50000".parse().unwrap());
    Packet::syn_ack(hook, eth1(), from, to)
}

/// The only verdict in short: `accept`, `drop 3`, `reject policy`, `? 1 2`.
fn short(verdicts: &[Verdict]) -> String {
    let [verdict] = verdicts else { panic!("{verdicts:#?}") };
    let at = |place: &Place| place.handle.map_or("policy".to_owned(), |handle| handle.to_string());
    match &verdict.outcome {
        Outcome::Accepts => "accept".to_owned(),
        Outcome::Translates(place) => format!("translate {}", at(place)),
        Outcome::Drops(place) => format!("drop {}", at(place)),
        Outcome::Rejects(place) => format!("reject {}", at(place)),
        Outcome::CannotTell { may, .. } => format!("? {}", may.iter().map(at).collect::<Vec<_>>().join(" ")),
    }
}

fn verdict(policy: &str, rules: &str) -> String {
    short(&blocking(&input(policy, rules), &syn()))
}

#[test]
fn the_first_rule_that_matches_decides() {
    assert_eq!(verdict("ACCEPT", ""), "accept");
    assert_eq!(verdict("DROP", ""), "drop policy");
    assert_eq!(verdict("DROP", "-A INPUT -i eth0 -p tcp -m tcp --dport 8008 -j ACCEPT"), "drop policy");
    assert_eq!(verdict("DROP", "-A INPUT -i eth+ -p tcp -m tcp --dport 8000:9000 -j ACCEPT"), "accept");
    assert_eq!(verdict("ACCEPT", "-A INPUT -s 168.63.129.16/32 -j DROP\n-A INPUT -j ACCEPT"), "drop 1");
    assert_eq!(verdict("ACCEPT", "-A INPUT ! -s 10.0.0.0/8 -j REJECT --reject-with tcp-reset"), "reject 1");
    assert_eq!(verdict("ACCEPT", "-A INPUT -p udp -m udp ! --dport 53 -j DROP"), "accept");
    assert_eq!(verdict("ACCEPT", "-A INPUT -p tcp -m multiport ! --dports 22,80:90 -j DROP"), "drop 1");
    assert_eq!(verdict("ACCEPT", "-A INPUT -p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN -j DROP"), "drop 1");
    assert_eq!(verdict("DROP", "-A INPUT -m comment --comment \"the probe\" -j ACCEPT"), "accept");
    assert_eq!(verdict("ACCEPT", "-A INPUT -m state --state RELATED,ESTABLISHED -j DROP"), "accept");
    assert_eq!(verdict("ACCEPT", "-A INPUT -m conntrack ! --ctstate RELATED,ESTABLISHED -j DROP"), "drop 1");
    assert_eq!(
        verdict("ACCEPT", "-A INPUT -m iprange --src-range 168.63.129.1-168.63.129.99 -j DROP"),
        "drop 1"
    );
    assert_eq!(verdict("ACCEPT", "-A INPUT -f -j DROP"), "accept");
}

#[test]
fn chains_are_followed() {
    let jump = "-A INPUT -p tcp -j own\n-A INPUT -j DROP\n";
    assert_eq!(verdict("DROP", &format!("{jump}-A own -p tcp -m tcp --dport 8008 -j ACCEPT")), "accept");
    assert_eq!(verdict("ACCEPT", &format!("{jump}-A own -j RETURN\n-A own -j ACCEPT")), "drop 2");
    assert_eq!(
        verdict("ACCEPT", "-A INPUT -g own\n-A INPUT -j DROP\n-A own -s 1.2.3.4/32 -j DROP"),
        "accept"
    );
    assert_eq!(
        verdict("ACCEPT", "-A INPUT -j own\n-A own -j other\n-A own -j DROP\n-A other -j RETURN"),
        "drop 2"
    );
    let [found] = &*blocking(&input("ACCEPT", "-A INPUT -j own\n-A own -j DROP"), &syn()) else { panic!() };
    assert_eq!(found.stops().unwrap().text(), "iptables -t filter, chain own, rule 1: -j DROP");
}

#[test]
fn a_chain_that_calls_itself_is_given_up() {
    assert_eq!(verdict("ACCEPT", "-A INPUT -j own\n-A own -j own\n-A own -j DROP"), "? 2");
    let wide = "-A own -j other\n".repeat(100);
    let wide = format!("-A INPUT -j own\n{wide}{}", "-A other -j RETURN\n".repeat(3));
    assert_eq!(verdict("ACCEPT", &wide), "accept");
}

#[test]
fn what_is_not_understood_is_never_guessed() {
    assert_eq!(verdict("ACCEPT", "-A INPUT -m limit --limit 5/sec -j DROP"), "? 1");
    assert_eq!(verdict("DROP", "-A INPUT -m set --match-set allowed src -j ACCEPT"), "? policy");
    assert_eq!(verdict("ACCEPT", "-A INPUT -m mark --mark 0x1/0xff -j DROP"), "? 1");
    assert_eq!(verdict("ACCEPT", "-A INPUT -m string --string x --algo bm -j own\n-A own -j DROP"), "? 1");
    assert_eq!(verdict("ACCEPT", "-A INPUT -p tcp -j NFQUEUE --queue-num 3"), "? ");
    assert_eq!(verdict("ACCEPT", "-A INPUT -m limit --limit 5/sec -j REJECT\n-A INPUT -j DROP"), "? 1 2");
    let [found] = &*blocking(&input("DROP", "-A INPUT -m rpfilter --validmark -j ACCEPT"), &syn()) else {
        panic!()
    };
    let Outcome::CannotTell { why, .. } = &found.outcome else { panic!("{found:#?}") };
    assert_eq!(why, "rule 1 of chain INPUT depends on `-m rpfilter --validmark`");
}

#[test]
fn doubt_that_changes_nothing_is_none() {
    assert_eq!(verdict("ACCEPT", "-A INPUT -m limit --limit 5/sec -j ACCEPT"), "accept");
    assert_eq!(verdict("DROP", "-A INPUT -m limit --limit 5/sec -j DROP"), "drop policy");
    assert_eq!(verdict("ACCEPT", "-A INPUT -p udp -m limit --limit 5/sec -j DROP"), "accept");
    assert_eq!(verdict("ACCEPT", "-A INPUT -m limit --limit 5/sec -j LOG --log-prefix \"in: \""), "accept");
    assert_eq!(verdict("ACCEPT", "-A INPUT -m limit --limit 5/sec -j own\n-A own -j RETURN"), "accept");
    assert_eq!(
        verdict("ACCEPT", "-A INPUT -j own\n-A INPUT -j DROP\n-A own -m limit --limit 1/sec -j RETURN"),
        "drop 2"
    );
    assert_eq!(
        verdict("ACCEPT", "-A INPUT -j own\n-A own -m limit --limit 1/sec -j RETURN\n-A own -j DROP"),
        "? 2"
    );
}

#[test]
fn marks_that_rules_set_are_known() {
    let mark = |set: &str, test: &str| {
        verdict(
            "ACCEPT",
            &format!(
                "-A INPUT {set} -j MARK --set-xmark 0x1/0xffffffff\n-A INPUT -m mark --mark {test} -j DROP"
            ),
        )
    };
    assert_eq!(mark("-p tcp", "0x1"), "drop 2");
    assert_eq!(mark("-p tcp", "0x2"), "accept");
    assert_eq!(mark("-m limit --limit 5/sec", "0x1"), "? 2");
}

#[test]
fn tables_are_asked_in_the_order_of_the_kernel() {
    let save = "*filter\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n*raw\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n*security\n:OUTPUT ACCEPT [0:0]
[2:120] -A OUTPUT -d 168.63.129.16/32 -p tcp -m owner --uid-owner 0 -j ACCEPT
[7:420] -A OUTPUT -d 168.63.129.16/32 -p tcp -j DROP\nCOMMIT\n*nat\n:OUTPUT DROP [0:0]\nCOMMIT\n*mangle\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n";
    let ruleset = legacy::parse(save, Family::Ip);
    let verdicts = |owner| blocking(&ruleset, &Packet { owner, ..syn_ack(Hook::Output) });
    let order: Vec<_> = verdicts(Owner::User(7)).iter().map(|verdict| verdict.table.clone()).collect();
    // The answer to a SYN is no first packet: nat does not see it.
    assert_eq!(order, ["raw", "mangle", "filter", "security"]);
    let stops = |owner| verdicts(owner).iter().find_map(Verdict::stops).cloned();
    let place = stops(Owner::User(7)).expect("dropped");
    assert_eq!((place.handle, place.counter), (Some(2), Some(Counter { packets: 7, bytes: 420 })));
    assert_eq!(stops(Owner::Nobody), Some(place));
    assert_eq!(stops(Owner::User(0)), None);
    assert!(matches!(verdicts(Owner::Unknown)[3].outcome, Outcome::CannotTell { .. }));
}

#[test]
fn before_conntrack_every_packet_is_invalid_and_notrack_stays() {
    let save = "*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -m conntrack --ctstate INVALID -j own\n:own - [0:0]
-A own -j CT --notrack\nCOMMIT\n*mangle\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -m conntrack --ctstate UNTRACKED -j DROP\nCOMMIT\n";
    let save = save.replace(
        ":PREROUTING ACCEPT [0:0]\n-A PREROUTING -m conntrack --ctstate INVALID -j own\n:own - [0:0]",
        ":PREROUTING ACCEPT [0:0]\n:own - [0:0]\n-A PREROUTING -m conntrack --ctstate INVALID -j own",
    );
    let verdicts = blocking(&legacy::parse(&save, Family::Ip), &Packet { hook: Hook::Prerouting, ..syn() });
    assert_eq!(verdicts[0].outcome, Outcome::Accepts);
    assert!(verdicts[1].stops().is_some(), "{verdicts:#?}");
}

#[test]
fn after_a_translation_nothing_is_sure() {
    let save = "*nat\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -p tcp -m tcp --dport 8008 -j DNAT --to-destination 10.9.0.10:80\nCOMMIT\n";
    let mut ruleset = legacy::parse(save, Family::Ip);
    let later = input("ACCEPT", "-A INPUT -p tcp -m tcp --dport 80 -j DROP").chains.remove(0);
    let base = Base { hook: Hook::Prerouting, priority: 10, ..later.base.clone().unwrap() };
    ruleset.chains.push(Chain { base: Some(base), ..later });
    let verdicts = blocking(&ruleset, &Packet { hook: Hook::Prerouting, ..syn() });
    assert!(
        matches!(&verdicts[0].outcome, Outcome::Translates(place) if place.rule.ends_with("10.9.0.10:80"))
    );
    assert!(matches!(verdicts[1].outcome, Outcome::CannotTell { .. }));
}

#[test]
fn a_list_of_another_family_is_not_asked() {
    let ruleset = legacy::parse("*filter\n:INPUT DROP [0:0]\nCOMMIT\n", Family::Ip6);
    assert_eq!(blocking(&ruleset, &syn()), []);
    let (from, to) = ("[fe80::1234:5678:9abc]:50000".parse().unwrap(), "[fd00:3::65]:8008".parse().unwrap());
    let v6 = Packet::syn(Hook::Input, eth1(), from, to);
    assert_eq!(short(&blocking(&ruleset, &v6)), "drop policy");
    let rule =
        "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -s fe80::/10 -p tcp -m tcp --dport 8008 -j DROP\nCOMMIT\n";
    assert_eq!(short(&blocking(&legacy::parse(rule, Family::Ip6), &v6)), "drop 1");
}

#[test]
fn words_are_split_as_iptables_quotes_them() {
    assert_eq!(
        iptables::split(r#"-m comment --comment "a \"b\" c" -j X"#),
        ["-m", "comment", "--comment", "a \"b\" c", "-j", "X"]
    );
    assert_eq!(iptables::split("  "), Vec::<String>::new());
    assert_eq!(iptables::split(r#"--x """#), ["--x", ""]);
}

fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "-s",
        "-d",
        "-p",
        "-i",
        "!",
        "-m",
        "tcp",
        "multiport",
        "--dports",
        "--dport",
        "1:2",
        "mark",
        "--mark",
        "0x1/0xf",
        "conntrack",
        "--ctstate",
        "NEW",
        "-j",
        "-g",
        "own",
        "ACCEPT",
        "DROP",
        "-f",
        "10.0.0.0/8",
        "owner",
        "--uid-owner",
        "comment",
        "--comment",
        "\"x",
        "MARK",
        "--set-xmark",
        "other",
        "RETURN",
        "limit",
        "--tcp-flags",
        "SYN,ACK",
    ])
    .prop_map(str::to_owned)
}

proptest! {
    #[test]
    fn any_words_are_taken(rules in prop::collection::vec(prop::collection::vec(word(), 0..9), 0..6), noise in "\\PC*") {
        let rules: Vec<_> = rules
            .iter()
            .enumerate()
            .map(|(index, words)| format!("-A {} {}", ["INPUT", "own", "other"][index % 3], words.join(" ")))
            .collect();
        let save = format!("*filter\n:INPUT DROP [0:0]\n:own - [0:0]\n:other - [0:0]\n{}\n{noise}\nCOMMIT", rules.join("\n"));
        blocking(&legacy::parse(&save, Family::Ip), &syn());
        legacy::parse(&noise, Family::Ip6);
    }
}
