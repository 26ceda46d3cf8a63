//! Faults of the field in namespaces: the verdict, the evidence, and nothing else.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use nvaprobe_tests::observe::{EVERY, Seen, WINDOW, look, observe, settings};
use probe_user::{
    capture::live::mode::{IngressChoice, TcChoice},
    lab::{
        ethtool,
        fabric::Running,
        listener::{Listener, Serve},
        prober::{Close, Probe},
        signature::Signature,
        topology::{Plan, Topology},
        tun::Tun,
    },
    report::document::{ObserverState, Protocol, Reply, Verdict},
    source::{self, Profile},
};

const PORT: u16 = 8008;

/// A TCP prober on every NIC.
fn probe_all(topology: &Topology) -> Vec<Running> {
    (0..topology.nics.len()).map(|nic| probe(topology, nic, PORT)).collect()
}

fn probe(topology: &Topology, nic: usize, port: u16) -> Running {
    let probe = Probe::tcp(topology.target(nic, port)).every(EVERY).delayed(EVERY.mul_f64(0.3 * nic as f64));
    topology.fabrics[nic].probe(probe).expect("a prober")
}

fn two_armed() -> (Topology, Listener) {
    built(&Plan::default())
}

fn built(plan: &Plan) -> (Topology, Listener) {
    let topology = Topology::build(plan).expect("a topology");
    let listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    (topology, listener)
}

#[test]
fn s01_the_host_route_on_one_nic() {
    let (topology, _listener) = two_armed();
    topology.primary_route().expect("a route");
    let probers = probe_all(&topology);
    let seen = look(&topology);
    seen.assert_verdict("eth0", PORT, Verdict::Ok, None);
    let series = seen.assert_verdict("eth1", PORT, Verdict::Asymmetric, Some("eth0"));
    assert_eq!(series.reply, Reply::SynAck);
    assert!(series.interval_s.is_some_and(|interval| (interval - 0.5).abs() < 0.1), "{series:#?}");
    let finding = seen.assert_misrouted("eth1", "eth0", "168.63.129.16 via 10.4.2.1 dev eth0");
    assert!(finding.fixes[0].text.contains("dev eth1 table 201"), "{finding:#?}");
    // The load balancers' own view.
    assert!(probers[0].answered() >= 4);
    assert_eq!(probers[1].answered(), 0);
    assert!(topology.fabrics[0].strays().syn_acks >= 4, "eth1's SYN-ACKs arrive behind eth0");
}

#[test]
fn s02_the_leftover_host_route_not_the_default() {
    let (topology, _listener) = two_armed();
    topology.primary_route().expect("a route");
    topology.route(&topology.default_route(1)).expect("a route");
    let _probers = probe_all(&topology);
    let seen = look(&topology);
    seen.assert_misrouted("eth1", "eth0", "168.63.129.16 via 10.4.2.1 dev eth0");
}

#[test]
fn s03_the_default_route_of_the_other_nic() {
    let (topology, _listener) = two_armed();
    topology.route(&topology.default_route(0)).expect("a route");
    let _probers = probe_all(&topology);
    let seen = look(&topology);
    seen.assert_misrouted("eth1", "eth0", "default via 10.4.2.1 dev eth0");
}

#[test]
fn s07_two_nics_in_one_subnet() {
    let (topology, _listener) = built(&Plan { same_subnet: true, ..Plan::default() });
    topology.primary_route().expect("a route");
    let _prober = probe(&topology, 1, PORT);
    let seen = look(&topology);
    seen.assert_verdict("eth1", PORT, Verdict::Asymmetric, Some("eth0"));
    seen.assert_misrouted("eth1", "eth0", "168.63.129.16 via 10.4.2.1 dev eth0");
}

#[test]
fn s09_policy_routing_done_right_with_and_without_strict_rp_filter() {
    for rp_filter in [0, 1] {
        let (topology, _listener) = built(&Plan { rp_filter, ..Plan::default() });
        topology.primary_route().expect("a route");
        topology.policy_routing(1).expect("policy routing");
        let probers = probe_all(&topology);
        let seen = look(&topology);
        seen.assert_healthy(2);
        assert!(probers.iter().all(|prober| prober.answered() >= 4), "rp_filter {rp_filter}");
    }
}

