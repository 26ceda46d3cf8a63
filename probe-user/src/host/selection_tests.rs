use super::*;
use crate::host::{
    fixture::{PROBER, net},
    routes::NextHop,
    tables,
};

fn packet() -> Packet<'static> {
    Packet {
        from: Some("10.4.3.101".parse().unwrap()),
        to: PROBER.parse().unwrap(),
        oif: None,
        mark: 0,
        port: Some(8008),
    }
}

fn defaults() -> Vec<Rule> {
    vec![
        Rule::all(false, 0, tables::LOCAL),
        Rule::all(false, 32766, tables::MAIN),
        Rule::all(false, 32767, tables::DEFAULT),
        Rule::all(true, 0, tables::LOCAL),
        Rule::all(true, 32766, tables::MAIN),
    ]
}

fn with(rule: Rule) -> Vec<Rule> {
    let mut rules = defaults();
    rules.push(rule);
    rules.sort_by_key(|rule| (rule.ipv6, rule.priority));
    rules
}

fn policy(priority: u32) -> Rule {
    Rule { from: Some(net("10.4.3.101")), to: Some(net(PROBER)), ..Rule::all(false, priority, 201) }
}

fn route(table: u32, destination: &str, kind: RouteKind) -> Route {
    Route {
        table,
        kind,
        destination: net(destination),
        source: None,
        next_hops: vec![NextHop { link: 2, device: "eth0".into(), gateway: None }],
        preferred_source: None,
        protocol: 3,
        scope: 0,
        metric: 0,
    }
}

fn chosen(rules: &[Rule], answer: Answer) -> Choice {
    select(rules, &[], &packet(), answer).0
}

#[test]
fn main_is_reached_by_its_rule() {
    assert_eq!(
        chosen(&defaults(), Answer::Table(tables::MAIN, Some(32))),
        Choice::Rule(Rule::all(false, 32766, tables::MAIN))
    );
}

#[test]
fn a_policy_rule_is_named_for_its_table_and_skipped_for_another() {
    let rules = with(policy(100));
    assert_eq!(chosen(&rules, Answer::Table(201, Some(32))), Choice::Rule(policy(100)));
    // Table 201 is empty: the kernel went on to main.
    assert!(
        matches!(chosen(&rules, Answer::Table(tables::MAIN, Some(0))), Choice::Rule(rule) if rule.priority == 32766)
    );
}

#[test]
fn selectors_decide() {
    let p = packet();
    assert_eq!(fit(&policy(1), &p), Fit::Yes);
    assert_eq!(fit(&Rule { from: Some(net("10.4.2.0/24")), ..policy(1) }, &p), Fit::No);
    assert_eq!(fit(&Rule { from: Some(net("10.4.2.0/24")), invert: true, ..policy(1) }, &p), Fit::Yes);
    assert_eq!(fit(&Rule { invert: true, ..policy(1) }, &p), Fit::No);
    assert_eq!(fit(&Rule { iif: Some("eth1".into()), ..policy(1) }, &p), Fit::No);
    assert_eq!(fit(&Rule { iif: Some("lo".into()), ..policy(1) }, &p), Fit::Yes);
    assert_eq!(fit(&Rule { oif: Some("eth1".into()), ..policy(1) }, &p), Fit::No);
    assert_eq!(
        fit(&Rule { oif: Some("eth1".into()), ..policy(1) }, &Packet { oif: Some("eth1"), ..p }),
        Fit::Yes
    );
    assert_eq!(fit(&Rule { mark: Some((1, 0xff)), ..policy(1) }, &p), Fit::No);
    assert_eq!(fit(&Rule { mark: Some((1, 0xff)), ..policy(1) }, &Packet { mark: 0x101, ..p }), Fit::Yes);
    assert_eq!(fit(&Rule { source_ports: Some((8000, 8009)), ..policy(1) }, &p), Fit::Yes);
    assert_eq!(fit(&Rule { source_ports: Some((80, 80)), ..policy(1) }, &p), Fit::No);
    assert_eq!(fit(&Rule { ip_protocol: Some(17), ..policy(1) }, &p), Fit::No);
    assert_eq!(fit(&Rule { tos: 0x10, ..policy(1) }, &p), Fit::No);
    assert_eq!(fit(&Rule { ipv6: true, from: None, to: None, ..policy(1) }, &p), Fit::No);
    for doubtful in [
        Rule { destination_ports: Some((1, 2)), ..policy(1) },
        Rule { uids: Some((0, 0)), ..policy(1) },
        Rule { unknown_selectors: true, ..policy(1) },
    ] {
        assert!(matches!(fit(&doubtful, &p), Fit::Unsure(_)), "{doubtful:?}");
    }
}

