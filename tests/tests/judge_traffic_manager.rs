//! Traffic Manager's stories, as measured in public, with a faster clock: 0.4 s for the interval's 30 s, 0.2 s to answer for
//! 10 s.

use std::{net::IpAddr, time::Duration};

use ipnet::IpNet;
use nvaprobe_tests::observe::{follow, own_views, settings};
use probe_user::{
    config::Judging,
    lab::{
        listener::{Response, Serve},
        probe_log::AttemptLog,
        prober::{Close, Ends, Probe},
        topology::Topology,
        view::State,
    },
    monitor::Settings,
    profile::{Overrides, Profile},
    report::document::{LbState, Protocol, Verdict},
    source,
};

const EVERY: Duration = Duration::from_millis(400);
const TIMEOUT: Duration = Duration::from_millis(200);
const NIC: &str = "eth0";
/// Two regions that probe, each on its own; documentation addresses (RFC 5737).
const REGIONS: [([u8; 4], &str); 2] =
    [([192, 0, 2, 10], "192.0.2.0/25"), ([198, 51, 100, 10], "198.51.100.0/24")];
const USER: [u8; 4] = [203, 0, 113, 9];

fn region(index: usize) -> IpAddr {
    IpAddr::from(REGIONS[index].0)
}

/// A public endpoint: everything goes out by eth0.
fn endpoint() -> Topology {
    let topology = Topology::two_armed().expect("a topology");
    topology.route(&topology.default_route(0)).expect("a route");
    topology
}

fn watching(topology: &Topology, statuses: Option<&str>) -> Settings {
    let ranges: Vec<IpNet> =
        REGIONS.iter().map(|(_, range)| source::parse(range).expect("a prefix")).collect();
    let own = Overrides {
        interval: Some(EVERY),
        timeout: Some(TIMEOUT),
        statuses: statuses.map(|statuses| statuses.parse().expect("statuses")),
        ..Overrides::default()
    };
    let profile = Profile::AzureTrafficManager;
    let judging = Judging { profile, rules: profile.rules(&own), ..Judging::default() };
    let sources = source::collect(Profile::Custom, true, &ranges).expect("sources");
    Settings { judging, sources, ..settings(topology) }
}

fn soon(probe: Probe, source: IpAddr, attempts: usize) -> Probe {
    probe.traffic_manager(source).every(EVERY).timeout(TIMEOUT, Close::Rst).attempts(attempts)
}

fn statuses(statuses: &[u16]) -> Serve {
    Serve::Turns(statuses.iter().copied().map(Serve::status).collect())
}

/// The wrong path: three failures are tolerated, the fourth degrades.
#[test]
fn a_wrong_path_degrades_with_the_fourth_failure() {
    let topology = endpoint();
    let _web = topology.listen(80, statuses(&[200, 200, 404, 404, 404, 404, 404])).expect("a listener");
    let _short = topology.listen(81, statuses(&[200, 404, 404, 404])).expect("a listener");
    let (seen, probers) = follow(&topology, watching(&topology, None), || {
        let probe = |port, attempts| {
            let probe = soon(Probe::http(topology.target(0, port), "/helth"), region(0), attempts);
            // Both end together.
            let probe = probe.delayed(EVERY * (7 - attempts) as u32);
            topology.fabrics[0].probe(probe).expect("a prober")
        };
        vec![probe(80, 7), probe(81, 4)]
    });
    let series = seen.assert_agrees(NIC, 80, &probers[0]);
    assert_eq!((series.verdict, series.http_status), (Verdict::HttpStatus, Some(404)));
    assert_eq!(probers[0].view().changes, [(0, State::Up), (5, State::Down)]);
    let (said, own) = (seen.views(NIC, 80), own_views(&probers[0]));
    assert!(said.ends_with(&[LbState::Down]) && own.ends_with(&said), "{said:?}");
    let view = series.lb_view.as_ref().expect("a view");
    assert_eq!((view.threshold, view.rise), (4, 1));
    // About 120 s: four intervals of 30 s.
    let failover = view.failover_s.expect("an interval");
    assert!((failover - 4.0 * EVERY.as_secs_f64()).abs() < 0.4, "{failover}");

    let tolerated = seen.assert_agrees(NIC, 81, &probers[1]);
    let view = tolerated.lb_view.as_ref().expect("a view");
    assert_eq!((view.state, view.failures_left), (LbState::Up, Some(1)));
    let error = |port| ("HTTP_STATUS", "http-status", NIC, port);
    seen.assert_errors(&[error(80), error(81)]);
}

