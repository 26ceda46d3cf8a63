//! The prober's wire form, its times, and what it concludes.

use std::{net::IpAddr, time::Duration};

use probe_user::lab::{
    fabric::{Answers, Fabric},
    listener::{Response, Serve},
    probe_log::{AttemptLog, Outcome},
    prober::{Close, Ends, Probe},
    proxy::Version,
    signature::Signature,
    topology::{Plan, Topology},
    view::{Counting, State},
    wire::{PROBE_V4, Packet, Segment, TcpFlags, parse},
};

const EVERY: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(10);
const PORT: u16 = 8008;
const ECN_SYN: u8 = TcpFlags::SYN | TcpFlags::ECE | TcpFlags::CWR;

fn topology() -> Topology {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    topology
}

/// The segments that the fabric sent to its NIC.
fn sent(fabric: &Fabric) -> Vec<Segment> {
    let frames = fabric.recorded().into_iter().filter(|recorded| recorded.to_nic);
    let tcp = frames.filter_map(|recorded| match parse(&recorded.frame) {
        Packet::Tcp(segment) => Some(segment),
        _ => None,
    });
    tcp.collect()
}

fn syns(fabric: &Fabric) -> Vec<Segment> {
    sent(fabric).into_iter().filter(|segment| segment.has(TcpFlags::SYN)).collect()
}

/// (number, data) of every option, NOPs included.
fn options(segment: &Segment) -> Vec<(u8, Vec<u8>)> {
    segment.options.iter().map(|option| (option.number.0, option.data.clone())).collect()
}

#[test]
fn an_unanswered_azure_probe_is_repeated_twice_from_one_port() {
    // No route back to the prober: nothing answers. One tenth of +3 s and +9 s.
    let topology = Topology::two_armed().expect("a topology");
    let fabric = &topology.fabrics[1];
    fabric.record(100);
    let probe = Probe::tcp(topology.target(1, PORT)).every(Duration::from_millis(1500));
    let log = fabric.probe(probe.time_scale(0.1).attempts(1)).expect("a prober").wait_done(PATIENCE);
    assert_eq!((log[0].outcome, log[0].retransmitted_at.len()), (Outcome::NoReply, 2), "{log:?}");
    let at: Vec<_> = log[0].retransmitted_at.iter().map(|at| *at - log[0].sent_at).collect();
    assert!(at[0] >= Duration::from_millis(300) && at[1] >= Duration::from_millis(900), "{at:?}");

    let syns = syns(fabric);
    assert_eq!(syns.len(), 3, "{syns:?}");
    for syn in &syns {
        assert_eq!((syn.source, syn.sequence, syn.window), (syns[0].source, syns[0].sequence, 8192));
        assert!(syn.source.port() >= 49152 && syn.source.ip() == IpAddr::V4(PROBE_V4));
    }
    let flags: Vec<_> = syns.iter().map(|syn| syn.flags).collect();
    assert_eq!(flags, [ECN_SYN, ECN_SYN, TcpFlags::SYN]);
    let (mss, nop, sack) = ((2, vec![0x05, 0xa0]), (1, vec![]), (4, vec![]));
    let full = vec![mss.clone(), nop.clone(), (3, vec![8]), nop.clone(), nop.clone(), sack.clone()];
    assert_eq!(options(&syns[0]), full);
    assert_eq!(options(&syns[1]), full);
    assert_eq!(options(&syns[2]), [mss, nop.clone(), nop, sack]);
}

#[test]
fn the_next_attempt_ends_repetitions_and_takes_a_new_port_and_sequence() {
    let topology = Topology::two_armed().expect("a topology");
    let fabric = &topology.fabrics[1];
    fabric.record(100);
    // +300 ms falls into the interval, +900 ms does not.
    let probe = Probe::tcp(topology.target(1, PORT)).every(Duration::from_millis(600));
    let log = fabric.probe(probe.time_scale(0.1).attempts(3)).expect("a prober").wait_done(PATIENCE);
    assert!(log.iter().all(|attempt| attempt.retransmitted_at.len() == 1), "{log:?}");
    let mut tuples: Vec<_> = syns(fabric).iter().map(|syn| (syn.source, syn.sequence)).collect();
    assert_eq!(tuples.len(), 6);
    tuples.dedup();
    assert_eq!(tuples.len(), 3, "{tuples:?}");
}

#[test]
fn an_ipv6_probe_has_its_own_window_and_repetition() {
    let topology = Topology::build(&Plan { ipv6: true, ..Plan::default() }).expect("a topology");
    let fabric = &topology.fabrics[0];
    // The appliance finds no neighbour to answer.
    fabric.set_answers(Answers::Nothing);
    fabric.record(100);
    let target = topology.target6(0, PORT).expect("an IPv6 topology");
    let probe = Probe::tcp(target).every(Duration::from_millis(400)).time_scale(0.1).attempts(1);
    let log = fabric.probe(probe).expect("a prober").wait_done(PATIENCE);
    assert_eq!((log[0].outcome, log[0].retransmitted_at.len()), (Outcome::NoReply, 1));
    let syns: Vec<_> = syns(fabric).iter().map(|syn| (syn.window, syn.flags)).collect();
    assert_eq!(syns, [(64800, ECN_SYN); 2]);
}

