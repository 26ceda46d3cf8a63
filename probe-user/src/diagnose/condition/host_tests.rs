//! Conditions that facts about the host tell: advice, proxied probes, changes, the platform's channel.

use super::{
    tests::{codes, judged, look, ok},
    *,
};
use crate::{
    diagnose::tests::all_failed,
    host::{
        counters::Counters,
        firewall::{Action, Backend, Chain, Family, Rule, Ruleset, Statement},
        fixture::{PROBER, lookup, net, route, t2, t2_primary},
        lookup::{Chosen, Outcome, Query},
        routes::{NextHop, Route},
        selection::Choice,
        sockets::Detail,
        sysctls::Sysctls,
        tables::MAIN,
    },
    report::document::{Reply, Series, Verdict},
};

fn azure() -> Vec<Source> {
    vec![Source { net: net(PROBER), peer_id: 1 }]
}

fn with_facts(facts: &Facts) -> Vec<Finding> {
    let sources = azure();
    let mut found = Vec::new();
    look(&ok(), |scene| {
        let scene = Scene { facts: Some(facts), sources: &sources, ..*scene };
        found = find(&scene);
    });
    found
}

fn advice_of<'a>(findings: &'a [Finding], cause: &str) -> Option<&'a Finding> {
    findings.iter().find(|finding| (finding.code.as_str(), finding.cause.as_str()) == ("ADVICE", cause))
}

#[test]
fn equal_host_routes_by_two_nics_are_left_to_chance() {
    let mut facts = t2_primary();
    assert!(advice_of(&with_facts(&facts), "duplicate-routes").is_none());
    // Another metric, another table, another destination: an order is given.
    facts.routes.push(Route { metric: 200, ..route(MAIN, PROBER, "10.4.3.1", "eth1") });
    facts.routes.push(Route { metric: 100, ..route(201, PROBER, "10.4.3.1", "eth1") });
    facts.routes.push(Route { metric: 100, ..route(MAIN, "168.63.129.0/24", "10.4.3.1", "eth1") });
    assert!(advice_of(&with_facts(&facts), "duplicate-routes").is_none());
    facts.routes.push(Route { metric: 100, ..route(MAIN, PROBER, "10.4.3.1", "eth1") });
    let found = with_facts(&facts);
    let found = advice_of(&found, "duplicate-routes").expect("two ways");
    assert_eq!(found.severity, Severity::Info);
    assert!(found.summary.contains("by eth0 and eth1") && found.evidence.len() == 2, "{found:#?}");
    // A multipath route deals packets out.
    let mut facts = t2_primary();
    let other = NextHop { link: 3, device: "eth1".to_owned(), gateway: "10.4.3.1".parse().ok() };
    facts.routes.last_mut().unwrap().next_hops.push(other);
    assert!(advice_of(&with_facts(&facts), "duplicate-routes").is_some());
}

#[test]
fn duplicates_that_a_failing_series_uses_are_a_warning() {
    let mut facts = t2_primary();
    facts.routes.push(Route { metric: 100, ..route(MAIN, PROBER, "10.4.3.1", "eth1") });
    let sources = azure();
    let severity = |table: u32| {
        let series =
            crate::diagnose::tests::series(Verdict::Asymmetric, Reply::SynAck, &[(Verdict::Asymmetric, 4)]);
        let mut facts = facts.clone();
        facts.routes.push(route(201, PROBER, "10.4.2.1", "eth0"));
        let lookup = lookup(&facts, "10.4.3.101", table);
        let cases =
            [Case { failures: all_failed(4), lookup: Some(&lookup), facts: Some(&facts), ..case(&series) }];
        let mut severity = None;
        look(&ok(), |scene| {
            let scene = Scene { facts: Some(&facts), sources: &sources, cases: &cases, ..*scene };
            severity = advice_of(&find(&scene), "duplicate-routes").map(|found| found.severity);
        });
        severity
    };
    assert_eq!(severity(MAIN), Some(Severity::Warning));
    assert_eq!(severity(201), Some(Severity::Info), "its replies ask another table");
}

