use super::*;
use crate::{
    host::{
        firewall::{Action, Backend, Base, Chain, Family, Hook, Rule, Ruleset, Statement},
        fixture::{PROBER, add_rule, lookup, net, policy, route, t2, t2_primary},
        lookup::{Outcome, Rejection},
        neighbours::{Neighbour, Resolution},
        rules,
        selection::Choice,
        sockets::Detail,
        sysctls::{DeviceSysctls, Sysctls},
        tables::MAIN,
    },
    report::document::{Hearing, RpFilter},
};

fn source() -> Source {
    Source { net: net(PROBER), peer_id: 1 }
}

fn on_eth1(source: &Source, port: Option<u16>) -> Question<'_> {
    let (address, peer) = ("10.4.3.101".parse().unwrap(), PROBER.parse().unwrap());
    Question { nic: 3, address, port, standby: false, source, peer }
}

/// The kernel's answer by a table.
fn by(facts: &Facts, table: u32) -> Ways {
    let reply = lookup(facts, "10.4.3.101", table);
    Ways { reverse: reply.clone(), reply }
}

fn rejected(rejection: Rejection) -> Ways {
    let query = Query::reply("10.4.3.101".parse().unwrap(), 8008, PROBER.parse().unwrap(), 3);
    let reply = RouteLookup { query, outcome: Outcome::Rejected(rejection, None), rule: Choice::Unknown };
    Ways { reverse: reply.clone(), reply }
}

fn judged(facts: &Facts, ways: &Ways, port: Option<u16>) -> Prediction {
    let source = source();
    judge::judge(facts, &on_eth1(&source, port), ways)
}

fn filtering(mut facts: Facts, rp_filter: u8) -> Facts {
    let device = |value| DeviceSysctls {
        rp_filter: Some(value),
        src_valid_mark: Some(false),
        ..DeviceSysctls::default()
    };
    let devices = [("eth0".to_owned(), device(0)), ("eth1".to_owned(), device(0))].into();
    facts.sysctls = Sysctls { all: device(rp_filter), devices, ..Sysctls::default() };
    facts
}

fn s09() -> Facts {
    let mut facts = t2_primary();
    add_rule(&mut facts, policy(100, "10.4.3.101", 201));
    facts.routes.push(route(201, PROBER, "10.4.3.1", "eth1"));
    facts
}

fn listening(mut facts: Facts, address: &str, device: Option<u32>) -> Facts {
    let detail = Detail { device, queue: 0, backlog: 128, v6_only: None, uid: 0 };
    facts.listeners.push(Listener { detail: Some(detail), ..Listener::new(address.parse().unwrap(), 8008) });
    facts
}

#[test]
fn s01_and_s23_the_route_and_the_reverse_path_filter() {
    for (value, filter) in [(0, RpFilter::Pass), (1, RpFilter::Drop), (2, RpFilter::Pass)] {
        let facts = filtering(t2_primary(), value);
        let told = judged(&facts, &by(&facts, MAIN), None);
        assert_eq!((told.rp_filter, told.fails, told.out_nic.as_deref()), (filter, true, Some("eth0")));
        assert!(told.text.ends_with("a reply to 168.63.129.16 would leave by eth0"), "{}", told.text);
        assert_eq!(told.text.contains("the reverse-path filter of eth1 would drop the probe"), value == 1);
        assert!(told.evidence.iter().any(|e| e.kind == "route" && e.text.contains("dev eth0")), "{told:#?}");
        assert_eq!(told.evidence.iter().any(|e| e.kind == "sysctl"), value == 1);
    }
    let told = judged(&t2_primary(), &by(&t2_primary(), MAIN), None);
    assert_eq!(told.rp_filter, RpFilter::Unknown, "nothing is known of it");
}

#[test]
fn s09_all_is_well() {
    for value in [0, 1, 2] {
        let facts = listening(filtering(s09(), value), "0.0.0.0", None);
        for port in [None, Some(8008)] {
            let told = judged(&facts, &by(&facts, 201), port);
            assert_eq!(
                (told.rp_filter, told.fails, told.out_nic.as_deref()),
                (RpFilter::Pass, false, Some("eth1"))
            );
            assert_eq!(told.text, "a reply to 168.63.129.16 would leave by eth1");
            assert_eq!(told.listener, port.map(|_| Hearing::Hears));
        }
    }
}