#[test]
fn google_probes_rotate_sources_and_carry_timestamps() {
    let topology = topology();
    topology.route(&topology.default_route(0)).expect("a route");
    let fabric = &topology.fabrics[0];
    fabric.record(100);
    let _listener = topology.listen(PORT, Serve::OK).expect("a listener");
    let sources: [IpAddr; 2] = [[35, 191, 0, 7].into(), [130, 211, 0, 9].into()];
    let probe = Probe::http(topology.target(0, PORT), "/").sources(sources).signature(Signature::gcp());
    let log = fabric.probe(probe.every(EVERY).attempts(4)).expect("a prober").wait_done(PATIENCE);
    assert!(log.len() == 4 && log.iter().all(AttemptLog::answered), "{log:?}");
    let syns = syns(fabric);
    let from: Vec<_> = syns.iter().map(|syn| syn.source.ip()).collect();
    assert_eq!(from, [sources[0], sources[1], sources[0], sources[1]]);
    for syn in &syns {
        assert!(syn.timestamp().is_some() && syn.window == 65535 && syn.flags == TcpFlags::SYN, "{syn:?}");
    }
    assert!(sent(fabric).iter().all(|segment| segment.timestamp().is_some()), "agreed on");
}

#[test]
fn a_held_connection_is_closed_at_the_next_probe_by_fin_or_rst() {
    let topology = topology();
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    for close in [Close::Fin, Close::Rst] {
        let probe = Probe::tcp(topology.target(0, PORT)).every(EVERY).attempts(3).close(close);
        let log = topology.fabrics[0].probe(probe).expect("a prober").wait_done(PATIENCE);
        assert!(log.len() == 3 && log.iter().all(AttemptLog::answered), "{log:#?}");
        for attempt in &log {
            let closed = attempt.closed_at.expect("closed");
            assert!(closed - attempt.sent_at >= EVERY / 2, "held: {attempt:#?}");
            assert_eq!(attempt.peer_closed_at.is_some(), close == Close::Fin, "{attempt:#?}");
        }
    }
    assert_eq!(topology.fabrics[0].strays().resets, 0);
}

#[test]
fn a_timeout_is_shorter_than_the_interval() {
    let topology = topology();
    let limit = Duration::from_millis(150);
    let slow = Response::status(200).delay(Duration::from_millis(350));
    let _listener = topology.listen(PORT, slow.into()).expect("a listener");
    let probe = |port| Probe::http(topology.target(0, port), "/").every(EVERY * 2).attempts(2);
    let probers = [Close::Fin, Close::Rst].map(|close| {
        let probe = probe(PORT).timeout(limit, close);
        topology.fabrics[0].probe(probe).expect("a prober")
    });
    let logs = probers.map(|prober| prober.wait_done(PATIENCE));
    for attempt in logs.iter().flatten() {
        assert_eq!(attempt.outcome, Outcome::NoReply, "{attempt:#?}");
        let closed = attempt.closed_at.expect("closed");
        assert!(closed - attempt.sent_at >= limit, "{attempt:#?}");
    }
    // Behind a FIN the answer still comes, too late; behind a RST nothing does.
    assert!(logs[0].iter().all(|attempt| attempt.http_status == Some(200)), "{:#?}", logs[0]);
    assert!(logs[1].iter().all(|attempt| attempt.http_status.is_none()), "{:#?}", logs[1]);
    let silent = Probe::tcp("10.4.2.200:80".parse().expect("valid")).every(EVERY).timeout(limit, Close::Rst);
    let log = topology.fabrics[0].probe(silent.attempts(1)).expect("a prober").wait_done(PATIENCE);
    assert_eq!(log[0].outcome, Outcome::NoReply, "{log:#?}");
}

#[test]
fn one_connection_carries_several_requests() {
    let topology = topology();
    let serve = Serve::Turns(vec![Serve::OK, Serve::status(503)]);
    let listener = topology.listen(PORT, serve).expect("a listener");
    let probe = Probe::http(topology.target(0, PORT), "/").every(EVERY).attempts(4).reuse();
    let probe = probe.preface(Version::V1, false);
    listener.set(Serve::proxied(Serve::OK));
    let log = topology.fabrics[0].probe(probe.clone()).expect("a prober").wait_done(PATIENCE);
    assert!(log.len() == 4 && log.iter().all(AttemptLog::answered), "the header comes once: {log:#?}");
    assert_eq!((listener.accepted(), listener.requests()), (1, 4));
    assert!(log.iter().all(|attempt| attempt.source == log[0].source), "{log:#?}");
    assert_eq!(log.iter().filter(|attempt| attempt.reused).count(), 3);

    // A server that closes gets a new connection each time.
    listener.set(Serve::proxied(Response::status(200).close().into()));
    let log = topology.fabrics[0].probe(probe).expect("a prober").wait_done(PATIENCE);
    assert!(log.iter().all(|attempt| attempt.answered() && !attempt.reused), "{log:#?}");
    assert_eq!((listener.accepted(), listener.requests()), (5, 8));
}

