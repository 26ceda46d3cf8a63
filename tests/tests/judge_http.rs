//! Answers of the application: nvaprobe's verdict and the load balancer's own, attempt by attempt.

use std::time::Duration;

use nvaprobe_tests::observe::{Seen, follow, settings};
use probe_user::{
    lab::{
        fabric::Running,
        listener::{Answer, Listener, Response, Serve},
        prober::{Close, Kind, Probe},
        proxy::Version,
        tls,
        topology::Topology,
    },
    report::document::{LbState, Protocol, Reply, Verdict},
};

const EVERY: Duration = Duration::from_millis(400);
const ATTEMPTS: usize = 4;
const FIRST_PORT: u16 = 8000;
const NIC: &str = "eth0";

/// How a case's probe differs from the usual one.
type Change = fn(Probe) -> Probe;

fn same(probe: Probe) -> Probe {
    probe
}

fn https(probe: Probe) -> Probe {
    Probe { kind: Kind::Https, ..probe }
}

/// Services on eth0 from port 8000 on, each with a prober, and what was seen of them.
fn judged(cases: Vec<(Serve, Change)>) -> (Seen, Vec<Running>) {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    let ports = FIRST_PORT..;
    let services: Vec<(u16, Listener, Probe)> = ports
        .zip(cases)
        .map(|(port, (serve, change))| {
            let listener = topology.listen(port, serve).expect("a listener");
            let probe = Probe::http(topology.target(0, port), "/health").every(EVERY).attempts(ATTEMPTS);
            (port, listener, change(probe))
        })
        .collect();
    follow(&topology, settings(&topology), || {
        let start = |(_, _, probe): &(u16, Listener, Probe)| {
            topology.fabrics[0].probe(probe.clone()).expect("a prober")
        };
        services.iter().map(start).collect()
    })
}

#[test]
fn s40_s41_only_200_counts() {
    let elsewhere = |status| Response::status(status).location("https://login.example/").into();
    let statuses = [404, 299, 301, 302, 307, 401, 403, 500, 200];
    let cases = statuses.map(|status| {
        let serve = if (300..400).contains(&status) { elsewhere(status) } else { Serve::status(status) };
        (serve, same as Change)
    });
    let (seen, probers) = judged(cases.to_vec());
    let mut errors = Vec::new();
    for ((port, prober), status) in (FIRST_PORT..).zip(&probers).zip(statuses) {
        let series = seen.assert_agrees(NIC, port, prober);
        assert_eq!((series.protocol, series.http_status), (Protocol::Http, Some(status)));
        let view = series.lb_view.as_ref().expect("a view");
        if status == 200 {
            assert_eq!((series.verdict, view.code.as_str()), (Verdict::Ok, "Up_Probe_Success"));
        } else {
            assert_eq!(
                (series.verdict, view.state, view.code.as_str()),
                (Verdict::HttpStatus, LbState::Down, "Down_Probe_HttpStatusCodeError")
            );
            errors.push(("HTTP_STATUS", "http-status", NIC, port));
            let said = seen.findings("HTTP_STATUS", port)[0];
            assert!(said.summary.contains(&status.to_string()), "{said:#?}");
        }
    }
    seen.assert_errors(&errors);
}

#[test]
fn s42_an_answer_after_the_limit() {
    let late: Serve = Response::status(200).delay(EVERY + EVERY / 2).into();
    let fin: Change = |probe| probe.timeout(EVERY, Close::Fin);
    // Behind a RST the late answer never leaves: that nobody answered in time is all that can be seen.
    let rst: Change = |probe| probe.timeout(EVERY, Close::Rst);
    let (seen, probers) = judged(vec![(late.clone(), fin), (late, rst), (Serve::Silence, same)]);
    let slow = seen.assert_agrees(NIC, FIRST_PORT, &probers[0]);
    assert_eq!((slow.verdict, slow.http_status), (Verdict::Slow, Some(200)));
    assert!(slow.answer_ms.is_some_and(|answer| answer.p50 > 500.0), "{slow:#?}");
    for (port, prober) in (FIRST_PORT + 1..).zip(&probers[1..]) {
        let series = seen.assert_agrees(NIC, port, prober);
        assert_eq!(series.verdict, Verdict::NoReply, "{series:#?}");
        let view = series.lb_view.as_ref().expect("a view");
        assert_eq!(view.code, "Down_Probe_HttpNoResponse");
    }
    let timeout = |code, port| (code, "timeout", NIC, port);
    seen.assert_errors(&[
        timeout("SLOW", FIRST_PORT),
        timeout("NO_REPLY", FIRST_PORT + 1),
        timeout("NO_REPLY", FIRST_PORT + 2),
    ]);
}

