//! What the load balancer thinks: nvaprobe's state machine beside a prober that counts for itself.

use std::time::Duration;

use nvaprobe_tests::observe::{Seen, follow, own_views, settings};
use probe_user::{
    config::Judging,
    lab::{
        fabric::Running,
        listener::{Listener, Response, Serve},
        prober::{Close, Probe},
        topology::{Plan, Topology},
        view::Counting,
    },
    monitor::Settings,
    probe::{
        Expected, Rules,
        rules::{Limit, Role},
    },
    report::document::{LbState, LbView, Verdict},
};

const EVERY: Duration = Duration::from_millis(400);
const FIRST_PORT: u16 = 8000;

/// One port of eth0: a threshold, and the statuses that its probes get, in turn.
struct Case {
    threshold: usize,
    statuses: Vec<u16>,
}

fn case(threshold: usize, statuses: &[u16]) -> Case {
    Case { threshold, statuses: statuses.to_vec() }
}

fn view(seen: &Seen, port: u16) -> LbView {
    seen.series("eth0", port).lb_view.clone().expect("a view")
}

fn judged(cases: &[Case]) -> (Seen, Vec<Running>) {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    let longest = cases.iter().map(|case| case.statuses.len()).max().unwrap_or(0);
    let of = |(port, case): (u16, &Case)| {
        let turns = case.statuses.iter().copied().map(Serve::status).collect();
        let listener = topology.listen(port, Serve::Turns(turns)).expect("a listener");
        // All end together: what has ended for a while is not known any more.
        let delay = EVERY * (longest - case.statuses.len()) as u32;
        let probe = Probe::http(topology.target(0, port), "/health").every(EVERY).delayed(delay);
        let probe = probe.attempts(case.statuses.len()).counting(Counting::threshold(case.threshold));
        let fall = case.threshold as u32;
        let rules = Rules { fall, rise: fall, ..Rules::default() };
        let expected = Expected { nic: "eth0".to_owned(), port, protocol: None, role: Role::Active, rules };
        (listener, probe, expected)
    };
    let all: Vec<(Listener, Probe, Expected)> = (FIRST_PORT..).zip(cases).map(of).collect();
    let expected = all.iter().map(|(_, _, expected)| expected.clone()).collect();
    let settings = Settings { judging: Judging { expected, ..Judging::default() }, ..settings(&topology) };
    follow(&topology, settings, || {
        let start = |(_, probe, _): &(Listener, Probe, Expected)| {
            topology.fabrics[0].probe(probe.clone()).expect("a prober")
        };
        all.iter().map(start).collect()
    })
}

#[test]
fn s62_one_failure_flips_a_threshold_of_one_and_two_do_not_flip_three() {
    let (seen, probers) = judged(&[
        case(1, &[200, 200, 500, 200, 200]),
        case(1, &[200, 200, 200, 200, 500]),
        case(3, &[200, 200, 500, 500]),
        case(3, &[200, 500, 500, 500, 200, 200]),
        case(3, &[200, 500, 500, 500, 200, 200, 200]),
        case(3, &[500, 500, 200, 200]),
    ]);
    for (port, prober) in (FIRST_PORT..).zip(&probers) {
        seen.assert_agrees("eth0", port, prober);
        assert_eq!(seen.views("eth0", port), own_views(prober), "{port}: {:#?}", seen.events);
    }
    let state = |port: u16| {
        let view = view(&seen, FIRST_PORT + port);
        (view.state, view.code, view.failures_left, view.successes_left)
    };
    let up = |code: &str, left| (LbState::Up, code.to_owned(), Some(left), None);
    let down = |code: &str, left| (LbState::Down, code.to_owned(), None, Some(left));
    assert_eq!(state(0), up("Up_Probe_Success", 1));
    assert_eq!(state(1), down("Down_Probe_HttpStatusCodeError", 1));
    assert_eq!(state(2), up("Up_Probe_ApproachingUnhealthyThreshold", 1));
    assert_eq!(state(3), down("Down_Probe_ApproachingHealthyThreshold", 1));
    assert_eq!(state(4), up("Up_Probe_Success", 3));
    assert_eq!(state(5), up("Up_Probe_Success", 3));
    for (port, threshold) in [(0, 1), (2, 3)] {
        let view = view(&seen, FIRST_PORT + port);
        assert_eq!(view.threshold, threshold);
        let failover = view.failover_s.expect("an interval");
        let expected = EVERY.as_secs_f64() * f64::from(threshold);
        assert!((failover - expected).abs() < 0.3 * expected, "{failover}");
    }
    // One run of failures that is over is no error.
    let http = |port| ("HTTP_STATUS", "http-status", "eth0", FIRST_PORT + port);
    seen.assert_errors(&[http(1), http(2)]);
}

