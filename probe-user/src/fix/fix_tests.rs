use super::*;
use crate::host::{
    Facts, Unread,
    addresses::Address,
    fixture::{PROBER, add_rule, lookup, net, policy, route, t2, t2_primary},
    selection::Choice,
    tables::MAIN,
};

fn misroute(nic: &str, from: &str, to: &str) -> Misroute {
    Misroute { nic: nic.into(), from: from.parse().unwrap(), to: net(to), rule: None, route: None }
}

fn s01() -> Misroute {
    misroute("eth1", "10.4.3.101", PROBER)
}

fn planned(facts: &Facts, misroute: &Misroute) -> PolicyFix {
    plan(facts, std::slice::from_ref(misroute)).remove(0).unwrap()
}

fn text(fix: &PolicyFix) -> String {
    let fixes = render(fix);
    assert_eq!((fixes.len(), &*fixes[0].family, fixes[0].persistent), (1, "iproute2", false));
    fixes[0].text.clone()
}

#[test]
fn a_missing_policy_route_is_two_commands() {
    let fix = planned(&t2_primary(), &s01());
    insta::assert_snapshot!(text(&fix), @r"
    # Lost on reboot and network restart: repeat it in the configuration.
    # 'nvaprobe fix' words it for netplan, networkd, NetworkManager and others.
    # Assumed: the gateway is 10.4.3.1, the first address, as on Azure.
    ip route replace 168.63.129.16 via 10.4.3.1 dev eth1 table 201
    ip rule add from 10.4.3.101 to 168.63.129.16 lookup 201 priority 100
    ");
}

#[test]
fn a_gateway_that_a_route_names_is_not_assumed() {
    let mut facts = t2_primary();
    facts.routes.push(route(MAIN, "0.0.0.0/0", "10.4.3.254", "eth1"));
    facts.routes.push(route(MAIN, "192.168.0.0/16", "10.4.3.7", "eth1"));
    let fix = planned(&facts, &s01());
    assert_eq!(fix.gateway, "10.4.3.254".parse::<IpAddr>().unwrap());
    assert!(!fix.gateway_assumed && !fix.onlink);
    assert!(!text(&fix).contains("Assumed"));
}

#[test]
fn a_gateway_outside_the_subnet_is_on_link() {
    let mut facts = t2_primary();
    facts.addresses[2].net = "10.4.3.101/32".parse().unwrap();
    assert!(matches!(plan(&facts, &[s01()])[0], Err(NoFix::NoGateway(..))), "a /32 has no first address");
    facts.routes.push(route(MAIN, "0.0.0.0/0", "10.4.3.1", "eth1"));
    assert!(text(&planned(&facts, &s01())).contains("via 10.4.3.1 dev eth1 onlink table 201"));
}

#[test]
fn our_own_address_is_never_the_gateway() {
    let mut facts = t2_primary();
    facts.addresses[2].net = "10.4.3.1/24".parse().unwrap();
    let outcome = plan(&facts, &[misroute("eth1", "10.4.3.1", PROBER)]).remove(0);
    assert!(matches!(outcome, Err(NoFix::NoGateway(..))), "{outcome:?}");
}

#[test]
fn a_table_of_its_own_with_the_wrong_device_is_corrected_in_place() {
    // S10
    let mut facts = t2_primary();
    add_rule(&mut facts, policy(50, "10.4.3.101", 201));
    facts.routes.push(Route { metric: 7, ..route(201, PROBER, "10.4.2.1", "eth0") });
    let lookup = lookup(&facts, "10.4.3.101", 201);
    let Choice::Rule(rule) = lookup.rule.clone() else { panic!("{:?}", lookup.rule) };
    let wrong = Misroute { rule: Some(rule), route: lookup.chosen().unwrap().matched.clone(), ..s01() };
    let fix = planned(&facts, &wrong);
    assert_eq!((fix.table, fix.metric, fix.priority), (201, 7, None));
    assert!(
        text(&fix).ends_with("\nip route replace 168.63.129.16 via 10.4.3.1 dev eth1 table 201 metric 7")
    );

    // The same table serves another address too: it must stay as it is.
    add_rule(&mut facts, policy(51, "10.4.2.101", 201));
    let fix = planned(&facts, &wrong);
    assert_eq!((fix.table, fix.priority), (202, Some(49)));
}

#[test]
fn main_is_never_corrected_in_place() {
    let mut facts = t2_primary();
    add_rule(&mut facts, policy(50, "10.4.3.101", MAIN));
    let lookup = lookup(&facts, "10.4.3.101", MAIN);
    let Choice::Rule(rule) = lookup.rule else { panic!() };
    let fix = planned(&facts, &Misroute { rule: Some(rule), ..s01() });
    assert_eq!((fix.table, fix.priority), (201, Some(49)));
}

#[test]
fn the_priority_beats_every_rule_that_may_catch_the_reply() {
    let mut facts = t2_primary();
    facts.routes.push(route(300, "0.0.0.0/0", "10.4.2.1", "eth0"));
    let overlay = Rule { mark: Some((0x200, 0xf00)), ..Rule::all(false, 9, 300) };
    add_rule(&mut facts, overlay);
    add_rule(&mut facts, policy(8, "10.9.9.9", 300));
    // 8 is taken by a rule for somebody else.
    assert_eq!(planned(&facts, &s01()).priority, Some(7));

    // A rule whose table leads nowhere near the source does not matter.
    let mut facts = t2_primary();
    facts.routes.push(route(300, "10.0.0.0/8", "10.4.2.1", "eth0"));
    add_rule(&mut facts, Rule::all(false, 9, 300));
    assert_eq!(planned(&facts, &s01()).priority, Some(100));
}

#[test]
fn a_rule_that_cannot_be_beaten_is_named() {
    let mut facts = t2_primary();
    facts.routes.push(route(300, "0.0.0.0/0", "10.4.2.1", "eth0"));
    add_rule(&mut facts, Rule::all(false, 1, 300));
    let outcome = plan(&facts, &[s01()]).remove(0).unwrap_err();
    assert!(outcome.to_string().contains("'1: from all lookup 300'"), "{outcome}");
}

#[test]
fn a_table_is_free_only_if_nobody_uses_or_named_it() {
    let mut facts = t2_primary();
    facts.routes.push(route(201, "10.0.0.0/8", "10.4.2.1", "eth0"));
    add_rule(&mut facts, policy(5000, "10.9.9.9", 202));
    facts.tables.add("203 azure");
    facts.links.0[1].vrf_table = Some(204);
    assert_eq!(planned(&facts, &s01()).table, 205);
    for table in 205..=252 {
        facts.routes.push(route(table, "10.0.0.0/8", "10.4.2.1", "eth0"));
    }
    assert_eq!(plan(&facts, &[s01()]), [Err(NoFix::NoTable)]);
}

#[test]
fn several_nics_and_sources_fit_together() {
    let mut facts = t2_primary();
    facts.addresses.push(Address { link: 3, net: "10.4.3.102/24".parse().unwrap(), global: true });
    let plans: Vec<_> = plan(
        &facts,
        &[
            misroute("eth1", "10.4.3.101", "35.191.0.0/16"),
            misroute("eth0", "10.4.2.101", PROBER),
            misroute("eth1", "10.4.3.101", "130.211.0.0/22"),
            misroute("eth1", "10.4.3.102", "35.191.0.0/16"),
            misroute("eth1", "10.4.3.101", "35.191.0.0/16"),
        ],
    )
    .into_iter()
    .map(Result::unwrap)
    .collect();
    assert_eq!(plans.iter().map(|fix| fix.table).collect::<Vec<_>>(), [201, 202, 201, 201, 201]);
    assert_eq!(plans.iter().map(|fix| fix.priority.unwrap()).collect::<Vec<_>>(), [100, 99, 98, 97, 100]);
    assert_eq!(plans[0], plans[4]);
    assert!(text(&plans[0]).contains("to 35.191.0.0/16 lookup 201"));
}

#[test]
fn ipv6_uses_the_router_that_a_route_names() {
    let mut facts = t2();
    facts.addresses.push(Address { link: 3, net: "fd00:3::65/64".parse().unwrap(), global: true });
    let v6 = misroute("eth1", "fd00:3::65", "2600:2d00:1:b029::/64");
    assert!(matches!(plan(&facts, std::slice::from_ref(&v6))[0], Err(NoFix::NoGateway(..))));
    facts.routes.push(route(MAIN, "::/0", "fe80::1234:5678:9abc", "eth1"));
    let text = text(&planned(&facts, &v6));
    assert!(
        text.contains(
            "ip -6 route replace 2600:2d00:1:b029::/64 via fe80::1234:5678:9abc dev eth1 table 201\n\
         ip -6 rule add from fd00:3::65 to 2600:2d00:1:b029::/64 lookup 201 priority 100"
        ),
        "{text}"
    );
}

#[test]
fn no_fix_is_made_up_from_facts_that_are_missing() {
    let mut facts = t2_primary();
    facts.unread.push(Unread { what: "rules", why: "no".into() });
    assert_eq!(plan(&facts, &[s01()]), [Err(NoFix::NotRead("rules"))]);
    assert!(matches!(plan(&t2(), &[misroute("eth7", "10.4.3.101", PROBER)])[0], Err(NoFix::NoNic(_))));
    assert!(matches!(plan(&t2(), &[misroute("eth1", "fd00::1", PROBER)])[0], Err(NoFix::Families(..))));
}
