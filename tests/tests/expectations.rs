//! Probes that the configuration expects: a standby that refuses, a probe that does not come, an expectation that names
//! its own rules.

use std::time::Duration;

use nvaprobe_tests::observe::{EVERY, PORT, Seen, WINDOW, observe, settings};
use probe_user::{
    config::Judging,
    lab::{fabric::Running, listener::Serve, prober::Probe, topology::Topology},
    monitor::Settings,
    probe::{Expected, Rules, rules::Role},
    report::{
        document::{LbState, Protocol, Severity, Verdict},
        event::Event,
    },
};

fn expected(nic: &str, port: u16, role: Role) -> Expected {
    let rules = Rules { interval: Some(EVERY), ..Rules::default() };
    Expected { nic: nic.to_owned(), port, protocol: None, role, rules }
}

fn expecting(topology: &Topology, expected: Vec<Expected>) -> Settings {
    Settings { judging: Judging { expected, ..Judging::default() }, ..settings(topology) }
}

/// Policy routing done right on both NICs, and a prober on the first.
fn healthy() -> (Topology, Running) {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    topology.policy_routing(1).expect("policy routing");
    let prober =
        topology.fabrics[0].probe(Probe::tcp(topology.target(0, PORT)).every(EVERY)).expect("a prober");
    (topology, prober)
}

fn said(seen: &Seen, code: &str) -> usize {
    let found = |event: &&Event| matches!(event, Event::Finding { finding, .. } if finding.code == code);
    seen.events.iter().filter(found).count()
}

#[test]
fn s38_a_standby_that_refuses_is_no_alarm_and_an_active_one_is() {
    for (role, severity) in [(Role::Standby, Severity::Info), (Role::Active, Severity::Error)] {
        let (topology, _prober) = healthy();
        let seen =
            observe(&topology.nva, expecting(&topology, vec![expected("eth0", PORT, role)]), WINDOW, || {});
        let series = seen.assert_verdict("eth0", PORT, Verdict::Refused, None);
        assert_eq!(series.role.as_deref(), Some(role.to_string().as_str()));
        assert_eq!(series.lb_view.as_ref().map(|view| view.state), Some(LbState::Down));
        let refused: Vec<_> = seen.report.findings.iter().filter(|f| f.code == "REFUSED").collect();
        assert!(matches!(refused.as_slice(), [one] if one.severity == severity), "{refused:#?}");
        assert_eq!(seen.report.has_error(), role == Role::Active);
    }
}

#[test]
fn s31_an_expected_probe_that_does_not_come_is_not_blamed_on_the_host() {
    let (topology, _prober) = healthy();
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let all = vec![expected("eth0", PORT, Role::Active), expected("eth1", PORT, Role::Active)];
    let seen = observe(&topology.nva, expecting(&topology, all), WINDOW, || {});
    seen.assert_verdict("eth0", PORT, Verdict::Ok, None);
    let errors = seen.errors();
    let [finding] = errors.as_slice() else { panic!("one error, not {errors:#?}") };
    assert_eq!((finding.code.as_str(), finding.cause.as_str()), ("NOT_ARRIVING", "not-arriving"));
    assert_eq!((finding.nic.as_deref(), finding.port), (Some("eth1"), Some(PORT)));
    let texts: Vec<_> = finding.evidence.iter().map(|e| e.text.as_str()).collect();
    for part in ["no SYN", "do arrive on eth0", "AzureLoadBalancer", "backend pool", "no probe at all"] {
        assert!(texts.iter().any(|text| text.contains(part)), "{part} in {texts:#?}");
    }
    assert_eq!(said(&seen, "NOT_ARRIVING"), 1, "said once while it lasts");
}

#[test]
fn s46_an_http_probe_on_a_port_that_the_prober_refuses() {
    let (topology, _prober) = healthy();
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let smtp = Expected { protocol: Some(Protocol::Http), ..expected("eth1", 25, Role::Active) };
    let seen = observe(&topology.nva, expecting(&topology, vec![smtp]), WINDOW, || {});
    let errors = seen.errors();
    let [finding] = errors.as_slice() else { panic!("one error, not {errors:#?}") };
    let first = finding.evidence.iter().find(|e| e.kind == "candidate").expect("a candidate");
    assert!(first.text.contains("WinHTTP") && first.text.contains("25"), "{finding:#?}");
}

#[test]
fn a_window_too_short_to_tell_says_nothing() {
    let (topology, _prober) = healthy();
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let mut slow = expected("eth1", PORT, Role::Active);
    slow.rules.interval = Some(Duration::from_secs(5));
    let seen = observe(&topology.nva, expecting(&topology, vec![slow]), WINDOW, || {});
    assert!(seen.errors().is_empty(), "{:#?}", seen.errors());
}

#[test]
fn a_probe_that_stays_away_is_missed_once() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let probe = Probe::tcp(topology.target(0, PORT)).every(EVERY).delayed(EVERY / 2).attempts(3);
    let _prober = topology.fabrics[0].probe(probe).expect("a prober");
    let all = vec![expected("eth0", PORT, Role::Active)];
    let seen = observe(&topology.nva, expecting(&topology, all), EVERY * 8, || {});
    assert_eq!(seen.series("eth0", PORT).verdict, Verdict::Ok);
    assert_eq!(said(&seen, "NOT_ARRIVING"), 1);
}

#[test]
fn an_expectation_brings_its_own_threshold_and_confirms_at_once() {
    let (topology, _prober) = healthy();
    let mut patient = expected("eth0", PORT, Role::Active);
    patient.rules.fall = 100;
    let seen = observe(&topology.nva, expecting(&topology, vec![patient]), WINDOW, || {});
    let view = seen.series("eth0", PORT).lb_view.clone().expect("a view");
    assert_eq!((view.state, view.threshold), (LbState::Unknown, 100), "never a hundred failures");
    assert_eq!(view.failover_s.map(f64::round), Some(50.0));
}