#[test]
fn accepted_statuses_are_configured() {
    let topology = topology();
    let _listener = topology.listen(PORT, Serve::Turns([200, 204, 301].map(Serve::status).to_vec()));
    let probe = Probe::http(topology.target(0, PORT), "/").every(EVERY).attempts(3);
    let log = topology.fabrics[0].probe(probe.accept([204..=204, 300..=399])).expect("a prober");
    let outcomes: Vec<_> = log.wait_done(PATIENCE).iter().map(|attempt| attempt.outcome).collect();
    assert_eq!(outcomes, [Outcome::HttpStatus(200), Outcome::Answered, Outcome::Answered]);
}

#[test]
fn traffic_manager_closes_at_once() {
    let topology = topology();
    topology.route(&topology.default_route(0)).expect("a route");
    let fabric = &topology.fabrics[0];
    let source: IpAddr = [192, 0, 2, 10].into();
    let web = topology.listen(80, Serve::OK).expect("a listener");
    let _tcp = topology.listen(PORT, Serve::Hold).expect("a listener");
    fabric.record(1000);
    let soon = |probe: Probe| probe.traffic_manager(source).every(EVERY).timeout(EVERY / 2, Close::Rst);
    let probes = [
        soon(Probe::tcp(topology.target(0, PORT))),
        soon(Probe::tcp(topology.target(0, PORT))).ends(Ends::HalfOpen),
        soon(Probe::http(topology.target(0, 80), "/probe")),
    ];
    let probers = probes.map(|probe| fabric.probe(probe.attempts(2)).expect("a prober"));
    for prober in probers {
        let log = prober.wait_done(PATIENCE);
        assert!(log.len() == 2 && log.iter().all(AttemptLog::answered), "{log:#?}");
        for attempt in &log {
            let closed = attempt.closed_at.expect("closed") - attempt.sent_at;
            assert!(closed < EVERY, "before the next: {attempt:#?}");
        }
        assert_eq!(prober.view().state, State::Up);
    }
    assert_eq!(web.requests(), 2);
    let segments = sent(fabric);
    assert_eq!(segments.iter().filter(|segment| segment.has(TcpFlags::RST)).count(), 4, "TCP probes reset");
    let agent = b"User-Agent: Azure Traffic Manager Endpoint Monitor\r\n";
    let asked =
        segments.iter().filter(|s| s.payload.windows(agent.len()).any(|bytes| bytes == agent)).count();
    assert_eq!(asked, 2);
}

#[test]
fn a_view_changes_after_enough_in_a_row() {
    let topology = topology();
    let turns = [200, 500, 500, 200, 500, 500, 500, 200, 200, 200].map(Serve::status).to_vec();
    let cases = [
        (
            Counting::threshold(1),
            vec![(0, State::Up), (1, State::Down), (3, State::Up), (4, State::Down), (7, State::Up)],
        ),
        (Counting::threshold(3), vec![(0, State::Up), (6, State::Down), (9, State::Up)]),
        (Counting::tolerating(2), vec![(0, State::Up), (6, State::Down), (7, State::Up)]),
    ];
    let running: Vec<_> = (PORT..)
        .zip(&cases)
        .map(|(port, (counting, _))| {
            let listener = topology.listen(port, Serve::Turns(turns.clone())).expect("a listener");
            let probe = Probe::http(topology.target(0, port), "/").every(EVERY / 2).attempts(10);
            (listener, topology.fabrics[0].probe(probe.counting(*counting)).expect("a prober"))
        })
        .collect();
    for ((_, prober), (counting, changes)) in running.iter().zip(cases) {
        prober.wait_done(PATIENCE);
        assert_eq!(prober.view().changes, changes, "{counting:?}");
    }
}

#[test]
fn a_deaf_attempt_hears_its_syn_acks_never() {
    let topology = topology();
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let probe = Probe::tcp(topology.target(0, PORT)).every(EVERY * 2).deaf(1).attempts(3);
    let log = topology.fabrics[0].probe(probe).expect("a prober").wait_done(PATIENCE);
    let outcomes: Vec<_> = log.iter().map(|attempt| attempt.outcome).collect();
    assert_eq!(outcomes, [Outcome::NoReply, Outcome::Answered, Outcome::Answered]);
}

#[test]
fn nonsense_is_refused() {
    let topology = Topology::two_armed().expect("a topology");
    let target = topology.target(0, PORT);
    for probe in [
        Probe::tcp(target).sources([]),
        Probe::tcp(target).sources([IpAddr::from([0_u16; 8])]),
        Probe::tcp(target).every(Duration::ZERO),
        Probe::tcp(target).time_scale(0.0),
        Probe::tcp(target).time_scale(f64::NAN),
        Probe::http(target, "/").split(0),
        Probe::http(target, "/").ends(Ends::HalfOpen),
        Probe::tcp(target).timeout(Duration::from_secs(6), Close::Rst),
        Probe::tcp(target).counting(Counting::threshold(0)),
    ] {
        assert!(topology.fabrics[0].probe(probe.clone()).is_err(), "{probe:?}");
    }
}