/// An access restriction answers the probers 403 and the users 200: degraded, although every user is served. Each region
/// counts on its own.
#[test]
fn a_restriction_that_only_the_probers_meet() {
    let topology = endpoint();
    let probers_only = Serve::by_address([region(0), region(1)], Serve::status(403), Serve::OK);
    let web = topology.listen(80, probers_only).expect("a listener");
    let (seen, running) = follow(&topology, watching(&topology, None), || {
        let mut all: Vec<_> = [region(0), region(1)]
            .into_iter()
            .map(|source| soon(Probe::http(topology.target(0, 80), "/"), source, 5))
            .collect();
        let user = Probe::http(topology.target(0, 80), "/").sources([IpAddr::from(USER)]).ends(Ends::Answer);
        all.push(user.every(EVERY / 2).attempts(8));
        all.into_iter().map(|probe| topology.fabrics[0].probe(probe).expect("a prober")).collect()
    });
    let users = running[2].log();
    assert!(users.len() == 8 && users.iter().all(AttemptLog::answered), "every user is served");
    assert_eq!(web.requests(), 18);
    // Users are no probes.
    assert_eq!(seen.report.probes.len(), 2, "{:#?}", seen.report.probes);
    for (prober, (_, range)) in running.iter().zip(REGIONS) {
        let series = seen.report.probes.iter().find(|series| series.source == range).expect("its series");
        assert_eq!(prober.view().changes, [(3, State::Down)], "never known to be up");
        assert_eq!((series.attempts, series.counts[&Verdict::HttpStatus]), (5, 5), "{series:#?}");
        assert_eq!(series.http_status, Some(403));
        assert_eq!(series.lb_view.as_ref().map(|view| view.state), Some(LbState::Down));
    }
    let error = ("HTTP_STATUS", "http-status", NIC, 80);
    seen.assert_errors(&[error, error]);
}

/// Restored: one success is enough.
#[test]
fn a_restored_path_is_online_with_the_first_success() {
    let topology = endpoint();
    let web = topology.listen(80, Serve::status(404)).expect("a listener");
    let (seen, probers) = std::thread::scope(|scope| {
        let (topology, web) = (&topology, &web);
        follow(topology, watching(topology, None), move || {
            let probe = soon(Probe::http(topology.target(0, 80), "/"), region(0), 8);
            let prober = topology.fabrics[0].probe(probe).expect("a prober");
            let watched = prober.clone();
            scope.spawn(move || {
                watched.wait(5, Duration::from_secs(10));
                web.set(Serve::OK);
            });
            vec![prober]
        })
    });
    let series = seen.assert_agrees(NIC, 80, &probers[0]);
    assert_eq!(series.verdict, Verdict::Ok);
    assert_eq!(probers[0].view().changes, [(3, State::Down), (5, State::Up)]);
    assert_eq!(seen.views(NIC, 80), [LbState::Down, LbState::Up]);
    seen.assert_errors(&[]);
}

/// Redirects are not followed: failures, unless they are listed. So is silence within the timeout.
#[test]
fn redirects_status_ranges_and_the_timeout() {
    let topology = endpoint();
    let moved: Serve = Response::status(301).location("https://www.example/").into();
    let services = [moved, Serve::status(204), Serve::OK, Response::status(200).delay(TIMEOUT * 2).into()];
    let _listeners: Vec<_> =
        (80..).zip(services).map(|(port, serve)| topology.listen(port, serve).expect("a listener")).collect();
    let (seen, probers) = follow(&topology, watching(&topology, Some("200-299")), || {
        let probe = |port| {
            let probe = soon(Probe::http(topology.target(0, port), "/"), region(0), 5);
            topology.fabrics[0].probe(probe.accept([200..=299])).expect("a prober")
        };
        (80..84).map(probe).collect()
    });
    for (port, prober) in (80..).zip(&probers) {
        seen.assert_agrees(NIC, port, prober);
    }
    seen.assert_errors(&[("HTTP_STATUS", "http-status", NIC, 80), ("NO_REPLY", "timeout", NIC, 83)]);
}

/// A TCP probe is reset after the SYN-ACK, and that is its success.
#[test]
fn a_tcp_probe_resets() {
    let topology = endpoint();
    let _listener = topology.listen(443, Serve::Hold).expect("a listener");
    let (seen, probers) = follow(&topology, watching(&topology, None), || {
        let tcp = |source| soon(Probe::tcp(topology.target(0, 443)), source, 5);
        let probes = [tcp(region(0)), tcp(region(1)).ends(Ends::HalfOpen)];
        probes.map(|probe| topology.fabrics[0].probe(probe).expect("a prober")).to_vec()
    });
    assert_eq!(seen.report.probes.len(), 2, "{:#?}", seen.report.probes);
    for series in &seen.report.probes {
        assert_eq!((series.protocol, series.counts[&Verdict::Ok], series.attempts), (Protocol::Tcp, 5, 5));
        assert_eq!(series.lb_view.as_ref().map(|view| view.state), Some(LbState::Up));
    }
    assert!(probers.iter().all(|prober| prober.answered() == 5 && prober.view().state == State::Up));
    seen.assert_errors(&[]);
}