fn case(series: &Series) -> Case<'_> {
    Case { series, failures: judged(6), lookup: None, facts: None, trace: None }
}

#[test]
fn a_network_that_holds_the_platform_is_no_way_to_it() {
    let cause = "local-network";
    assert!(advice_of(&with_facts(&t2_primary()), cause).is_none());
    let mut facts = t2();
    facts.routes.push(route(MAIN, PROBER, "", "eth1"));
    let found = with_facts(&facts);
    let found = advice_of(&found, cause).expect("on link");
    assert_eq!((found.severity, found.evidence.len()), (Severity::Info, 1), "{found:#?}");
    // Beneath a better route it does no harm; a default route is no network; a tunnel needs no gateway.
    let mut facts = t2_primary();
    facts.routes.push(route(MAIN, "168.63.0.0/16", "", "eth1"));
    facts.routes.push(route(MAIN, "0.0.0.0/0", "", "eth1"));
    assert!(advice_of(&with_facts(&facts), cause).is_none());
    let mut facts = t2();
    facts.routes.push(route(MAIN, "128.0.0.0/1", "", "eth1"));
    facts.links.0[2].layer2 = crate::host::links::Layer2::None;
    assert!(advice_of(&with_facts(&facts), cause).is_none());
    // An address with its network's route is said once.
    let mut facts = t2_primary();
    facts.addresses[1].net = "168.63.129.20/24".parse().unwrap();
    facts.routes.push(route(MAIN, "168.63.129.0/24", "", "eth0"));
    let found = with_facts(&facts);
    let found = advice_of(&found, cause).expect("an address");
    assert_eq!(found.evidence.iter().map(|e| e.kind.as_str()).collect::<Vec<_>>(), ["address"]);
}

#[test]
fn timestamps_are_worth_a_word_to_who_asks() {
    let with = |value, advise, profile| {
        let facts =
            Facts { sysctls: Sysctls { tcp_timestamps: value, ..Sysctls::default() }, ..t2_primary() };
        let mut found = Vec::new();
        look(&ok(), |scene| {
            found = find(&Scene { facts: Some(&facts), advise, profile, ..*scene });
        });
        advice_of(&found, "tcp-timestamps").cloned()
    };
    let found = with(Some(1), true, Profile::AzureLb).expect("advice");
    assert_eq!((found.severity, found.evidence.len()), (Severity::Info, 0));
    assert!(with(Some(0), true, Profile::AzureLb).is_none() && with(None, true, Profile::AzureLb).is_none());
    assert!(with(Some(1), false, Profile::AzureLb).is_none() && with(Some(1), true, Profile::Gcp).is_none());
}

fn served_by(process: &str, command: &str, port: u16) -> Option<Finding> {
    let detail = Detail { device: None, queue: 0, backlog: 1, v6_only: None, uid: 0 };
    let listener = Listener {
        process: Some(process.to_owned()),
        arguments: command.split_whitespace().map(str::to_owned).collect(),
        detail: Some(detail),
        ..Listener::new(std::net::Ipv4Addr::UNSPECIFIED.into(), port)
    };
    let mut found = Vec::new();
    look(&ok(), |scene| found = find(&Scene { listeners: std::slice::from_ref(&listener), ..*scene }));
    advice_of(&found, "single-connection").cloned()
}