#[test]
fn s63_an_instance_that_fluctuates_is_held_back() {
    let (seen, probers) = judged(&[
        case(1, &[200, 500, 200, 500, 200, 500, 200, 500]),
        // Calm at last: three more without a change.
        case(1, &[200, 500, 200, 500, 200, 200, 200, 200]),
        case(1, &[200, 500, 200, 200, 200, 200, 200, 200]),
    ]);
    for (port, prober) in (FIRST_PORT..).zip(&probers) {
        seen.assert_agrees("eth0", port, prober);
    }
    let held = view(&seen, FIRST_PORT);
    assert_eq!(held.state, LbState::Held, "{held:?}");
    assert!(held.changes >= 3 && held.since.is_some(), "{held:?}");
    assert_eq!(view(&seen, FIRST_PORT + 1).state, LbState::Up);
    assert_eq!(view(&seen, FIRST_PORT + 2).state, LbState::Up);
    assert_eq!(seen.findings("FLAPPING", FIRST_PORT).len(), 1, "{:#?}", seen.report.findings);
    assert_eq!(seen.warnings(), ["FLAPPING"], "{:#?}", seen.report.findings);
    // The third had one run of failures, which is over.
    let errors = [0, 1].map(|port| ("HTTP_STATUS", "http-status", "eth0", FIRST_PORT + port));
    seen.assert_errors(&errors);
    assert!(seen.errors().iter().all(|finding| finding.intermittent), "{:#?}", seen.errors());
}

/// Three zones behind one check, whose timeout lies under the p99 of one of them and close to that of another: the check
/// drains what serves everybody.
#[test]
fn a_timeout_below_the_p99_takes_out_what_works() {
    let (interval, limit) = (Duration::from_millis(700), Duration::from_millis(400));
    let topology = Topology::build(&Plan { nics: 3, ..Plan::default() }).expect("a topology");
    topology.primary_route().expect("a route");
    for nic in [1, 2] {
        topology.policy_routing(nic).expect("policy routing");
    }
    let answer = |millis| Serve::from(Response::status(200).delay(Duration::from_millis(millis)));
    let zones = [
        answer(0),
        answer(260),
        Serve::Turns(vec![answer(550), answer(550), answer(0), answer(0), answer(550)]),
    ];
    let port = |nic: usize| FIRST_PORT + nic as u16;
    let _listeners: Vec<_> =
        (0..).zip(zones).map(|(nic, zone)| topology.listen(port(nic), zone).expect("a listener")).collect();
    let rules = Rules { limit: Limit::Fixed(limit), ..Rules::default() };
    let settings = Settings { judging: Judging { rules, ..Judging::default() }, ..settings(&topology) };
    let (seen, probers) = follow(&topology, settings, || {
        let start = |nic: usize| {
            let probe = Probe::http(topology.target(nic, port(nic)), "/").every(interval).attempts(5);
            topology.fabrics[nic].probe(probe.timeout(limit, Close::Fin)).expect("a prober")
        };
        (0..3).map(start).collect()
    });
    let zone = |nic: usize| seen.assert_agrees(&format!("eth{nic}"), port(nic), &probers[nic]);
    assert_eq!(
        (zone(0).verdict, zone(1).verdict, zone(2).verdict),
        (Verdict::Ok, Verdict::Ok, Verdict::Slow)
    );
    assert_eq!((zone(2).counts[&Verdict::Slow], zone(2).limit_s), (3, Some(0.4)));
    assert!(zone(2).answer_ms.is_some_and(|answer| answer.p99 > 400.0), "{:#?}", zone(2));
    assert_eq!(zone(2).lb_view.as_ref().map(|view| view.state), Some(LbState::Down));
    seen.assert_errors(&[("SLOW", "timeout", "eth2", port(2))]);
    let latency = |nic: usize| {
        let found = seen.findings("LATENCY", port(nic));
        found.first().map(|finding| finding.summary.clone())
    };
    assert_eq!(latency(0), None);
    assert!(latency(1).is_some_and(|said| said.contains("more than half the limit")), "{:?}", latency(1));
    assert!(latency(2).is_some_and(|said| said.contains("beyond the limit")), "{:?}", latency(2));
}
