//! TCP probes: what counts as an answer, and what of the connections before does not.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use nvaprobe_tests::{
    observe::{PORT, Seen, follow, settings},
    process::until,
};
use probe_user::{
    lab::{
        fabric::Running,
        listener::Serve,
        probe_log::AttemptLog,
        prober::{Close, Ends, Probe},
        route::Rule,
        signature::Signature,
        sysctl,
        topology::Topology,
    },
    report::document::{LbState, Verdict},
    source::{self, Profile},
};

const EVERY: Duration = Duration::from_millis(400);
const ATTEMPTS: usize = 4;

fn topology() -> Topology {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    topology
}

/// Probes of NICs, all followed to their end.
fn judged(topology: &Topology, probes: Vec<(usize, Probe)>) -> (Seen, Vec<Running>) {
    let start = || {
        let start = |(nic, probe): (usize, Probe)| topology.fabrics[nic].probe(probe).expect("a prober");
        probes.into_iter().map(start).collect()
    };
    follow(topology, settings(topology), start)
}

fn probe(topology: &Topology, nic: usize, port: u16) -> Probe {
    Probe::tcp(topology.target(nic, port)).every(EVERY).attempts(ATTEMPTS)
}

/// The probe is green, and the firewall behind it is dead.
#[test]
fn s39_a_probe_of_sshd_says_nothing_about_forwarding() {
    let topology = topology();
    sysctl::set(&topology.nva, "ipv4/ip_forward", "0").expect("a sysctl");
    let _ssh = topology.listen(22, Serve::ssh()).expect("a listener");
    let _own = topology.listen(PORT, Serve::Hold).expect("a listener");
    let probes = [22, PORT].map(|port| (0, probe(&topology, 0, port)));
    let (seen, probers) = judged(&topology, probes.to_vec());
    for (port, prober) in [22, PORT].into_iter().zip(&probers) {
        let series = seen.assert_agrees("eth0", port, prober);
        assert_eq!(series.verdict, Verdict::Ok);
    }
    seen.assert_errors(&[]);
    assert_eq!(seen.warnings(), ["SHARED_SIGNAL"], "{:#?}", seen.report.findings);
    let shared = seen.findings("SHARED_SIGNAL", 22);
    let forwards = shared[0].evidence.iter().any(|e| e.text.contains("ip_forward = 0"));
    assert!(shared.len() == 1 && forwards, "{shared:#?}");
}

#[test]
fn s54_repetitions_of_a_syn_are_one_probe_that_failed() {
    let topology = topology();
    // An address that nobody has: +3 s and +9 s become +0.15 s and +0.45 s.
    let absent = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 4, 2, 200)), PORT);
    let lost = Probe::tcp(absent).every(Duration::from_millis(600)).time_scale(0.05).attempts(3);
    let (seen, probers) = judged(&topology, vec![(0, lost)]);
    let log = probers[0].log();
    assert!(log.iter().all(|attempt| attempt.retransmitted_at.len() == 2), "nine SYNs: {log:#?}");
    let series = seen.assert_agrees("eth0", PORT, &probers[0]);
    assert_eq!((series.attempts, series.counts[&Verdict::NoReply]), (3, 3));
    assert!(series.interval_s.is_some_and(|interval| (interval - 0.6).abs() < 0.15), "{series:#?}");
    let view = series.lb_view.as_ref().expect("a view");
    assert_eq!((view.state, view.code.as_str()), (LbState::Down, "Down_Probe_TcpProbeTimeout"));
    let errors = seen.errors();
    assert!(errors.len() == 1 && errors[0].code == "NO_REPLY", "{errors:#?}");
}

/// How a connection ends, on either side and whenever, is no verdict on a probe that was answered.
#[test]
fn the_end_of_a_connection_changes_nothing() {
    let topology = topology();
    let services = [Serve::Hold, Serve::CloseFirst, Serve::ssh(), Serve::Hold, Serve::Hold, Serve::Hold];
    let _listeners: Vec<_> = (8000..)
        .zip(services)
        .map(|(port, serve)| topology.listen(port, serve).expect("a listener"))
        .collect();
    let at = |port| probe(&topology, 0, port);
    let (seen, probers) = judged(
        &topology,
        vec![
            // FIN from the previous probe's port beside the next SYN, and RST likewise.
            (0, at(8000).close(Close::Fin)),
            // The server closes first, or greets.
            (0, at(8001)),
            (0, at(8002)),
            (0, at(8003).close(Close::Rst)),
            // At once, as Traffic Manager does, with and without the third packet of the handshake.
            (0, at(8004).ends(Ends::Answer).close(Close::Rst)),
            (0, at(8005).ends(Ends::HalfOpen)),
        ],
    );
    for (port, prober) in (8000..).zip(&probers) {
        let series = seen.assert_agrees("eth0", port, prober);
        assert_eq!((series.verdict, series.attempts), (Verdict::Ok, ATTEMPTS as u64), "{port}: {series:#?}");
    }
    seen.assert_errors(&[]);
    assert_eq!(seen.warnings(), [""; 0], "{:#?}", seen.report.findings);
}