#[test]
fn s10_a_rule_whose_table_names_the_wrong_device() {
    let (topology, _listener) = two_armed();
    topology.primary_route().expect("a route");
    let wrong = topology.probe_route(0).table(202);
    let rule = topology.policy_rule(1);
    topology
        .nva
        .netlink(|netlink| netlink.route_add(&wrong).and_then(|()| netlink.rule_add(&rule)))
        .expect("policy routing");
    let _probers = probe_all(&topology);
    let seen = look(&topology);
    let finding =
        seen.assert_misrouted("eth1", "eth0", "168.63.129.16 via 10.4.2.1 dev eth0 proto static, table 202");
    assert!(
        finding.evidence.iter().any(|e| e.kind == "rule" && e.text.contains("lookup 202")),
        "{finding:#?}"
    );
    assert!(finding.fixes[0].text.ends_with("dev eth1 table 202"), "mended, not doubled: {finding:#?}");
}

#[test]
fn s18_the_host_route_on_the_lan_side() {
    let (topology, _listener) = two_armed();
    topology.route(&topology.probe_route(1)).expect("a route");
    topology.route(&topology.default_route(0)).expect("a route");
    let _probers = probe_all(&topology);
    let seen = look(&topology);
    seen.assert_verdict("eth1", PORT, Verdict::Ok, None);
    seen.assert_misrouted("eth0", "eth1", "168.63.129.16 via 10.4.3.1 dev eth1");
}

#[test]
fn s20_ipv6_needs_no_policy_routing() {
    let (topology, _listener) = built(&Plan { ipv6: true, ..Plan::default() });
    let probers: Vec<Running> = (0..2)
        .map(|nic| {
            let target = topology.target6(nic, PORT).expect("an IPv6 address");
            topology.fabrics[nic].probe(Probe::tcp(target).every(EVERY)).expect("a prober")
        })
        .collect();
    let seen = look(&topology);
    seen.assert_healthy(2);
    assert_eq!(seen.series("eth1", PORT).source, "fe80::1234:5678:9abc");
    assert!(probers.iter().all(|prober| prober.answered() >= 4));
}

#[test]
fn s34_nothing_listens() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    topology.policy_routing(1).expect("policy routing");
    let _probers = probe_all(&topology);
    let seen = look(&topology);
    for nic in ["eth0", "eth1"] {
        let series = seen.assert_verdict(nic, PORT, Verdict::Refused, None);
        assert_eq!(series.reply, Reply::Rst);
    }
    let errors = seen.errors();
    assert_eq!(errors.len(), 2, "one each: {errors:#?}");
    assert!(errors.iter().all(|finding| finding.code == "REFUSED"));
}

/// A RST by the wrong NIC is misrouted first of all; the dead listener is evidence.
#[test]
fn a_misrouted_rst_is_one_finding() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    let _prober = probe(&topology, 1, PORT);
    let seen = look(&topology);
    let series = seen.assert_verdict("eth1", PORT, Verdict::Asymmetric, Some("eth0"));
    assert_eq!(series.reply, Reply::Rst);
    let finding = seen.assert_misrouted("eth1", "eth0", "168.63.129.16");
    assert!(finding.evidence.iter().any(|e| e.text.contains("RST")), "{finding:#?}");
}

/// An address that is not ours gets no reply; three SYNs of one port and sequence are one attempt.
#[test]
fn s54_retransmissions_are_one_probe() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    let absent = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 4, 2, 200)), PORT);
    // +3 s and +9 s become +0.3 s and +0.9 s.
    let interval = Duration::from_millis(1200);
    let prober =
        topology.fabrics[0].probe(Probe::tcp(absent).every(interval).time_scale(0.1)).expect("a prober");
    let seen = observe(&topology.nva, settings(&topology), Duration::from_secs(5), || {});
    let series = seen.series("eth0", PORT);
    assert_eq!((series.target.as_str(), series.verdict), ("10.4.2.200", Verdict::NoReply));
    let log = prober.log();
    assert!(log.iter().filter(|attempt| attempt.retransmitted_at.len() == 2).count() >= 3, "{log:#?}");
    assert!(series.attempts <= log.len() as u64, "{} of {}", series.attempts, log.len());
    assert!(series.attempts >= 3);
    assert_eq!(seen.errors().len(), 1);
    assert_eq!(seen.errors()[0].cause, "not-local");
}