#[test]
fn s15_no_way_out() {
    for (value, filter) in [(0, RpFilter::Pass), (1, RpFilter::Drop), (2, RpFilter::Drop)] {
        let told = judged(&filtering(t2(), value), &rejected(Rejection::NoRoute), None);
        assert_eq!((told.rp_filter, told.fails, told.out_nic), (filter, true, None));
        assert!(
            told.text.ends_with("a reply to 168.63.129.16 would not leave: there is no route"),
            "{}",
            told.text
        );
    }
    // Not to know is no failure.
    let query = rejected(Rejection::NoRoute).reply.query;
    let unknown =
        RouteLookup { query, outcome: Outcome::Failed("no netlink".to_owned()), rule: Choice::Unknown };
    let told = judged(&filtering(t2(), 1), &Ways { reverse: unknown.clone(), reply: unknown }, None);
    assert_eq!((told.rp_filter, told.fails), (RpFilter::Unknown, false));
}

#[test]
fn who_listens_is_told_where_a_port_is_expected() {
    let told = |facts: &Facts| judged(facts, &by(facts, 201), Some(8008));
    let none = told(&s09());
    assert_eq!(
        (none.listener, none.fails, none.text.as_str()),
        (Some(Hearing::None), true, "nothing listens on port 8008")
    );
    let elsewhere = told(&listening(s09(), "10.4.2.101", None));
    assert_eq!((elsewhere.listener, elsewhere.fails), (Some(Hearing::Elsewhere), true));
    let other_device = told(&listening(s09(), "0.0.0.0", Some(2)));
    assert_eq!(other_device.listener, Some(Hearing::Elsewhere));
    let source = source();
    let standby = Question { standby: true, ..on_eth1(&source, Some(8008)) };
    let told = judge::judge(&s09(), &standby, &by(&s09(), 201));
    assert_eq!((told.listener, told.fails), (Some(Hearing::None), false));
    // Replies of a listener that is bound to the NIC leave by it: the kernel is asked so.
    let bound = listening(t2_primary(), "0.0.0.0", Some(3));
    assert_eq!(on_eth1(&source, Some(8008)).bound(&bound), Some(3));
    assert_eq!(on_eth1(&source, Some(9000)).bound(&bound), None);
}

#[test]
fn what_may_overrule_the_table_makes_it_no_failure() {
    // A mark that a filter or a socket may set.
    let mut facts = filtering(t2_primary(), 0);
    facts.routes.push(route(201, PROBER, "10.4.3.1", "eth1"));
    add_rule(&mut facts, rules::Rule { mark: Some((1, u32::MAX)), ..rules::Rule::all(false, 50, 201) });
    let told = judged(&facts, &by(&facts, MAIN), None);
    assert!(!told.fails, "{told:#?}");
    assert!(
        told.text.contains("unless the rule `50: from all fwmark 0x1 lookup 201` fits it"),
        "{}",
        told.text
    );
    // One that leads elsewhere, too, is no excuse.
    let mut facts = filtering(t2_primary(), 0);
    facts.routes.push(route(201, PROBER, "10.4.2.1", "eth0"));
    add_rule(&mut facts, rules::Rule { mark: Some((1, u32::MAX)), ..rules::Rule::all(false, 50, 201) });
    assert!(judged(&facts, &by(&facts, MAIN), None).fails);
    // A listener that is bound to the NIC, if that is the probed one.
    let facts = listening(filtering(t2_primary(), 0), "0.0.0.0", Some(3));
    let told = judged(&facts, &by(&facts, MAIN), None);
    assert!(!told.fails && told.text.contains("bound to eth1, as that of port 8008 is"), "{}", told.text);
    // A next hop that is silent now may speak when it is needed.
    let mut facts = filtering(s09(), 0);
    let (address, state) = ("10.4.3.1".parse().unwrap(), Resolution::Failed);
    facts.neighbours.push(Neighbour { address, link: 3, state, mac: None, router: false });
    let told = judged(&facts, &by(&facts, 201), None);
    assert!(
        !told.fails && told.text.contains("the next hop 10.4.3.1 on eth1 does not answer"),
        "{}",
        told.text
    );
}