/// SYN-ACKs of probes that were given up are repeated for a while (1 s, 3 s, …), here beside newer probes and, after a
/// repair, by the right NIC.
#[test]
fn late_syn_acks_of_an_old_probe_change_nothing() {
    let topology = topology();
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let stop = AtomicBool::new(false);
    let probe = Probe::tcp(topology.target(1, PORT)).every(EVERY).attempts(7);
    let (seen, probers) = thread::scope(|scope| {
        let (topology, stop) = (&topology, &stop);
        let start = move || {
            let prober = topology.fabrics[1].probe(probe).expect("a prober");
            scope.spawn(move || {
                // Three replies have left by the wrong NIC: mend the way.
                let lost = || topology.fabrics[0].strays().syn_acks >= 3;
                until("three replies", || lost() || stop.load(Ordering::Relaxed));
                topology.policy_routing(1).expect("policy routing");
            });
            vec![prober]
        };
        let seen = follow(topology, settings(topology), start);
        stop.store(true, Ordering::Relaxed);
        seen
    });
    let log = probers[0].log();
    let late: usize = log.iter().map(|attempt| attempt.late_syn_acks).sum();
    assert!(late > 0, "no late SYN-ACK came: {log:#?}");
    let wrong = log.iter().take_while(|attempt| !attempt.answered()).count();
    assert!(wrong >= 1 && wrong < log.len(), "{log:#?}");
    let counts =
        BTreeMap::from([(Verdict::Asymmetric, wrong as u64), (Verdict::Ok, (log.len() - wrong) as u64)]);
    let series = seen.assert_counts("eth1", PORT, &probers[0], &counts);
    assert_eq!(series.verdict, Verdict::Ok);
    // Failed, then recovered: no error.
    seen.assert_errors(&[]);
}

/// The prober never hears its first SYN-ACKs, which this host did send the right way.
#[test]
fn a_syn_ack_that_is_lost_beyond_this_host_is_not_blamed_on_it() {
    let topology = topology();
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let probe = probe(&topology, 0, PORT).attempts(6).deaf(2);
    let (seen, probers) = judged(&topology, vec![(0, probe)]);
    let log = probers[0].log();
    assert!(log[..2].iter().all(|attempt| !attempt.answered()), "{log:#?}");
    assert!(log[2..].iter().all(AttemptLog::answered), "{log:#?}");
    let series = seen.series("eth0", PORT);
    assert_eq!((series.attempts, series.verdict), (6, Verdict::Ok), "{series:#?}");
    assert!(series.counts.keys().all(|v| *v != Verdict::Asymmetric && *v != Verdict::Refused), "{series:#?}");
    seen.assert_errors(&[]);
}