#[test]
fn a_tool_that_serves_one_connection_is_no_responder() {
    for (process, command) in [
        ("nc", "nc -l 8008"),
        ("nc.openbsd", "nc -l -p 8008 -w 5"),
        ("ncat", "ncat -l 8008 --exec /bin/true"),
        ("busybox", "busybox nc -l -p 8008"),
        ("socat", "socat TCP-LISTEN:8008,reuseaddr SYSTEM:echo"),
    ] {
        let found = served_by(process, command, 8008);
        let found = found.unwrap_or_else(|| panic!("{command} serves one connection"));
        assert_eq!((found.severity, found.port), (Severity::Info, Some(8008)));
        assert!(found.evidence[0].text.contains("backlog 1"), "{found:#?}");
    }
    for (process, command) in [
        ("nc", "nc -lk 8008"),
        ("nc", "nc -l -k -p 8008"),
        ("ncat", "ncat --listen --keep-open 8008"),
        ("busybox", "busybox nc -ll -p 8008"),
        ("busybox", "busybox httpd -p 8008"),
        ("socat", "socat TCP-LISTEN:8008,fork,reuseaddr SYSTEM:echo"),
        ("haproxy", "haproxy -f haproxy.cfg"),
        // Its arguments may not be seen.
        ("nc", ""),
    ] {
        assert_eq!(served_by(process, command, 8008), None, "{command}");
    }
    assert_eq!(served_by("nc", "nc -l 9000", 9000), None, "nobody probes it");
}

#[test]
fn a_green_probe_on_a_router_that_does_not_forward() {
    let cause = "forwarding-disabled";
    let with = |forwarding, errors, rules: &[&str]| {
        let statements = |words: &&str| vec![Statement::Act(Action::Translate((*words).to_owned()))];
        let rule = |words: &&str| Rule {
            handle: 4,
            text: format!("oifname eth0 {words}"),
            counter: None,
            statements: statements(words),
        };
        let chain = Chain {
            backend: Backend::Nft,
            family: Family::Ip,
            table: "nat".to_owned(),
            name: "post".to_owned(),
            base: None,
            rules: rules.iter().map(rule).collect(),
        };
        let facts = Facts {
            sysctls: Sysctls { v4_forwarding: Some(forwarding), ..Sysctls::default() },
            counters: Counters::of([("IpInAddrErrors", errors)]),
            firewall: Ruleset { chains: vec![chain], unread: Vec::new() },
            ..t2_primary()
        };
        advice_of(&with_facts(&facts), cause).cloned()
    };
    assert!(with(false, 0, &[]).is_none(), "a proxy of two arms");
    assert!(with(false, 9, &["dnat to 10.9.0.10"]).is_none());
    assert!(with(true, 900, &["masquerade"]).is_none());
    let found = with(false, 10, &[]).expect("packets for others");
    assert_eq!(found.severity, Severity::Info);
    assert!(with(false, 0, &["masquerade"]).is_some_and(|found| found.evidence.len() == 2));
}

#[test]
fn a_proxied_probe_says_where_it_went_and_what_came_of_it() {
    let with = |to: &str, returned, withheld| {
        let passed_on = PassedOn {
            device: "eth2".to_owned(),
            to: to.parse().expect("valid"),
            probes: 6,
            returned,
            back: (returned > 0).then(|| "eth2".to_owned()),
            withheld,
        };
        let series = ok();
        let failures = crate::diagnose::Failures { passed_on: Some(passed_on), ..judged(6) };
        let cases = [Case { failures, ..case(&series) }];
        let mut found = Vec::new();
        look(&series, |scene| found = find(&Scene { cases: &cases, ..*scene }));
        found.into_iter().find(|finding| finding.code == "PROXIED").expect("passed on")
    };
    let told = [
        with("10.9.0.10:80", 6, false),
        with("10.9.0.10:80", 0, false),
        with("10.9.0.10:80", 6, true),
        with("10.4.3.101:8008", 6, false),
        with("169.254.169.254:80", 6, false),
    ];
    assert_eq!(
        told.each_ref().map(|found| found.severity),
        [Severity::Warning, Severity::Warning, Severity::Warning, Severity::Warning, Severity::Info]
    );
    let words: Vec<_> =
        told.iter().map(|found| format!("{}\n  {}", found.summary, found.evidence[0].text)).collect();
    insta::assert_snapshot!("proxied", words.join("\n"));
}

