use std::time::Duration;

use super::*;
use crate::{
    diagnose::{
        Failures,
        tests::{all_failed, series},
    },
    host::{
        Facts,
        imds::{Imds, InboundRule, LoadBalancer},
        sysctls::Sysctls,
    },
    probe::{Rules, rules::Role},
    report::document::{Latency, LbState, LbView, Protocol, Reply, Series, Verdict},
};

fn view(state: LbState, threshold: u32) -> LbView {
    LbView {
        state,
        code: "Up_Probe_Success".to_owned(),
        since: None,
        threshold,
        rise: threshold,
        failures_left: None,
        successes_left: None,
        failover_s: Some(15.0 * f64::from(threshold)),
        changes: 0,
        flows: None,
    }
}

pub(super) fn ok() -> Series {
    let ok = series(Verdict::Ok, Reply::SynAck, &[(Verdict::Ok, 6)]);
    Series { lb_view: Some(view(LbState::Up, 1)), ..ok }
}

pub(super) fn judged(count: u64) -> Failures {
    Failures { failed: 0, ..all_failed(count) }
}

pub(super) fn look(series: &Series, change: impl FnOnce(&mut Scene<'_>)) -> Vec<Finding> {
    let facts =
        Facts { sysctls: Sysctls { v4_forwarding: Some(false), ..Sysctls::default() }, ..Facts::default() };
    let cases = [Case { series, failures: judged(6), lookup: None, facts: Some(&facts), trace: None }];
    let nics = ["eth0".to_owned(), "eth1".to_owned()];
    let mut scene = Scene {
        cases: &cases,
        expected: &[],
        window_s: 30.0,
        nics: &nics,
        profile: Profile::AzureLb,
        sources: &[],
        facts: None,
        advise: false,
        listeners: &[],
        broken: &[],
        own: None,
    };
    change(&mut scene);
    find(&scene)
}

pub(super) fn codes(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.code.as_str()).collect()
}

#[test]
fn an_interval_is_told_with_what_it_implies() {
    let at = |interval: f64, threshold: u32| {
        let mut one = ok();
        one.interval_s = Some(interval);
        one.cadences = vec![interval];
        let mut view = view(LbState::Up, threshold);
        view.failover_s = Some(interval * f64::from(threshold));
        one.lb_view = Some(view);
        let found = look(&one, |_| ());
        assert_eq!(codes(&found), ["INTERVAL"]);
        assert_eq!(found[0].severity, Severity::Info);
        found[0].summary.clone()
    };
    insta::assert_snapshot!(
        "interval",
        [at(5.0, 1), at(15.1, 1), at(15.0, 2), at(0.5, 1), at(30.0, 1)].join("\n")
    );
}

#[test]
fn latency_near_the_limit_is_a_warning() {
    let with = |p99: f64, protocol: Protocol| {
        let mut one = ok();
        one.protocol = protocol;
        let slow = Latency { p50: 1.0, p99, max: p99 };
        let fast = Latency { p50: 1.0, p99: 1.0, max: 1.0 };
        (one.latency_ms, one.answer_ms) =
            if protocol == Protocol::Tcp { (Some(slow), None) } else { (Some(fast), Some(slow)) };
        codes(&look(&one, |_| ())).contains(&"LATENCY")
    };
    assert!(!with(2499.0, Protocol::Tcp) && with(2501.0, Protocol::Tcp));
    assert!(!with(2499.0, Protocol::Http) && with(6000.0, Protocol::Http));
}

#[test]
fn a_held_instance_is_flapping() {
    let one = Series { lb_view: Some(view(LbState::Held, 1)), ..ok() };
    assert!(codes(&look(&one, |_| ())).contains(&"FLAPPING"));
    assert!(!codes(&look(&ok(), |_| ())).contains(&"FLAPPING"));
}

#[test]
fn a_side_service_is_told_by_its_process_else_by_its_port() {
    let with = |port: u16, process: Option<&str>| {
        let one = Series { port, ..ok() };
        let listener = Listener {
            process: process.map(str::to_owned),
            ..Listener::new(std::net::Ipv4Addr::UNSPECIFIED.into(), port)
        };
        let found = look(&one, |scene| scene.listeners = std::slice::from_ref(Box::leak(Box::new(listener))));
        found.into_iter().find(|finding| finding.code == "SHARED_SIGNAL")
    };
    assert!(with(8008, Some("probe-responder")).is_none());
    assert!(with(22, Some("haproxy")).is_none());
    assert!(with(2222, Some("sshd")).is_some_and(|found| found.severity == Severity::Warning));
    let found = with(22, None).expect("by port");
    assert!(found.evidence.iter().any(|e| e.text.contains("net.ipv4.ip_forward = 0")), "{found:#?}");
    assert!(with(22, Some("nc")).is_some());
    // Nobody listens: a refused probe is no shared signal, but the port alone tells what was meant.
    assert!(codes(&look(&Series { port: 22, ..ok() }, |_| ())).contains(&"SHARED_SIGNAL"));
}