#[test]
fn s58_platform_traffic_is_no_probe() {
    let topology = Topology::build(&Plan { platform: true, ..Plan::default() }).expect("a topology");
    topology.primary_route().expect("a route");
    let nva = topology.nva.clone();
    let seen = observe(&topology.nva, settings(&topology), WINDOW, move || {
        nva.run(|| {
            use std::io::{Read, Write};
            for port in [80, 32526] {
                let mut stream =
                    std::net::TcpStream::connect(("168.63.129.16", port)).expect("the wire server");
                stream.write_all(b"GET /?comp=versions HTTP/1.1\r\n\r\n").expect("a request");
                let mut answer = String::new();
                stream.read_to_string(&mut answer).expect("an answer");
                assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            }
            let dns = std::net::UdpSocket::bind(("0.0.0.0", 0)).expect("a socket");
            dns.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
            dns.send_to(&[0; 20], ("168.63.129.16", 53)).expect("a query");
            dns.recv(&mut [0; 100]).expect("an answer");
        })
        .expect("the namespace can be entered");
    });
    assert!(seen.report.probes.is_empty(), "{:#?}", seen.report.probes);
    assert!(seen.report.findings.is_empty(), "{:#?}", seen.report.findings);
    let platform = seen.report.platform;
    assert!(platform.packets_out >= 9 && platform.packets_in >= 7, "{platform:?}");
}

#[test]
fn a_connection_older_than_the_observer_is_nobodys() {
    let (topology, _listener) = two_armed();
    topology.primary_route().expect("a route");
    let interval = Duration::from_millis(1500);
    let prober =
        topology.fabrics[1].probe(Probe::tcp(topology.target(1, PORT)).every(interval)).expect("a prober");
    let healthy = topology.fabrics[0]
        .probe(Probe::tcp(topology.target(0, PORT)).every(interval).close(Close::Rst))
        .expect("a prober");
    nvaprobe_tests::process::until("the first probe is answered", || healthy.answered() == 1);
    // The old connections end while we look: their FIN, RST and late SYN-ACKs have no SYN here.
    let seen = observe(&topology.nva, settings(&topology), Duration::from_secs(5), || {});
    assert_eq!(seen.series("eth0", PORT).counts.get(&Verdict::Ok), Some(&seen.series("eth0", PORT).attempts));
    assert!(seen.series("eth0", PORT).attempts < healthy.log().len() as u64);
    assert!(seen.series("eth1", PORT).attempts < prober.log().len() as u64);
    seen.assert_misrouted("eth1", "eth0", "168.63.129.16");
}

#[test]
fn two_ports_on_one_nic_are_two_series() {
    let (topology, _listener) = two_armed();
    topology.primary_route().expect("a route");
    let _probers = [probe(&topology, 0, PORT), probe(&topology, 0, 9009)];
    let seen = look(&topology);
    seen.assert_verdict("eth0", PORT, Verdict::Ok, None);
    seen.assert_verdict("eth0", 9009, Verdict::Refused, None);
    let errors = seen.errors();
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].port, Some(9009));
}

#[test]
fn three_nics_each_have_their_own_verdict() {
    let (topology, _listener) = built(&Plan { nics: 3, ..Plan::default() });
    topology.primary_route().expect("a route");
    topology.policy_routing(2).expect("policy routing");
    let _probers = probe_all(&topology);
    let seen = look(&topology);
    seen.assert_verdict("eth0", PORT, Verdict::Ok, None);
    seen.assert_verdict("eth1", PORT, Verdict::Asymmetric, Some("eth0"));
    seen.assert_verdict("eth2", PORT, Verdict::Ok, None);
    seen.assert_misrouted("eth1", "eth0", "168.63.129.16 via 10.4.2.1 dev eth0");
}