#[test]
fn a_good_answer_in_any_form() {
    let pause = Duration::from_millis(15);
    let reuse: Change = Probe::reuse;
    let quick: Change = |probe| probe.ends(probe_user::lab::prober::Ends::Answer);
    let rst: Change = |probe| probe.close(Close::Rst);
    let cut: Change = |probe| probe.split(3);
    let large = Response::status(200).body(vec![b'x'; 30_000]);
    let cases: Vec<(Serve, Change)> = vec![
        (Response::status(200).http10().into(), same),
        (Response::status(200).apart(pause).into(), same),
        (Serve::Answer(Response::status(200).answer().split(1, Duration::from_millis(1))), same),
        (Response::status(200).interim().apart(pause).into(), same),
        (large.clone().into(), same),
        (large.http10().into(), same),
        (Serve::OK, reuse),
        (Serve::OK, quick),
        (Serve::OK, rst),
        (Serve::OK, cut),
        (Response::status(200).reset().into(), same),
    ];
    let (seen, probers) = judged(cases);
    for (port, prober) in (FIRST_PORT..).zip(&probers) {
        let series = seen.assert_agrees(NIC, port, prober);
        assert_eq!((series.verdict, series.reply), (Verdict::Ok, Reply::Data), "{port}: {series:#?}");
    }
    assert_eq!(probers[6].log().iter().filter(|attempt| attempt.reused).count(), ATTEMPTS - 1);
    seen.assert_errors(&[]);
    assert_eq!(seen.warnings(), [""; 0], "{:#?}", seen.report.findings);
}

#[test]
fn no_answer_to_the_request() {
    let late: Change = |probe| probe.pause(Duration::from_millis(60));
    let half = Serve::Answer(Answer::of("HTTP/1.1"));
    let cases: Vec<(Serve, Change)> =
        vec![(Serve::Close, same), (Serve::Reset, same), (Serve::CloseFirst, late), (half, same)];
    let (seen, probers) = judged(cases);
    for (port, prober) in (FIRST_PORT..).zip(&probers) {
        seen.assert_agrees(NIC, port, prober);
    }
    let closed = |port| ("REFUSED", "closed-by-application", NIC, port);
    let half = ("NO_REPLY", "timeout", NIC, FIRST_PORT + 3);
    seen.assert_errors(&[closed(FIRST_PORT), closed(FIRST_PORT + 1), closed(FIRST_PORT + 2), half]);
}

/// What answers is no web server: no status, and no excuse.
#[test]
fn an_answer_that_is_not_http() {
    let late: Change = |probe| probe.pause(Duration::from_millis(60));
    let (seen, probers) = judged(vec![
        (Serve::ssh(), late),
        (Serve::Answer(Answer::of("220 mail.example ESMTP\r\n").close()), same),
    ]);
    for (port, prober) in (FIRST_PORT..).zip(&probers) {
        let series = seen.assert_agrees(NIC, port, prober);
        assert_eq!((series.verdict, series.http_status), (Verdict::HttpStatus, None), "{series:#?}");
    }
    seen.assert_errors(&[
        ("HTTP_STATUS", "http-status", NIC, FIRST_PORT),
        ("HTTP_STATUS", "http-status", NIC, FIRST_PORT + 1),
    ]);
}