fn expected(port: u16, protocol: Option<Protocol>, interval: Option<u64>) -> Expected {
    let rules = Rules { interval: interval.map(Duration::from_secs), ..Rules::default() };
    Expected { nic: "eth1".to_owned(), port, protocol, role: Role::Active, rules }
}

fn not_arriving(expected: Expected, window_s: f64, azure_lb: bool) -> Option<Finding> {
    let mut one = ok();
    one.nic = "eth0".to_owned();
    let list = [expected];
    let found = look(&one, |scene| {
        scene.expected = Box::leak(Box::new(list));
        scene.window_s = window_s;
        scene.profile = if azure_lb { Profile::AzureLb } else { Profile::Custom };
    });
    found.into_iter().find(|finding| finding.code == "NOT_ARRIVING")
}

#[test]
fn a_probe_that_does_not_come_is_not_the_hosts_fault() {
    let found =
        not_arriving(expected(8008, None, Some(15)), 30.0, true).expect("two intervals without a SYN");
    assert_eq!((found.severity, found.cause.as_str()), (Severity::Error, "not-arriving"));
    assert_eq!((found.nic.as_deref(), found.port, found.target.as_deref()), (Some("eth1"), Some(8008), None));
    let texts: Vec<_> = found.evidence.iter().map(|e| format!("{}: {}", e.kind, e.text)).collect();
    insta::assert_snapshot!("not_arriving", texts.join("\n"));
    assert!(not_arriving(expected(8008, None, Some(15)), 29.0, true).is_none(), "too short to tell");
    assert!(not_arriving(expected(8008, None, None), 15.0, true).is_some());
    assert!(not_arriving(expected(8008, None, None), 14.0, true).is_none());
}

#[test]
fn s46_a_port_that_the_http_prober_refuses_comes_first() {
    let first = |expected: Expected, azure_lb| {
        let found = not_arriving(expected, 60.0, azure_lb).expect("it does not come");
        found.evidence.iter().find(|e| e.kind == "candidate").map(|e| e.text.clone()).expect("a candidate")
    };
    assert!(first(expected(25, Some(Protocol::Http), None), true).contains("WinHTTP"));
    assert!(!first(expected(25, Some(Protocol::Tcp), None), true).contains("WinHTTP"));
    assert!(!first(expected(25, Some(Protocol::Http), None), false).contains("Azure"));
}

#[test]
fn s60_platform_traffic_without_an_answer_is_a_warning_of_its_own() {
    let connecting = [Connecting {
        local: "10.4.3.101:50000".parse().expect("valid"),
        remote: "168.63.129.16:80".parse().expect("valid"),
    }];
    let with = |packets_out, packets_in| {
        let packets = Platform { packets_out, packets_in };
        let connecting: &[Connecting] = Box::leak(Box::new(connecting));
        let own =
            Own { packets, source: "168.63.129.16", connecting, waiting: &[], lookup: None, facts: None };
        look(&ok(), |scene| scene.own = Some(own)).into_iter().find(|finding| finding.code == "PLATFORM")
    };
    assert!(with(0, 0).is_none() && with(1, 0).is_none() && with(9, 1).is_none());
    let found = with(3, 0).expect("nothing came back");
    assert_eq!(found.severity, Severity::Warning);
    assert!(found.evidence.iter().any(|e| e.kind == "socket" && e.text.starts_with("10.4.3.101:50000")));
}

#[test]
fn a_rule_of_the_metadata_service_without_a_probe_is_a_warning() {
    let mut facts = crate::host::fixture::t2();
    let rule = InboundRule {
        frontend: "10.4.3.200".parse().ok(),
        protocol: Some("tcp".to_owned()),
        frontend_port: Some(443),
        backend_port: Some(8443),
        private_address: "10.4.3.101".parse().expect("valid"),
    };
    let balancer = LoadBalancer { inbound: vec![rule], ..LoadBalancer::default() };
    facts.imds = Imds { load_balancer: Ok(balancer), ..Imds::default() };
    let facts: &Facts = Box::leak(Box::new(facts));
    let own = Own {
        packets: Platform::default(),
        source: "168.63.129.16",
        connecting: &[],
        lookup: None,
        waiting: &[],
        facts: Some(facts),
    };
    let found = |nic: &str, window_s: f64| {
        let one = Series { nic: nic.to_owned(), ..ok() };
        look(&one, |scene| {
            scene.own = Some(own);
            scene.window_s = window_s;
        })
        .into_iter()
        .find(|finding| finding.code == "NOT_ARRIVING")
    };
    let finding = found("eth0", 30.0).expect("eth1 has a rule and no probe");
    assert_eq!((finding.severity, finding.nic.as_deref()), (Severity::Warning, Some("eth1")));
    assert!(
        finding.evidence.iter().any(|e| e.kind == "imds" && e.text.contains("10.4.3.101 8443")),
        "{finding:#?}"
    );
    assert!(found("eth1", 30.0).is_none() && found("eth0", 29.0).is_none());
}