/// One reply in three misrouted: found, and said to be intermittent.
#[test]
fn an_intermittent_fault_is_found() {
    let (topology, _listener) = two_armed();
    topology.primary_route().expect("a route");
    topology.policy_routing(1).expect("policy routing");
    let prober = probe(&topology, 1, PORT);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let rule = topology.policy_rule(1);
    let seen = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut wrong = false;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                // The next attempt is every third: its reply finds no rule.
                let next = prober.log().len() % 3 == 1;
                let waiting = prober.log().last().is_some_and(|attempt| !attempt.is_pending());
                if next != wrong && (waiting || wrong) {
                    let change = |netlink: &probe_user::lab::netlink::Netlink| {
                        if next { netlink.rule_del(&rule) } else { netlink.rule_add(&rule) }
                    };
                    topology.nva.netlink(change).expect("the rule changes");
                    wrong = next;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let seen = observe(&topology.nva, settings(&topology), Duration::from_secs(6), || {});
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        seen
    });
    let errors = seen.errors();
    let [finding] = errors.as_slice() else { panic!("one error: {errors:#?}") };
    assert_eq!(finding.code, "ASYMMETRIC");
    assert!(finding.intermittent, "{finding:#?}");
    let series = seen.series("eth1", PORT);
    let (ok, bad) = (series.counts[&Verdict::Ok], series.counts[&Verdict::Asymmetric]);
    assert!(bad >= 2 && ok > bad, "{series:#?}");
}

#[test]
fn http_probes_are_followed_to_their_answer() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    let _listeners = [
        topology.listen(PORT, Serve::OK).expect("a listener"),
        topology.listen(8001, Serve::Silence).expect("a listener"),
        topology.listen(8002, Serve::Close).expect("a listener"),
    ];
    let probers: Vec<Running> = [(0, PORT), (1, PORT), (0, 8001), (0, 8002)]
        .into_iter()
        .map(|(nic, port)| {
            let probe = Probe::http(topology.target(nic, port), "/health").every(EVERY).time_scale(0.1);
            topology.fabrics[nic].probe(probe).expect("a prober")
        })
        .collect();
    let seen = look(&topology);
    let ok = seen.assert_verdict("eth0", PORT, Verdict::Ok, None);
    assert_eq!((ok.protocol, ok.reply), (Protocol::Http, Reply::Data));
    seen.assert_verdict("eth1", PORT, Verdict::Asymmetric, Some("eth0"));
    seen.assert_verdict("eth0", 8001, Verdict::NoReply, None);
    seen.assert_verdict("eth0", 8002, Verdict::Refused, None);
    let causes: Vec<_> = seen.errors().iter().map(|f| (f.port.unwrap_or(0), f.cause.clone())).collect();
    assert!(causes.contains(&(8001, "timeout".to_owned())), "{causes:?}");
    assert!(causes.contains(&(8002, "closed-by-application".to_owned())), "{causes:?}");
    assert_eq!(causes.len(), 3, "{causes:?}");
    assert!(probers[0].answered() >= 4);
}

/// The verdicts that S01 has, in short form.
fn verdicts(seen: &Seen) -> Vec<(String, Verdict, Option<String>, Reply)> {
    let mut rows: Vec<_> = seen
        .report
        .probes
        .iter()
        .map(|series| (series.nic.clone(), series.verdict, series.out_nic.clone(), series.reply))
        .collect();
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    rows
}

#[test]
fn every_ingress_and_tc_mode_gives_the_same_verdicts() {
    let (topology, _listener) = two_armed();
    topology.primary_route().expect("a route");
    let _probers = probe_all(&topology);
    let expected = [
        ("eth0".to_owned(), Verdict::Ok, None, Reply::SynAck),
        ("eth1".to_owned(), Verdict::Asymmetric, Some("eth0".to_owned()), Reply::SynAck),
    ];
    for (ingress, tc, name) in [
        (IngressChoice::Xdp, TcChoice::Tcx, ("xdp-native", "tcx")),
        (IngressChoice::XdpGeneric, TcChoice::Tcx, ("xdp-generic", "tcx")),
        (IngressChoice::Tc, TcChoice::Tcx, ("tc", "tcx")),
        (IngressChoice::Xdp, TcChoice::Clsact, ("xdp-native", "clsact")),
        (IngressChoice::Tc, TcChoice::Clsact, ("tc", "clsact")),
    ] {
        let settings = probe_user::monitor::Settings { ingress, tc, ..settings(&topology) };
        let seen = observe(&topology.nva, settings, WINDOW, || {});
        assert_eq!(verdicts(&seen), expected, "{name:?}");
        for nic in &seen.report.nics {
            assert_eq!(
                (nic.ingress.as_deref(), nic.egress.as_deref()),
                (Some(name.0), Some(name.1)),
                "{nic:?}"
            );
        }
        assert_eq!(seen.report.observer.state, ObserverState::Complete, "{:?}", seen.report.observer);
    }
}