fn chain(hook: Hook, drops: bool, rule: Option<(&str, Vec<Statement>)>) -> Ruleset {
    let base = Base {
        kind: "filter".to_owned(),
        hook,
        priority: 0,
        drops,
        counter: None,
        devices: Some(Vec::new()),
        active: Some(true),
    };
    let rules =
        rule.map(|(text, statements)| Rule { handle: 7, text: text.to_owned(), counter: None, statements });
    let chain = Chain {
        backend: Backend::Nft,
        family: Family::Ip,
        table: "security".to_owned(),
        name: "chain".to_owned(),
        base: Some(base),
        rules: rules.into_iter().collect(),
    };
    Ruleset { chains: vec![chain], unread: Vec::new() }
}

#[test]
fn a_drop_rule_that_names_the_source_counts_for_any_port() {
    let with = |firewall: Ruleset, port| {
        let facts = Facts { firewall, ..listening(s09(), "0.0.0.0", None) };
        judged(&facts, &by(&facts, 201), port)
    };
    let act = |action| vec![Statement::Act(action)];
    let named = "ip daddr 168.63.129.16 drop";
    let told = with(chain(Hook::Output, false, Some((named, act(Action::Drop)))), None);
    assert_eq!((told.fails, told.text.as_str()), (true, "the packet filter would drop the reply"));
    assert!(
        told.evidence.iter().any(|e| e.text.contains("handle 7: ip daddr 168.63.129.16 drop")),
        "{told:#?}"
    );
    let told =
        with(chain(Hook::Input, false, Some(("ip saddr 168.63.129.16 drop", act(Action::Drop)))), Some(8008));
    assert_eq!((told.fails, told.text.as_str()), (true, "the packet filter would drop the probe"));
    // A policy lets in what the port's own rule allows: without a port it says nothing, with one it does.
    assert!(!with(chain(Hook::Input, true, None), None).fails);
    assert!(with(chain(Hook::Input, true, None), Some(8008)).fails);
    assert!(!with(chain(Hook::Input, false, Some(("log", vec![Statement::Neutral]))), Some(8008)).fails);
    // What is not understood is no failure.
    let unclear = vec![Statement::Uncertain("xt match".to_owned()), Statement::Act(Action::Drop)];
    assert!(!with(chain(Hook::Input, false, Some((named, unclear))), Some(8008)).fails);
    // A probe that is translated is another's.
    let told = with(
        chain(
            Hook::Prerouting,
            false,
            Some(("dnat to 10.9.0.10", act(Action::Translate("dnat".to_owned())))),
        ),
        Some(8008),
    );
    assert!(!told.fails && told.text.contains("would be passed on"), "{told:#?}");
}

#[test]
fn every_global_address_of_a_judged_nic_is_asked_about() {
    let mut facts = t2();
    let mut address = facts.addresses[2].clone();
    address.net = "fd00::65/64".parse().unwrap();
    facts.addresses.push(address.clone());
    address.net = "fe80::1/64".parse().unwrap();
    address.global = false;
    facts.addresses.push(address);
    let sources = ["168.63.129.16", "fe80::1234:5678:9abc", "35.191.0.0/16"]
        .map(|text| Source { net: net(text), peer_id: 1 });
    let expected = |nic: &str, port, role| Expected {
        nic: nic.to_owned(),
        port,
        protocol: None,
        role,
        rules: crate::probe::Rules::default(),
    };
    let expected = [expected("eth1", 8008, Role::Active), expected("eth1", 8009, Role::Standby)];
    let nics = [2, 3].into();
    let asked: Vec<_> = questions(&facts, &nics, &sources, &expected)
        .iter()
        .map(|q| format!("{} {} {:?} {} {}", q.nic, q.address, q.port, q.peer, q.standby))
        .collect();
    insta::assert_snapshot!("questions", asked.join("\n"));
}
