use proptest::{prelude::*, sample::Index};

use super::*;
use crate::host::{
    Unread,
    fixture::{PROBER, add_rule, net, policy, route, t2_primary},
    tables::{LOCAL, MAIN},
};

fn packet(from: &str) -> Packet<'static> {
    Packet {
        from: Some(from.parse().unwrap()),
        to: PROBER.parse().unwrap(),
        oif: None,
        mark: 0,
        port: Some(8008),
    }
}

/// S09: eth1's replies by a table of its own.
fn s09() -> Facts {
    let mut facts = t2_primary();
    add_rule(&mut facts, policy(100, "10.4.3.101", 201));
    facts.routes.push(route(201, PROBER, "10.4.3.1", "eth1"));
    for address in ["10.4.2.101", "10.4.3.101"] {
        facts.routes.push(Route { kind: RouteKind::Local, scope: 254, ..route(LOCAL, address, "", "eth1") });
    }
    facts
}

fn told(from: &str, before: &Facts, after: &Facts) -> Vec<String> {
    deciding(&packet(from), before, after).iter().map(|change| change.text(before, after)).collect()
}

#[test]
fn s12_the_rule_that_vanished_concerns_its_nic_alone() {
    let before = s09();
    let mut after = before.clone();
    after.rules.retain(|rule| rule.priority != 100);
    let words = "policy rule 100: from 10.4.3.101 to 168.63.129.16 lookup 201 vanished";
    assert_eq!(told("10.4.3.101", &before, &after), [words]);
    assert_eq!(told("10.4.2.101", &before, &after), Vec::<String>::new());
    assert_eq!(told("10.4.3.101", &after, &before), [words.replace("vanished", "appeared")]);
}

#[test]
fn s50_the_local_address_that_vanished() {
    let before = s09();
    let mut after = before.clone();
    after.routes.retain(|route| route.kind != RouteKind::Local || route.destination != net("10.4.3.101"));
    let words = "local address local 10.4.3.101 dev eth1 scope host, table local vanished";
    assert_eq!(told("10.4.3.101", &before, &after), [words]);
    // With its address it is said once.
    after.addresses.retain(|address| address.net.addr() != packet("10.4.3.101").from.unwrap());
    assert_eq!(told("10.4.3.101", &before, &after), ["address 10.4.3.101/24 on eth1 vanished"]);
    assert_eq!(told("10.4.2.101", &before, &after), Vec::<String>::new());
}

#[test]
fn a_route_counts_where_it_is_used() {
    let before = s09();
    let changed = |change: &dyn Fn(&mut Facts)| {
        let mut after = before.clone();
        change(&mut after);
        [told("10.4.2.101", &before, &after), told("10.4.3.101", &before, &after)]
    };
    // The table that only eth1 asks.
    let [eth0, eth1] = changed(&|facts| facts.routes.retain(|route| route.table != 201));
    assert_eq!(
        (eth0.len(), &*eth1),
        (0, &["route 168.63.129.16 via 10.4.3.1 dev eth1, table 201 vanished".to_owned()][..])
    );
    // The other way in the same place.
    let [_, eth1] = changed(&|facts| {
        facts.routes.retain(|route| route.table != 201);
        facts.routes.push(route(201, PROBER, "10.4.2.1", "eth0"));
    });
    assert_eq!(
        eth1,
        [
            "route 168.63.129.16 via 10.4.3.1 dev eth1, table 201 became 168.63.129.16 via 10.4.2.1 dev eth0, table 201"
        ]
    );
    // A default route beneath the host route, a subnet, a rule behind the deciding one, a rule of an empty table.
    let nobodys = changed(&|facts| {
        facts.routes.push(route(MAIN, "0.0.0.0/0", "10.4.2.1", "eth0"));
        facts.routes.push(route(MAIN, "10.9.0.0/24", "", "eth0"));
        add_rule(facts, Rule::all(false, 32766, 202));
        add_rule(facts, Rule::all(false, 40000, 203));
        add_rule(facts, policy(50, "10.4.3.101", 204));
    });
    assert_eq!(nobodys, [Vec::<String>::new(), Vec::new()]);
    // A rule for marked packets before it may be meant.
    let [eth0, _] =
        changed(&|facts| add_rule(facts, Rule { mark: Some((1, u32::MAX)), ..Rule::all(false, 10, 201) }));
    assert_eq!(eth0, ["policy rule 10: from all fwmark 0x1 lookup 201 appeared"]);
    // One that throws is no answer; one that is suppressed neither.
    let [eth0, _] = changed(&|facts| {
        add_rule(facts, Rule::all(false, 20, 205));
        facts.routes.push(Route { kind: RouteKind::Throw, ..route(205, "0.0.0.0/0", "", "eth0") });
        add_rule(facts, Rule { suppress_prefix_length: Some(0), ..Rule::all(false, 21, 206) });
        facts.routes.push(route(206, "0.0.0.0/0", "10.4.2.1", "eth0"));
    });
    assert_eq!(eth0, Vec::<String>::new());
}