#[test]
fn offloads_change_no_verdict() {
    for on in [true, false] {
        let topology = Topology::two_armed().expect("a topology");
        topology.primary_route().expect("a route");
        let _listener = topology.listen(PORT, Serve::OK).expect("a listener");
        for nic in &topology.nics {
            ethtool::set_offloads(&topology.nva, &nic.name, on).expect("offloads can be switched");
        }
        for fabric in &topology.fabrics {
            ethtool::set_offloads(fabric.namespace(), "fabric", on).expect("offloads can be switched");
        }
        let _probers: Vec<Running> = (0..2)
            .map(|nic| {
                let probe = Probe::http(topology.target(nic, PORT), "/").every(EVERY);
                topology.fabrics[nic].probe(probe).expect("a prober")
            })
            .collect();
        let seen = look(&topology);
        seen.assert_verdict("eth0", PORT, Verdict::Ok, None);
        seen.assert_verdict("eth1", PORT, Verdict::Asymmetric, Some("eth0"));
    }
}

/// A tunnel without Ethernet header captures the reply.
#[test]
fn a_reply_captured_by_a_tunnel_is_seen_there() {
    let (topology, _listener) = two_armed();
    let _tunnel = Tun::new(&topology.nva, "tun0").expect("a tunnel");
    let route = probe_user::lab::route::Route::to(probe_user::lab::topology::source()).dev("tun0");
    topology
        .nva
        .netlink(|netlink| netlink.up("tun0").and_then(|()| netlink.route_add(&route)))
        .expect("a route into the tunnel");
    let _prober = probe(&topology, 0, PORT);
    let seen = look(&topology);
    seen.assert_verdict("eth0", PORT, Verdict::Asymmetric, Some("tun0"));
    seen.assert_misrouted("eth0", "tun0", "168.63.129.16 dev tun0");
}

/// S52: prefixes as sources, SYNs with timestamps.
#[test]
fn s52_probe_ranges_are_judged_like_one_address() {
    let (topology, _listener) = two_armed();
    topology.route(&topology.default_route(0)).expect("a route");
    let sources = [Ipv4Addr::new(35, 191, 0, 1), Ipv4Addr::new(35, 191, 9, 1)].map(IpAddr::V4);
    let _probers: Vec<Running> = (0..2)
        .map(|nic| {
            let probe = Probe::tcp(topology.target(nic, PORT))
                .every(EVERY)
                .sources(sources)
                .signature(Signature::gcp());
            topology.fabrics[nic].probe(probe).expect("a prober")
        })
        .collect();
    let range = source::parse("35.191.0.0/16").expect("a prefix");
    let sources = source::collect(Profile::Custom, true, &[range]).expect("sources");
    let settings = probe_user::monitor::Settings { sources, ..settings(&topology) };
    let seen = observe(&topology.nva, settings, WINDOW, || {});
    let series = seen.assert_verdict("eth1", PORT, Verdict::Asymmetric, Some("eth0"));
    assert_eq!((series.source.as_str(), series.addresses.len()), ("35.191.0.0/16", 2));
    let finding = seen.assert_misrouted("eth1", "eth0", "default via 10.4.2.1 dev eth0");
    assert!(finding.fixes[0].text.contains("35.191.0.0/16"), "{finding:#?}");
}

/// The printed commands, typed as they are, cure it.
#[test]
fn the_printed_fix_works() {
    let (topology, _listener) = two_armed();
    topology.primary_route().expect("a route");
    let _probers = probe_all(&topology);
    let seen = look(&topology);
    let fix = &seen.assert_misrouted("eth1", "eth0", "168.63.129.16").fixes[0].text;
    nvaprobe_tests::process::tool(&topology.nva, fix);
    look(&topology).assert_healthy(2);
}
