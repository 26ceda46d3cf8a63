use super::*;
use crate::{
    host::{
        fixture::{PROBER, lookup, net, t2_primary},
        routes::NextHop,
        tables::MAIN,
    },
    source,
};

fn sources(more: &[&str]) -> Vec<Source> {
    more.iter()
        .zip(1..)
        .map(|(text, peer_id)| Source { net: source::parse(text).unwrap(), peer_id })
        .collect()
}

fn eth1(facts: &Facts) -> Reply {
    replies(facts, [3], &sources(&[PROBER])).remove(0)
}

#[test]
fn every_address_replies_to_every_source_of_its_family() {
    let mut facts = t2_primary();
    facts.addresses.push(crate::host::addresses::Address {
        link: 3,
        net: "fe80::1/64".parse().unwrap(),
        global: false,
    });
    let all = sources(&[PROBER, "35.191.0.0/16", "fe80::1234:5678:9abc", "2600::/64"]);
    let asked: Vec<_> =
        replies(&facts, [2, 3], &all).iter().map(|reply| (reply.nic, reply.to, reply.query.to)).collect();
    let first: IpAddr = "35.191.0.1".parse().unwrap();
    let (one, range) = (net(PROBER), net("35.191.0.0/16"));
    assert_eq!(asked, [(2, one, one.addr()), (2, range, first), (3, one, one.addr()), (3, range, first)]);
}

#[test]
fn the_way_is_right_only_by_the_nic_itself() {
    let facts = t2_primary();
    let wrong = judge(&facts, eth1(&facts), &lookup(&facts, "10.4.3.101", MAIN)).way;
    let Way::Wrong(words, misroute) = wrong else { panic!("{wrong:?}") };
    assert_eq!((words.as_str(), misroute.nic.as_str()), ("would leave by eth0", "eth1"));
    assert!(misroute.rule.is_some_and(|rule| rule.priority == 32766));
    let eth0 = replies(&facts, [2], &sources(&[PROBER])).remove(0);
    assert_eq!(judge(&facts, eth0, &lookup(&facts, "10.4.2.101", MAIN)).way, Way::Right);
}

/// One of several next hops is enough: some replies go astray.
#[test]
fn multipath_is_wrong_if_one_way_is() {
    let mut facts = t2_primary();
    let hop = |link, device: &str| NextHop { link, device: device.into(), gateway: None };
    facts.routes.last_mut().unwrap().next_hops = vec![hop(3, "eth1"), hop(2, "eth0")];
    let found = lookup(&facts, "10.4.3.101", MAIN);
    assert_eq!(found.chosen().unwrap().hop.device, "eth1");
    assert!(matches!(judge(&facts, eth1(&facts), &found).way, Way::Wrong(..)));
}

#[test]
fn no_answer_is_not_a_right_one() {
    let facts = t2_primary();
    let answer = |outcome| {
        let found = RouteLookup { outcome, ..lookup(&facts, "10.4.3.101", MAIN) };
        judge(&facts, eth1(&facts), &found).way
    };
    assert!(matches!(answer(Outcome::Failed("no".into())), Way::Unknown(_)));
    assert!(matches!(answer(Outcome::Rejected(Rejection::SourceNotLocal, None)), Way::Unknown(_)));
    for rejection in [Rejection::NoRoute, Rejection::Blackhole, Rejection::Unreachable, Rejection::Prohibit] {
        let way = answer(Outcome::Rejected(rejection, None));
        assert!(matches!(&way, Way::Wrong(words, _) if words.starts_with("would not leave")), "{way:?}");
    }
}