#[test]
fn s43_tls_stands_or_falls_with_the_handshake() {
    let split = Serve::Tls(Answer::of(tls::server_hello()).split(5, Duration::from_millis(2)));
    let (seen, probers) = judged(vec![
        (Serve::tls(), https),
        (split, https),
        (Serve::tls_alert(tls::PROTOCOL_VERSION), https),
        (Serve::tls_alert(tls::HANDSHAKE_FAILURE), https),
        (Serve::Close, https),
        (Serve::Silence, https),
    ]);
    for (port, prober) in (FIRST_PORT..).zip(&probers) {
        let series = seen.assert_agrees(NIC, port, prober);
        assert_eq!((series.protocol, series.http_status), (Protocol::Https, None), "{series:#?}");
    }
    let alert = |port| seen.series(NIC, port).tls_alert.clone();
    assert_eq!(alert(FIRST_PORT + 2).as_deref(), Some("protocol_version"));
    assert_eq!(alert(FIRST_PORT + 3).as_deref(), Some("handshake_failure"));
    let said = seen.findings("TLS_FAIL", FIRST_PORT + 2)[0];
    assert!(said.summary.contains("protocol_version"), "{said:#?}");
    seen.assert_errors(&[
        ("TLS_FAIL", "tls-alert", NIC, FIRST_PORT + 2),
        ("TLS_FAIL", "tls-alert", NIC, FIRST_PORT + 3),
        ("REFUSED", "closed-by-application", NIC, FIRST_PORT + 4),
        ("NO_REPLY", "timeout", NIC, FIRST_PORT + 5),
    ]);
}

/// An HTTPS probe of a plain HTTP port: a 400 is no handshake.
#[test]
fn s43_plain_http_instead_of_tls() {
    let (seen, probers) = judged(vec![(Serve::OK, https)]);
    let series = seen.series(NIC, FIRST_PORT);
    assert_eq!((series.verdict, series.counts[&Verdict::TlsFail]), (Verdict::TlsFail, ATTEMPTS as u64));
    assert_eq!((series.tls_alert.as_deref(), series.http_status), (None, None), "{series:#?}");
    assert!(probers[0].log().iter().all(|attempt| !attempt.answered()));
    seen.assert_errors(&[("TLS_FAIL", "tls-alert", NIC, FIRST_PORT)]);
}

#[test]
fn s44_a_proxy_header_is_named_and_no_garbage() {
    let v1: Change = |probe| probe.preface(Version::V1, false);
    let v2: Change = |probe| probe.preface(Version::V2, false);
    let v1_alone: Change = |probe| probe.preface(Version::V1, true);
    let v2_alone: Change = |probe| probe.preface(Version::V2, true);
    let tls: Change = |probe| https(probe).preface(Version::V2, false);
    let expecting = Serve::proxied(Serve::OK);
    let (seen, probers) = judged(vec![
        (expecting.clone(), v1),
        (expecting.clone(), v2),
        (expecting.clone(), v1_alone),
        (expecting, v2_alone),
        (Serve::OK, v1),
        (Serve::OK, v2),
        (Serve::proxied(Serve::tls()), tls),
        (Serve::OK, same),
    ]);
    let proxy = ["v1", "v2", "v1", "v2", "v1", "v2", "v2", ""].map(|v| (!v.is_empty()).then_some(v));
    let mut errors = Vec::new();
    for ((port, prober), proxy) in (FIRST_PORT..).zip(&probers).zip(proxy) {
        let series = seen.assert_agrees(NIC, port, prober);
        assert_eq!(series.proxy.as_deref(), proxy, "{port}: {series:#?}");
        if series.http_status == Some(400) {
            errors.push(("HTTP_STATUS", "http-status", NIC, port));
            let said = seen.findings("HTTP_STATUS", port)[0];
            assert!(format!("{said:?}").contains("PROXY"), "{said:#?}");
        }
    }
    assert_eq!(errors.len(), 2);
    seen.assert_errors(&errors);
}
