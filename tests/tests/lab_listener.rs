//! Each behaviour of a listener, as the load balancer sees it.

use std::{net::IpAddr, time::Duration};

use probe_user::lab::{
    fabric::Running,
    listener::{Answer, Listener, Response, Serve},
    probe_log::{AttemptLog, Outcome},
    prober::Probe,
    proxy::Version,
    tls,
    topology::Topology,
    wire::PROBE_V4,
};

const EVERY: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(10);
const FIRST_PORT: u16 = 8000;

fn topology() -> Topology {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    topology
}

fn outcomes(log: &[AttemptLog]) -> Vec<Outcome> {
    log.iter().map(|attempt| attempt.outcome).collect()
}

/// Several services at once, two attempts each: what the load balancer makes of them.
fn served(cases: Vec<(Serve, Change)>) -> Vec<Vec<AttemptLog>> {
    let topology = topology();
    let mut running: Vec<(Listener, Running)> = Vec::new();
    for (port, (serve, change)) in (FIRST_PORT..).zip(cases) {
        let listener = topology.listen(port, serve).expect("a listener");
        let probe = change(Probe::http(topology.target(0, port), "/health").every(EVERY).attempts(2));
        running.push((listener, topology.fabrics[0].probe(probe).expect("a prober")));
    }
    running.iter().map(|(_, prober)| prober.wait_done(PATIENCE)).collect()
}

/// How a case's probe differs from the usual one.
type Change = fn(Probe) -> Probe;

fn same(probe: Probe) -> Probe {
    probe
}

fn https(probe: Probe) -> Probe {
    Probe { kind: probe_user::lab::prober::Kind::Https, ..probe }
}

#[test]
fn any_status_in_any_form() {
    let pause = Duration::from_millis(10);
    let far = Response::status(302).location("https://login.example/").http10();
    let cases: Vec<(Serve, u16)> = vec![
        (Serve::OK, 200),
        (Serve::status(299), 299),
        (far.into(), 302),
        (Response::status(200).http10().into(), 200),
        (Response::status(404).close().body(vec![b'x'; 20_000]).into(), 404),
        (Response::status(200).apart(pause).into(), 200),
        (Response::status(503).interim().apart(pause).into(), 503),
        (Serve::Answer(Response::status(200).answer().split(1, Duration::from_millis(1))), 200),
        (Response::status(500).delay(pause * 5).reset().into(), 500),
    ];
    let statuses: Vec<u16> = cases.iter().map(|(_, status)| *status).collect();
    let logs = served(cases.into_iter().map(|(serve, _)| (serve, same as Change)).collect());
    for (log, status) in logs.iter().zip(statuses) {
        let expected = if status == 200 { Outcome::Answered } else { Outcome::HttpStatus(status) };
        assert_eq!(outcomes(log), [expected; 2], "{status}: {log:#?}");
        assert!(log.iter().all(|attempt| attempt.http_status == Some(status)), "{status}: {log:#?}");
    }
    assert!(logs[8].iter().all(|attempt| attempt.answer_latency() >= Some(pause * 5)), "{:#?}", logs[8]);
    assert!(logs[8].iter().all(|attempt| attempt.rst_at.is_some()), "{:#?}", logs[8]);
    assert!(logs[3].iter().all(|attempt| attempt.peer_closed_at.is_some()), "{:#?}", logs[3]);
    assert!(logs[0].iter().all(|attempt| attempt.rst_at.is_none()), "{:#?}", logs[0]);
}

#[test]
fn no_answer_in_many_ways() {
    let quick: Change = |probe| probe.pause(Duration::from_millis(60));
    let cases: Vec<(Serve, Change, Outcome)> = vec![
        (Serve::Silence, same, Outcome::NoReply),
        (Serve::Hold, same, Outcome::NoReply),
        (Serve::Close, same, Outcome::Closed),
        (Serve::Reset, same, Outcome::Closed),
        (Serve::CloseFirst, quick, Outcome::Closed),
        (Serve::ssh(), quick, Outcome::Garbage),
        (Serve::Answer(Answer::of("HTTP/1.1 200 OK\r\nX: ")), same, Outcome::NoReply),
        (Response::status(200).delay(EVERY * 2).into(), same, Outcome::NoReply),
    ];
    let expected: Vec<Outcome> = cases.iter().map(|(_, _, outcome)| *outcome).collect();
    let logs = served(cases.into_iter().map(|(serve, change, _)| (serve, change)).collect());
    for (number, (log, outcome)) in logs.iter().zip(expected).enumerate() {
        assert_eq!(outcomes(log), [outcome; 2], "case {number}: {log:#?}");
        assert!(log.iter().all(|attempt| attempt.syn_ack_at.is_some()), "case {number}: {log:#?}");
    }
    assert!(logs[2].iter().all(|attempt| attempt.rst_at.is_none()), "a FIN: {:#?}", logs[2]);
    assert!(logs[3].iter().all(|attempt| attempt.rst_at.is_some()), "a RST: {:#?}", logs[3]);
    let first = |attempt: &AttemptLog| attempt.peer_closed_at < attempt.asked_at;
    assert!(logs[4].iter().all(first), "before the request: {:#?}", logs[4]);
}

