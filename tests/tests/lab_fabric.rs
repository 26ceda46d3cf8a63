//! The fabric as a counterpart: whom it answers, what it keeps silent about, what it counts.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use ipnet::IpNet;
use nvaprobe_tests::{process::until, vm};
use probe_user::lab::{
    fabric::Answers,
    listener::Serve,
    netlink::Netlink,
    probe_log::{AttemptLog, Outcome},
    prober::Probe,
    route::Route,
    sysctl,
    topology::{Plan, Topology, source},
    wire::{FABRIC_MAC, PROBE_V4, Segment, TcpFlags},
};

const EVERY: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(10);
const PORT: u16 = 8008;

#[test]
fn without_an_answer_to_arp_the_next_hop_stays_unresolved() {
    let topology = Topology::two_armed().expect("a topology");
    topology.route(&Route::to(source()).dev("eth1")).expect("a route");
    let fabric = &topology.fabrics[1];
    fabric.set_answers(Answers::Only(vec![topology.nics[1].gateway.into()]));
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let probe = Probe::tcp(topology.target(1, PORT)).every(EVERY).attempts(1);
    let log = fabric.probe(probe.clone()).expect("a prober").wait_done(PATIENCE);
    assert_eq!((log[0].outcome, log[0].late_syn_acks), (Outcome::NoReply, 0));
    fabric.set_answers(Answers::Only(vec![PROBE_V4.into()]));
    let log = fabric.probe(probe.attempts(10)).expect("a prober").wait_done(PATIENCE);
    assert!(log.last().is_some_and(AttemptLog::answered), "{log:#?}");
}

#[test]
fn the_fabric_is_silent_about_strays_and_counts_them() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    let listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let nic = &topology.nics[0];
    let syn = Segment {
        source: SocketAddr::new(PROBE_V4.into(), 40000),
        destination: topology.target(0, PORT),
        sequence: 7,
        acknowledgement: 0,
        flags: TcpFlags::SYN,
        window: 8192,
        options: Vec::new(),
        payload: Vec::new(),
    };
    topology.fabrics[0].send_segment(&syn);
    // The appliance repeats its SYN-ACK after one second, because nobody acknowledged or reset it.
    until("a repeated SYN-ACK", || topology.fabrics[0].strays().syn_acks >= 2);
    assert_eq!(listener.accepted(), 0);
    let ack = Segment { flags: TcpFlags::ACK, sequence: 500, acknowledgement: 77, ..syn };
    topology.fabrics[0].send(
        Segment { source: "168.63.129.16:40001".parse().expect("valid"), ..ack }.frame(FABRIC_MAC, nic.mac),
    );
    until("a RST for nobody's segment", || topology.fabrics[0].strays().resets == 1);
}

#[test]
fn icmp_errors_reject_a_probe() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    sysctl::set(&topology.nva, "ipv4/ip_forward", "1").expect("forwarding");
    // Not local, and no route beyond: net unreachable, by way of the route to the prober.
    let nowhere = SocketAddr::new([198, 51, 100, 1].into(), PORT);
    let prober = topology.fabrics[0].probe(Probe::tcp(nowhere).every(EVERY).attempts(1)).expect("a prober");
    assert_eq!(prober.wait_done(PATIENCE)[0].outcome, Outcome::Rejected(3, 0));
}

#[test]
fn the_platform_answers_what_the_vm_asks_if_it_shall() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    let fabric = &topology.fabrics[0];
    assert!(vm::get(&topology.nva, 80, Duration::from_millis(300)).is_err(), "a silent platform answered");
    let silent = fabric.strays().platform;
    assert!(silent >= 1);
    fabric.set_platform(true);
    for port in [80, 32526, 8037] {
        let answer = vm::get(&topology.nva, port, PATIENCE).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    }
    let [udp, tcp] = vm::resolve(&topology.nva).expect("answers");
    assert_eq!((&udp[..2], udp[2] & 0x80), (&b"\x12\x34"[..], 0x80));
    assert_eq!((&tcp[2..4], tcp[4] & 0x80), (&b"\x12\x34"[..], 0x80));
    assert_eq!(vm::renew(&topology.nva).expect("a lease")[0], 2, "BOOTREPLY");
    assert!(fabric.strays().platform > silent + 10, "{:?}", fabric.strays());
    assert_eq!(fabric.strays().syn_acks, 0);
}

#[test]
fn frames_are_recorded_both_ways() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    let fabric = &topology.fabrics[0];
    fabric.record(1000);
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let probe = Probe::tcp(topology.target(0, PORT)).every(EVERY).attempts(1);
    fabric.probe(probe).expect("a prober").wait_done(PATIENCE);
    let ipv4: Vec<_> =
        fabric.recorded().into_iter().filter(|r| r.frame.get(12..14) == Some(&[8, 0])).collect();
    let [out, back] = [true, false].map(|way| ipv4.iter().filter(|r| r.to_nic == way).count());
    assert!(out >= 3 && back >= 2, "{out} and {back}");
    assert!(ipv4.windows(2).all(|pair| pair[0].at <= pair[1].at));
    // Azure's gateway, and nobody else, is what the appliance talks to.
    assert!(ipv4.iter().filter(|r| !r.to_nic).all(|r| r.frame[..6] == FABRIC_MAC));
}

#[test]
fn a_nic_that_goes_and_comes_back_is_probed_on() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let probe = Probe::tcp(topology.target(0, PORT)).every(EVERY);
    let prober = topology.fabrics[0].probe(probe).expect("a prober");
    assert!(prober.wait(1, PATIENCE)[0].answered());
    topology.nva.netlink(|netlink| netlink.down("eth0")).expect("down");
    let sent = prober.log().len();
    let log = prober.wait(sent + 1, PATIENCE);
    assert_eq!(log[sent].outcome, Outcome::NoReply, "{log:#?}");
    topology.nva.netlink(|netlink| netlink.up("eth0")).expect("up");
    topology.primary_route().expect("a route");
    until("answered again", || prober.log().iter().any(|a| a.answered() && a.number > sent));
}

#[test]
fn every_address_is_claimed_but_the_nics_own() {
    let topology = Topology::build(&Plan { nics: 3, ..Plan::default() }).expect("a topology");
    let anywhere = IpNet::from(IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9)));
    topology.route(&Route::to(anywhere).dev("eth2")).expect("a route");
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let probe = Probe::tcp(topology.target(2, PORT)).sources([anywhere.addr()]).every(EVERY).attempts(1);
    assert!(topology.fabrics[2].probe(probe).expect("a prober").wait_done(PATIENCE)[0].answered());
    let links = topology.nva.netlink(Netlink::links).expect("links");
    assert_eq!(links.iter().filter(|link| link.name.starts_with("eth") && link.up).count(), 3);
}