#[test]
fn series_that_one_change_broke_are_one_finding() {
    let broken = |port: u16, at: &str| Broken {
        nic: "eth1".to_owned(),
        target: "10.4.3.101".to_owned(),
        port,
        verdict: Verdict::Asymmetric,
        changes: vec![(at.to_owned(), "policy rule 100: from 10.4.3.101 lookup 201 vanished".to_owned())],
    };
    let (noon, later) = ("2026-12-01T12:00:00.000Z", "2026-12-01T12:00:05.000Z");
    let all: Vec<_> = (8000..8005).map(|port| broken(port, noon)).collect();
    let several = changed(&all);
    assert_eq!(several.len(), 1);
    assert_eq!((several[0].target.as_deref(), several[0].port), (None, None));
    let two = changed(&[broken(8008, noon), broken(8009, later)]);
    assert_eq!(two.iter().map(|found| found.port).collect::<Vec<_>>(), [Some(8008), Some(8009)]);
    assert_eq!(changed(&[Broken { changes: Vec::new(), ..broken(8008, noon) }]), []);
    let words: Vec<_> = [&several[0], &two[0]].iter().map(|found| found.summary.clone()).collect();
    insta::assert_snapshot!("rule_changed", words.join("\n"));
}

#[test]
fn a_series_that_works_again_was_not_broken() {
    let series = ok();
    let broken = [Broken {
        nic: series.nic.clone(),
        target: series.target.clone(),
        port: series.port,
        verdict: Verdict::NoReply,
        changes: vec![(String::new(), "route vanished".to_owned())],
    }];
    assert!(
        !codes(&look(&series, |scene| scene.broken = Box::leak(Box::new(broken)))).contains(&"RULE_CHANGED")
    );
}

/// S60 beside traffic that is answered.
#[test]
fn s60_a_connection_by_another_nic_or_address_than_the_primary() {
    let facts = t2_primary();
    let told = |facts: &Facts, from: &str, link: u32, port: u16| {
        let local = std::net::SocketAddr::new(from.parse().unwrap(), 50000);
        let hop = NextHop { link, device: facts.links.name(link), gateway: None };
        let chosen = Chosen { hop, preferred_source: None, table: None, matched: None };
        let waiting = [Waits {
            connection: Connecting { local, remote: std::net::SocketAddr::new(PLATFORM, port) },
            seconds: 3.0,
            lookup: RouteLookup {
                query: Query { from: Some(local.ip()), ..Query::own(PLATFORM) },
                outcome: Outcome::Route(chosen),
                rule: Choice::Unknown,
            },
        }];
        let packets = Platform { packets_out: 20, packets_in: 12 };
        let own = Own {
            packets,
            source: PROBER,
            connecting: &[],
            waiting: &waiting,
            lookup: None,
            facts: Some(facts),
        };
        let mut found = Vec::new();
        look(&ok(), |scene| found = find(&Scene { own: Some(own), ..*scene }));
        found.into_iter().find(|finding| finding.code == "PLATFORM")
    };
    assert_eq!(told(&facts, "10.4.2.101", 2, 80), None, "by the primary NIC: not the host's fault");
    assert_eq!(told(&facts, "10.4.3.101", 3, 8037), None, "a service that may be silent");
    let by_eth1 = told(&facts, "10.4.3.101", 3, 80).expect("another NIC");
    assert_eq!((by_eth1.severity, by_eth1.nic.as_deref()), (Severity::Warning, Some("eth1")));
    assert!(
        by_eth1.evidence.iter().any(|e| e.text.contains("the primary NIC is eth0 with 10.4.2.101")),
        "{by_eth1:#?}"
    );
    assert!(told(&facts, "10.4.2.102", 2, 80).is_some(), "another address");
    assert!(told(&facts, "10.4.2.101", 3, 80).is_some(), "the primary address by another NIC");
    // The lease tells which NIC is primary.
    let mut leased = t2();
    leased.routes.push(Route { protocol: 16, ..route(MAIN, PROBER, "10.4.3.1", "eth1") });
    assert_eq!(told(&leased, "10.4.3.101", 3, 80), None);
    assert!(
        told(&leased, "10.4.2.101", 2, 80).is_some_and(|found| found.summary.contains("primary NIC (eth1)"))
    );
}