#[test]
fn tls_as_far_as_it_goes() {
    let split = Serve::Tls(Answer::of(tls::server_hello()).split(4, Duration::from_millis(2)));
    let cases: Vec<(Serve, Outcome)> = vec![
        (Serve::tls(), Outcome::Answered),
        (split, Outcome::Answered),
        (Serve::tls_alert(tls::PROTOCOL_VERSION), Outcome::TlsAlert(70)),
        (Serve::tls_alert(tls::HANDSHAKE_FAILURE), Outcome::TlsAlert(40)),
        // A plain HTTP server calls a ClientHello a bad request.
        (Serve::OK, Outcome::Garbage),
        (Serve::Close, Outcome::Closed),
        (Serve::Silence, Outcome::NoReply),
    ];
    let expected: Vec<Outcome> = cases.iter().map(|(_, outcome)| *outcome).collect();
    let logs = served(cases.into_iter().map(|(serve, _)| (serve, https as Change)).collect());
    for (log, outcome) in logs.iter().zip(expected) {
        assert_eq!(outcomes(log), [outcome; 2], "{log:#?}");
    }
}

#[test]
fn a_proxy_header_is_expected_or_a_bad_request() {
    let v1: Change = |probe| probe.preface(Version::V1, false);
    let v2: Change = |probe| probe.preface(Version::V2, false);
    let v1_alone: Change = |probe| probe.preface(Version::V1, true);
    let v2_alone: Change = |probe| probe.preface(Version::V2, true).split(7);
    let cases: Vec<(Serve, Change, u16)> = vec![
        (Serve::proxied(Serve::OK), v1, 200),
        (Serve::proxied(Serve::OK), v2, 200),
        (Serve::proxied(Serve::OK), v1_alone, 200),
        (Serve::proxied(Serve::OK), v2_alone, 200),
        (Serve::OK, v1, 400),
        (Serve::OK, v2, 400),
        (Serve::OK, v2_alone, 400),
        // And the other way round: expected, and not there.
        (Serve::proxied(Serve::OK), same, 400),
    ];
    let statuses: Vec<u16> = cases.iter().map(|(_, _, status)| *status).collect();
    let logs = served(cases.into_iter().map(|(serve, change, _)| (serve, change)).collect());
    for (number, (log, status)) in logs.iter().zip(statuses).enumerate() {
        assert!(log.iter().all(|attempt| attempt.http_status == Some(status)), "case {number}: {log:#?}");
    }
}

#[test]
fn the_answer_depends_on_the_client_and_changes_at_run_time() {
    let topology = topology();
    let user: IpAddr = [192, 0, 2, 7].into();
    topology.route(&topology.default_route(0)).expect("a route");
    let blocked = Serve::by_address([IpAddr::V4(PROBE_V4)], Serve::status(403), Serve::OK);
    let listener = topology.listen(80, blocked).expect("a listener");
    let probe = |source: IpAddr| {
        let probe = Probe::http(topology.target(0, 80), "/").every(EVERY).sources([source]);
        topology.fabrics[0].probe(probe).expect("a prober")
    };
    let (prober, visitor) = (probe(PROBE_V4.into()), probe(user));
    prober.wait(2, PATIENCE);
    visitor.wait(2, PATIENCE);
    listener.set(Serve::OK);
    let changed = prober.log().len();
    let log = prober.wait(changed + 2, PATIENCE);
    assert_eq!(outcomes(&log[..2]), [Outcome::HttpStatus(403); 2], "{log:#?}");
    assert_eq!(log[changed].outcome, Outcome::Answered, "{log:#?}");
    assert!(visitor.log().iter().all(|attempt| attempt.answered() || attempt.is_pending()));
    assert!(listener.requests() >= 5 && listener.accepted() >= 5);
}

#[test]
fn turns_and_parity() {
    let turns = Serve::Turns(vec![Serve::OK, Serve::status(500), Serve::CloseFirst]);
    let parity = Serve::by_parity(Serve::OK, Serve::status(503));
    let six: Change =
        |probe| Probe { attempts: Some(6), pause: Duration::from_millis(50), ..probe }.every(EVERY / 2);
    let logs = served(vec![(turns, six), (parity, six)]);
    let [first, second, third] = [Outcome::Answered, Outcome::HttpStatus(500), Outcome::Closed];
    assert_eq!(outcomes(&logs[0]), [first, second, third, first, second, third], "{:#?}", logs[0]);
    for attempt in &logs[1] {
        assert_eq!(attempt.answered(), attempt.source.port().is_multiple_of(2), "{attempt:#?}");
    }
}