#[test]
fn what_was_not_read_has_not_changed() {
    let before = s09();
    let mut after = before.clone();
    after.rules.clear();
    after.unread.push(Unread { what: "rules", why: "netlink gave no answer".to_owned() });
    assert_eq!(diff(&before, &after), []);
    assert_eq!(diff(&after, &before), []);
}

#[test]
fn only_what_can_matter_is_kept() {
    let mut facts = s09();
    facts.routes.push(route(MAIN, "192.0.2.0/24", "10.4.2.1", "eth0"));
    facts.routes.push(route(MAIN, "0.0.0.0/0", "10.4.2.1", "eth0"));
    let kept = about(facts, &[net(PROBER)]);
    let names: Vec<_> = kept.routes.iter().map(Route::text).collect();
    assert!(!names.iter().any(|text| text.contains("192.0.2") || text.contains("10.4.2.0/24")), "{names:?}");
    assert_eq!(kept.routes.len(), 5, "{names:?}");
}

/// A handful of items, so that the same ones come up on both sides, some twice.
fn item() -> impl Strategy<Value = Item> {
    let address = (2u32..4, prop::sample::select(vec!["10.4.2.101/24", "10.4.2.101/16", "fd00::1/64"]))
        .prop_map(|(link, net)| Item::Address(Address { link, net: net.parse().unwrap(), global: true }));
    let rule = (prop::sample::select(vec![0u32, 100, 32766]), 200u32..203, any::<bool>())
        .prop_map(|(priority, table, v6)| Item::Rule(Rule::all(v6, priority, table)));
    let destination = prop::sample::select(vec![PROBER, "0.0.0.0/0", "10.4.2.0/24"]);
    let hop = prop::sample::select(vec![("10.4.2.1", "eth0"), ("10.4.3.1", "eth1"), ("", "eth1")]);
    let route =
        (200u32..202, destination, hop, 0u32..2).prop_map(|(table, to, (gateway, device), metric)| {
            Item::Route(Route { metric, ..route(table, to, gateway, device) })
        });
    prop_oneof![address, rule, route]
}

fn facts(items: &[Item]) -> Facts {
    let mut facts = Facts::default();
    for item in items {
        match item.clone() {
            Item::Address(address) => facts.addresses.push(address),
            Item::Rule(rule) => facts.rules.push(rule),
            Item::Route(route) => facts.routes.push(route),
        }
    }
    facts
}

fn apply(mut items: Vec<Item>, changes: &[Change]) -> Vec<Item> {
    for change in changes {
        if let Some(gone) = change.gone() {
            let at = items.iter().position(|item| item == gone).expect("what vanishes was there");
            items.swap_remove(at);
        }
        items.extend(change.come().cloned());
    }
    items.sort();
    items
}

fn back(changes: &[Change]) -> Vec<Change> {
    let mut back: Vec<_> = changes
        .iter()
        .map(|change| match change.clone() {
            Change::Vanished(item) => Change::Appeared(item),
            Change::Appeared(item) => Change::Vanished(item),
            Change::Replaced(from, to) => Change::Replaced(to, from),
        })
        .collect();
    back.sort();
    back
}

proptest! {
    #[test]
    fn a_difference_leads_there_and_back(
        before in prop::collection::vec(item(), 0..12), after in prop::collection::vec(item(), 0..12),
    ) {
        let changes = diff(&facts(&before), &facts(&after));
        let sorted = |items: &[Item]| { let mut items = items.to_vec(); items.sort(); items };
        prop_assert_eq!(apply(before.clone(), &changes), sorted(&after));
        let reversed = diff(&facts(&after), &facts(&before));
        prop_assert_eq!(&reversed, &back(&changes));
        prop_assert_eq!(apply(after.clone(), &reversed), sorted(&before));
        prop_assert_eq!(changes.is_empty(), sorted(&before) == sorted(&after));
        // Nothing is said to become what it is.
        prop_assert!(changes.iter().all(|change| change.gone() != change.come()));
    }

    #[test]
    fn the_order_of_a_listing_says_nothing(
        items in prop::collection::vec(item(), 0..12), others in prop::collection::vec(item(), 0..12),
        swaps in prop::collection::vec(any::<(Index, Index)>(), 0..12),
    ) {
        let mut shuffled = items.clone();
        for (a, b) in swaps.iter().filter(|_| !items.is_empty()) {
            shuffled.swap(a.index(items.len()), b.index(items.len()));
        }
        prop_assert_eq!(diff(&facts(&items), &facts(&others)), diff(&facts(&shuffled), &facts(&others)));
        prop_assert_eq!(diff(&facts(&items), &facts(&shuffled)), vec![]);
    }

    #[test]
    fn what_decides_is_some_of_what_changed(
        before in prop::collection::vec(item(), 0..12), after in prop::collection::vec(item(), 0..12),
    ) {
        let (before, after) = (facts(&before), facts(&after));
        let all = diff(&before, &after);
        let deciding = deciding(&packet("10.4.2.101"), &before, &after);
        prop_assert!(deciding.iter().all(|change| all.contains(change)));
    }
}