#[test]
fn a_doubtful_rule_before_a_sure_one_makes_the_answer_unsure() {
    let earlier = Rule { uids: Some((0, 0)), ..Rule::all(false, 50, 201) };
    let mut rules = with(earlier.clone());
    assert_eq!(
        chosen(&rules, Answer::Table(201, None)),
        Choice::Unsure(earlier, "it depends on the user that owns the socket")
    );
    rules.insert(2, policy(100));
    assert!(
        matches!(chosen(&rules, Answer::Table(201, None)), Choice::Unsure(rule, _) if rule.priority == 100)
    );
}

#[test]
fn suppressed_answers_go_to_the_next_rule() {
    // wg-quick's pair: main without its default, then the tunnel's table.
    let rules = with(Rule { suppress_prefix_length: Some(0), ..Rule::all(false, 10, tables::MAIN) });
    assert!(
        matches!(chosen(&rules, Answer::Table(tables::MAIN, Some(32))), Choice::Rule(rule) if rule.priority == 10)
    );
    assert!(
        matches!(chosen(&rules, Answer::Table(tables::MAIN, Some(0))), Choice::Rule(rule) if rule.priority == 32766)
    );
    assert!(matches!(chosen(&rules, Answer::Table(tables::MAIN, None)), Choice::Unsure(..)));
}

#[test]
fn goto_skips_the_rules_between() {
    let mut rules = with(Rule { action: Action::Goto(32766), ..Rule::all(false, 5, 0) });
    rules.insert(2, policy(100));
    assert_eq!(chosen(&rules, Answer::Table(201, Some(32))), Choice::Unknown);
    assert!(
        matches!(chosen(&rules, Answer::Table(tables::MAIN, Some(32))), Choice::Rule(rule) if rule.priority == 32766)
    );
}

#[test]
fn a_vrf_table_is_not_pinned_on_a_rule_for_sure() {
    let rules = with(Rule { action: Action::L3mdev, ..Rule::all(false, 1000, 0) });
    assert_eq!(chosen(&rules, Answer::Table(100, Some(32))), Choice::Unknown);
    let bound = Packet { oif: Some("eth1"), ..packet() };
    let (choice, _) = select(&rules, &[], &bound, Answer::Table(100, Some(32)));
    assert!(matches!(choice, Choice::Unsure(rule, _) if rule.priority == 1000));
}

#[test]
fn a_rejection_names_its_rule_and_its_route() {
    let routes = [
        route(tables::MAIN, "0.0.0.0/0", RouteKind::Unicast),
        route(tables::MAIN, PROBER, RouteKind::Unreachable),
    ];
    let (choice, by) = select(&defaults(), &routes, &packet(), Answer::Rejected);
    assert!(matches!(choice, Choice::Rule(rule) if rule.priority == 32766));
    assert_eq!(by.unwrap().kind, RouteKind::Unreachable);

    let rules = with(Rule { action: Action::Prohibit, ..policy(7) });
    assert!(
        matches!(select(&rules, &[], &packet(), Answer::Rejected), (Choice::Rule(rule), None) if rule.priority == 7)
    );
    assert_eq!(select(&defaults(), &[], &packet(), Answer::Rejected).0, Choice::Unknown);
}

#[test]
fn the_longest_prefix_wins_then_the_lowest_metric() {
    let metric = |metric, device: &str| Route {
        metric,
        next_hops: vec![NextHop { link: 2, device: device.into(), gateway: None }],
        ..route(tables::MAIN, "168.63.0.0/16", RouteKind::Unicast)
    };
    let mut routes =
        vec![route(tables::MAIN, "0.0.0.0/0", RouteKind::Unicast), metric(200, "b"), metric(100, "a")];
    assert_eq!(best(&routes, tables::MAIN, &packet()).unwrap().next_hops[0].device, "a");
    routes.push(route(201, PROBER, RouteKind::Unicast));
    assert_eq!(best(&routes, tables::MAIN, &packet()).unwrap().destination, net("168.63.0.0/16"));
    assert_eq!(best(&routes, 7, &packet()), None);
}

#[test]
fn rules_read_as_ip_rule_prints_them() {
    let names = tables::TableNames::default();
    assert_eq!(Rule::all(false, 32766, 254).text(&names), "32766: from all lookup main");
    assert_eq!(policy(5).text(&names), "5: from 10.4.3.101 to 168.63.129.16 lookup 201");
    let rule = Rule {
        invert: true,
        mark: Some((3, u32::MAX)),
        oif: Some("eth1".into()),
        source_ports: Some((5, 10)),
        destination_ports: Some((5, 5)),
        action: Action::Unreachable,
        protocol: 4,
        ..Rule::all(false, 12, 0)
    };
    assert_eq!(
        rule.text(&names),
        "12: not from all fwmark 0x3 oif eth1 sport 5-10 dport 5 unreachable proto static"
    );
}