/// Two prefixes of one cloud: each is judged, and each is misrouted, on its own.
#[test]
fn s52_two_probe_ranges_on_two_nics() {
    let topology = Topology::two_armed().expect("a topology");
    topology.route(&topology.default_route(0)).expect("a route");
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let ranges = ["35.191.0.0/16", "130.211.0.0/22"].map(|range| source::parse(range).expect("a prefix"));
    let addresses = [Ipv4Addr::new(35, 191, 0, 1), Ipv4Addr::new(130, 211, 0, 1)].map(IpAddr::V4);
    let sources = source::collect(Profile::Custom, true, &ranges).expect("sources");
    let settings = probe_user::monitor::Settings { sources, ..settings(&topology) };
    let (seen, probers) = follow(&topology, settings, || {
        let of = |nic: usize, address: IpAddr| {
            let probe = probe(&topology, nic, PORT).sources([address]).signature(Signature::gcp());
            topology.fabrics[nic].probe(probe).expect("a prober")
        };
        [0, 1].into_iter().flat_map(|nic| addresses.map(|address| of(nic, address))).collect()
    });
    assert_eq!(seen.report.probes.len(), 4, "{:#?}", seen.report.probes);
    let places = ["eth0", "eth1"].into_iter().flat_map(|nic| ranges.map(|range| (nic, range.to_string())));
    for ((nic, range), prober) in places.zip(&probers) {
        let wanted = |s: &&probe_user::report::document::Series| s.nic == nic && s.source == range;
        let series = seen.report.probes.iter().find(wanted).expect("a series for each range and NIC");
        let (verdict, out) =
            if nic == "eth0" { (Verdict::Ok, None) } else { (Verdict::Asymmetric, Some("eth0")) };
        assert_eq!((series.verdict, series.out_nic.as_deref()), (verdict, out), "{series:#?}");
        assert_eq!(series.counts, BTreeMap::from([(verdict, ATTEMPTS as u64)]), "{series:#?}");
        assert!(
            prober.log().iter().all(|attempt| attempt.answered() == (nic == "eth0")),
            "{:#?}",
            prober.log()
        );
        assert_eq!(series.addresses.len(), 1);
    }
    let error = ("ASYMMETRIC", "route", "eth1", PORT);
    seen.assert_errors(&[error, error]);
    for range in ranges {
        let named = seen.errors().iter().filter(|f| format!("{f:?}").contains(&range.to_string())).count();
        assert_eq!(named, 1, "one error names {range}: {:#?}", seen.errors());
    }
}

/// One address of a range has its way back by policy routing, the other has not: every second probe is misrouted.
#[test]
fn failures_among_successes_are_one_intermittent_error() {
    let topology = Topology::two_armed().expect("a topology");
    topology.route(&topology.default_route(0)).expect("a route");
    let addresses = [Ipv4Addr::new(35, 191, 0, 1), Ipv4Addr::new(35, 191, 0, 2)].map(IpAddr::V4);
    let rule = Rule { to: Some(addresses[0].into()), ..topology.policy_rule(1) };
    let route = topology.default_route(1).table(rule.table);
    topology
        .nva
        .netlink(|netlink| netlink.route_add(&route).and_then(|()| netlink.rule_add(&rule)))
        .expect("policy routing");
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let range = source::parse("35.191.0.0/16").expect("a prefix");
    let sources = source::collect(Profile::Custom, true, &[range]).expect("sources");
    let settings = probe_user::monitor::Settings { sources, ..settings(&topology) };
    let (seen, probers) = follow(&topology, settings, || {
        let probe = probe(&topology, 1, PORT).attempts(6).sources(addresses).signature(Signature::gcp());
        vec![topology.fabrics[1].probe(probe).expect("a prober")]
    });
    let answered: Vec<bool> = probers[0].log().iter().map(AttemptLog::answered).collect();
    assert_eq!(answered, [true, false, true, false, true, false]);
    let counts = BTreeMap::from([(Verdict::Ok, 3), (Verdict::Asymmetric, 3)]);
    let series = seen.assert_counts("eth1", PORT, &probers[0], &counts);
    assert_eq!(series.addresses.len(), 2);
    seen.assert_errors(&[("ASYMMETRIC", "route", "eth1", PORT)]);
    assert!(seen.errors()[0].intermittent, "{:#?}", seen.errors());
    assert_eq!(seen.warnings(), ["FLAPPING"], "{:#?}", seen.report.findings);
}

/// Two load balancers on one port: one series, two cadences, and the shorter one decides.
#[test]
fn two_interleaved_probers_are_told_apart() {
    let topology = topology();
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let (often, seldom) = (Duration::from_millis(400), Duration::from_millis(900));
    let at = |every, attempts| Probe::tcp(topology.target(0, PORT)).every(every).attempts(attempts);
    let probes = vec![(0, at(often, 9)), (0, at(seldom, 4).delayed(Duration::from_millis(170)))];
    let (seen, probers) = judged(&topology, probes);
    let sent: usize = probers.iter().map(|prober| prober.log().len()).sum();
    let series = seen.series("eth0", PORT);
    assert_eq!((series.attempts, series.counts[&Verdict::Ok]), (sent as u64, sent as u64), "{series:#?}");
    let near = |found: f64, expected: Duration| (found - expected.as_secs_f64()).abs() < 0.1;
    let cadences = series.cadences.as_slice();
    assert!(matches!(cadences, [a, b] if near(*a, often) && near(*b, seldom)), "{series:#?}");
    assert!(series.interval_s.is_some_and(|interval| near(interval, often)), "{series:#?}");
    seen.assert_errors(&[]);
}
