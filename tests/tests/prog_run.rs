//! Every program on every fixture: it passes the packet, counts one outcome, and observes exactly what the same code
//! makes of the same bytes in userspace.

use nvaprobe_tests::{
    kernel::{HOOKS, Kernel, Shadow, timeless},
    packets::*,
};
use probe_common::{
    counters::{
        Outcome::{self, *},
        Program,
    },
    observation::{Observation, Role},
    parse::LinkLayer,
};
use proptest::{prelude::*, test_runner::TestRunner};

/// A packet, what was seen before it, and its outcome at ingress and at egress.
struct Fixture {
    name: &'static str,
    /// Packets that came in before.
    before: Vec<Vec<u8>>,
    packet: Vec<u8>,
    ingress: (Outcome, Option<Role>),
    egress: (Outcome, Option<Role>),
}

fn fixture(
    name: &'static str,
    packet: Vec<u8>,
    ingress: (Outcome, Option<Role>),
    egress: (Outcome, Option<Role>),
) -> Fixture {
    Fixture { name, before: Vec::new(), packet, ingress, egress }
}

/// A fixture that follows the probe's SYN.
fn after_syn(
    name: &'static str,
    packet: Vec<u8>,
    ingress: (Outcome, Option<Role>),
    egress: (Outcome, Option<Role>),
) -> Fixture {
    let before = if packet[0] >> 4 == 6 || packet.get(12..14) == Some(&[0x86, 0xdd]) {
        frame(&ip6(PROBER6, LOCAL6, 6, &[], &syn().bytes()))
    } else {
        frame(&in4(&syn()))
    };
    Fixture { before: vec![before], ..fixture(name, packet, ingress, egress) }
}

const BEHIND: (Outcome, Option<Role>) = (Followed, Some(Role::Forwarded));
const SILENT: (Outcome, Option<Role>) = (Followed, None);
const RETURNED: (Outcome, Option<Role>) = (Followed, Some(Role::Returned));

fn ignored(outcome: Outcome) -> (Outcome, Option<Role>) {
    (outcome, None)
}

fn fixtures() -> Vec<Fixture> {
    let in6 = |tcp: &Tcp| ip6(PROBER6, LOCAL6, 6, &[], &tcp.bytes());
    let out6 = |tcp: &Tcp| ip6(LOCAL6, PROBER6, 6, &[], &tcp.bytes());
    let with_payload = |tcp: Tcp, payload: &[u8]| Tcp { payload: payload.to_vec(), ..tcp };
    let probe = (Followed, Some(Role::Probe));
    let reply_ = (Followed, Some(Role::Reply));
    let both = |outcome| (ignored(outcome), ignored(outcome));
    let options4 = [0x94, 4, 0, 0, 1, 1, 1, 0];
    let hop_by_hop = (0u8, vec![0, 1, 4, 0, 0, 0, 0]);
    let destination = (60u8, vec![0, 1, 4, 0, 0, 0, 0]);
    let first_fragment = (44u8, vec![0, 0, 1, 0, 0, 0, 1]);
    let later_fragment = (44u8, vec![0, 1, 0, 0, 0, 0, 1]);
    let lengthened = |mut packet: Vec<u8>| {
        packet[17] += 40;
        packet
    };
    let mut list = vec![
        // The prober's packets.
        fixture("probe SYN", frame(&in4(&syn())), probe, BEHIND),
        fixture("probe SYN, IPv6", frame(&in6(&syn())), probe, BEHIND),
        after_syn("retransmitted SYN", frame(&in4(&syn())), probe, BEHIND),
        after_syn("port reused by a new SYN", frame(&in4(&Tcp { sequence: 5, ..syn() })), probe, BEHIND),
        after_syn("handshake ACK", frame(&in4(&more(ACK))), probe, SILENT),
        after_syn(
            "request",
            frame(&in4(&with_payload(more(PSH | ACK), b"GET / HTTP/1.1\r\n\r\n"))),
            probe,
            SILENT,
        ),
        after_syn("long request", frame(&in4(&with_payload(more(PSH | ACK), &[b'x'; 1000]))), probe, SILENT),
        after_syn("FIN", frame(&in4(&more(FIN | ACK))), probe, BEHIND),
        after_syn("RST", frame(&in4(&more(RST))), probe, BEHIND),
        // The host's.
        after_syn("SYN-ACK", frame(&out4(&reply(SYN | ACK))), RETURNED, reply_),
        after_syn("SYN-ACK, IPv6", frame(&out6(&reply(SYN | ACK))), RETURNED, reply_),
        after_syn("RST from the host", frame(&out4(&reply(RST | ACK))), RETURNED, reply_),
        after_syn("FIN from the host", frame(&out4(&reply(FIN | ACK))), RETURNED, reply_),
        after_syn(
            "answer",
            frame(&out4(&with_payload(reply(PSH | ACK), b"HTTP/1.1 200 OK\r\n\r\n"))),
            SILENT,
            reply_,
        ),
        after_syn("bare ACK from the host", frame(&out4(&reply(ACK))), SILENT, SILENT),
        after_syn(
            "ICMP port unreachable quoting the probe",
            frame(&ip4(LOCAL4, PROBER4, 1, &icmp_error(3, 3, &in4(&syn())))),
            ignored(IgnoredOtherProtocol),
            (Followed, Some(Role::Reject)),
        ),
        after_syn(
            "ICMP error with the shortest quote",
            frame(&ip4(LOCAL4, PROBER4, 1, &icmp_error(3, 13, &in4(&syn())[..28]))),
            ignored(IgnoredOtherProtocol),
            (Followed, Some(Role::Reject)),
        ),
        after_syn(
            "ICMPv6 beyond scope quoting the probe",
            frame(&ip6(LOCAL6, PROBER6, 58, &[], &icmp_error(1, 2, &in6(&syn())))),
            ignored(IgnoredOtherProtocol),
            (Followed, Some(Role::Reject)),
        ),
        fixture(
            "ICMP error about no probe",
            frame(&ip4(LOCAL4, PROBER4, 1, &icmp_error(3, 3, &in4(&syn())))),
            ignored(IgnoredOtherProtocol),
            ignored(IgnoredUnknownConnection),
        ),
        // Shapes.
        fixture("802.1Q", ethernet(&[(0x8100, 0x2005)], 0x0800, &in4(&syn())), probe, BEHIND),
        fixture("QinQ", ethernet(&[(0x88a8, 7), (0x8100, 5)], 0x86dd, &in6(&syn())), probe, BEHIND),
        fixture(
            "three tags",
            ethernet(&[(0x88a8, 7), (0x8100, 5), (0x8100, 6)], 0x0800, &in4(&syn())),
            ignored(FailedTooDeep),
            ignored(FailedTooDeep),
        ),
        fixture(
            "IPv4 options",
            frame(&ip4_full(PROBER4, LOCAL4, 6, &options4, 0, &syn().bytes())),
            probe,
            BEHIND,
        ),
        fixture(
            "first fragment",
            frame(&ip4_full(PROBER4, LOCAL4, 6, &[], 0x2000, &syn().bytes())),
            probe,
            BEHIND,
        ),
        fixture(
            "later fragment",
            frame(&ip4_full(PROBER4, LOCAL4, 6, &[], 0x2005, &[0; 64])),
            ignored(IgnoredFragment),
            ignored(IgnoredFragment),
        ),
        fixture(
            "IPv6 extension headers",
            frame(&ip6(PROBER6, LOCAL6, 6, &[hop_by_hop.clone(), destination.clone()], &syn().bytes())),
            probe,
            BEHIND,
        ),
        fixture(
            "IPv6 first fragment",
            frame(&ip6(PROBER6, LOCAL6, 6, &[first_fragment], &syn().bytes())),
            probe,
            BEHIND,
        ),
        fixture(
            "IPv6 later fragment",
            frame(&ip6(PROBER6, LOCAL6, 6, &[later_fragment], &[0; 64])),
            ignored(IgnoredFragment),
            ignored(IgnoredFragment),
        ),
        fixture(
            "IPv6 with too many extension headers",
            frame(&ip6(PROBER6, LOCAL6, 6, &vec![destination.clone(); 8], &syn().bytes())),
            ignored(FailedTooDeep),
            ignored(FailedTooDeep),
        ),
        fixture("padding behind the datagram", [frame(&in4(&syn())), vec![0xaa; 30]].concat(), probe, BEHIND),
        fixture("a prefix source", frame(&ip4([35, 191, 3, 4], LOCAL4, 6, &syn().bytes())), probe, BEHIND),
        // Platform traffic.
        fixture(
            "SYN to the wire server",
            frame(&out4(&Tcp::new(40000, 80, SYN))),
            RETURNED,
            ignored(IgnoredPlatform),
        ),
        fixture(
            "SYN to any port of a source",
            frame(&out4(&Tcp::new(40000, 4444, SYN))),
            RETURNED,
            ignored(IgnoredPlatform),
        ),
        fixture(
            "SYN-ACK of the wire server",
            frame(&in4(&Tcp::new(80, 40000, SYN | ACK))),
            ignored(IgnoredPlatform),
            BEHIND,
        ),
        fixture(
            "data of the host plugin",
            frame(&in4(&Tcp::new(32526, 40000, ACK))),
            ignored(IgnoredPlatform),
            SILENT,
        ),
        fixture(
            "DNS query",
            frame(&ip4(LOCAL4, PROBER4, 17, &udp(40000, 53))),
            ignored(IgnoredOtherProtocol),
            ignored(IgnoredPlatform),
        ),
        fixture(
            "DNS answer",
            frame(&ip4(PROBER4, LOCAL4, 17, &udp(53, 40000))),
            ignored(IgnoredPlatform),
            ignored(IgnoredOtherProtocol),
        ),
        fixture(
            "DHCP answer",
            frame(&ip4(PROBER4, [255; 4], 17, &udp(67, 68))),
            ignored(IgnoredPlatform),
            ignored(IgnoredOtherProtocol),
        ),
        fixture(
            "an old connection's answer",
            frame(&out4(&reply(PSH | ACK))),
            SILENT,
            ignored(IgnoredUnknownConnection),
        ),
        fixture(
            "an old connection's data",
            frame(&in4(&more(ACK))),
            ignored(IgnoredUnknownConnection),
            SILENT,
        ),
        fixture(
            "ping",
            frame(&ip4(PROBER4, LOCAL4, 1, &[8, 0, 0, 0, 0, 0, 0, 0])),
            ignored(IgnoredOtherProtocol),
            ignored(IgnoredOtherProtocol),
        ),
    ];
    for (name, packet, outcome) in [
        ("foreign TCP", frame(&ip4([10, 0, 0, 1], LOCAL4, 6, &syn().bytes())), IgnoredForeign),
        ("foreign UDP", frame(&ip4([10, 0, 0, 1], LOCAL4, 17, &udp(1, 2))), IgnoredForeign),
        ("foreign IPv6", frame(&ip6(LOCAL6, LOCAL6, 6, &[], &syn().bytes())), IgnoredForeign),
        ("ARP", ethernet(&[], 0x0806, &[0; 28]), IgnoredNotIp),
        ("LLDP", ethernet(&[], 0x88cc, &[0; 60]), IgnoredNotIp),
        ("a header alone", ethernet(&[], 0x0800, &[]), FailedMalformed),
        ("a header and a byte", ethernet(&[], 0x0800, &[0x45]), FailedMalformed),
        ("a tag cut short", ethernet(&[], 0x8100, &[0, 5]), FailedMalformed),
        ("total length beyond the frame", lengthened(frame(&in4(&syn()))), FailedMalformed),
        (
            "header length below 20",
            {
                let mut p = frame(&in4(&syn()));
                p[14] = 0x44;
                p
            },
            FailedMalformed,
        ),
        (
            "version 5",
            {
                let mut p = frame(&in4(&syn()));
                p[14] = 0x55;
                p
            },
            FailedMalformed,
        ),
        ("TCP header cut short", frame(&ip4(PROBER4, LOCAL4, 6, &syn().bytes()[..10])), FailedMalformed),
        (
            "TCP data offset beyond the datagram",
            {
                let mut p = frame(&in4(&syn()));
                p[46] = 0xf0;
                p
            },
            FailedMalformed,
        ),
        (
            "TCP data offset below 5",
            {
                let mut p = frame(&in4(&syn()));
                p[46] = 0x40;
                p
            },
            FailedMalformed,
        ),
        ("UDP header cut short", frame(&ip4(PROBER4, LOCAL4, 17, &[0; 4])), FailedMalformed),
    ] {
        let (ingress, egress) = both(outcome);
        list.push(fixture(name, packet, ingress, egress));
    }
    list
}

fn name_of(role: Option<Role>) -> String {
    format!("{role:?}")
}

#[test]
fn every_fixture_in_every_program() {
    let mut kernel = Kernel::load();
    let mut ran = Vec::new();
    for fixture in fixtures() {
        for hook in HOOKS {
            kernel.forget();
            let mut shadow = Shadow::default();
            // Behind devices without Ethernet header the same packet starts at its IP header.
            let cut = |packet: &[u8]| match hook.layer {
                LinkLayer::Ethernet => packet.to_vec(),
                LinkLayer::Raw => packet[14.min(packet.len())..].to_vec(),
            };
            let ingress = HOOKS
                .into_iter()
                .find(|h| h.layer == hook.layer && h.direction as u8 == 0)
                .expect("an ingress program");
            let packet = cut(&fixture.packet);
            if !hook.takes(&packet) {
                continue;
            }
            ran.push((fixture.name, hook.name));
            for before in &fixture.before {
                kernel.effect(ingress, &cut(before));
                shadow.effect(ingress, &kernel.sources, 1, &cut(before));
            }
            let effect = timeless(kernel.effect(hook, &packet));
            let context = format!("{} in {}", fixture.name, hook.name);
            assert_eq!(effect.returned, hook.pass, "{context}: every packet passes");
            let expected = shadow.effect(hook, &kernel.sources, 1, &packet);
            assert_eq!(effect, expected, "{context}: kernel and userspace differ");
            let tagged = fixture.packet[12..14] != [0x08, 0] && fixture.packet[12..14] != [0x86, 0xdd];
            // Without an Ethernet header there are no tags, and the version alone says what follows.
            if hook.layer == LinkLayer::Raw && (tagged || fixture.name == "version 5") {
                continue;
            }
            let (outcome, role) = if hook.direction as u8 == 0 { fixture.ingress } else { fixture.egress };
            assert_eq!(effect.outcome, outcome, "{context}");
            let observed: Option<Role> = effect.observed.first().and_then(Observation::role);
            assert_eq!(name_of(observed), name_of(role), "{context}");
        }
    }
    for fixture in fixtures() {
        assert!(ran.contains(&(fixture.name, "nvaprobe_xdp")), "{} ran nowhere", fixture.name);
    }
}

#[test]
fn the_probe_signature_survives_the_ring() {
    let mut kernel = Kernel::load();
    let effect = kernel.effect(HOOKS[0], &ethernet(&[(0x8100, 0x2005)], 0x0800, &in4(&syn())));
    let observation = effect.observed[0];
    let options = observation.tcp_options();
    assert_eq!((options.mss, options.window_scale), (Some(1440), Some(8)));
    assert!(options.sack_permitted && !options.timestamps);
    assert_eq!(observation.flags, SYN | ECE | CWR);
    assert_eq!((observation.sequence, observation.window), (1000, 8192));
    assert_eq!((observation.peer_port, observation.local_port), (50000, 8008));
    assert_eq!(observation.vlan, [0x1005, 0]);
    assert_eq!(observation.source_mac, [0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc]);
    assert!(observation.time_ns > 0);
}

#[test]
fn only_the_first_data_segments_are_observed() {
    let mut kernel = Kernel::load();
    kernel.effect(HOOKS[1], &frame(&in4(&syn())));
    let data = frame(&in4(&Tcp { payload: vec![1; 10], ..more(PSH | ACK) }));
    let mut observed = || -> usize { (0..20).map(|_| kernel.effect(HOOKS[1], &data).observed.len()).sum() };
    assert_eq!(observed(), usize::from(probe_common::follow::DATA_SEGMENTS));
    assert_eq!(observed(), 0);
    // Once the host has answered, the next request counts anew.
    let answer = frame(&ip4(LOCAL4, PROBER4, 6, &Tcp { payload: vec![1; 10], ..reply(PSH | ACK) }.bytes()));
    assert_eq!(kernel.effect(HOOKS[2], &answer).observed.len(), 1);
    assert_eq!(kernel.effect(HOOKS[1], &data).observed.len(), 1);
}

#[test]
fn two_addresses_of_a_prefix_are_two_probers() {
    let mut kernel = Kernel::load();
    kernel.effect(HOOKS[1], &frame(&ip4([35, 191, 0, 1], LOCAL4, 6, &syn().bytes())));
    kernel.effect(HOOKS[1], &frame(&ip4([35, 191, 0, 2], LOCAL4, 6, &syn().bytes())));
    assert_eq!(kernel.maps.probes.keys().flatten().count(), 2);
    let stray = kernel.effect(HOOKS[2], &frame(&ip4(LOCAL4, [35, 191, 0, 3], 6, &reply(SYN | ACK).bytes())));
    assert_eq!(stray.outcome, IgnoredUnknownConnection);
}

/// Any bytes, the interesting parts often intact: the programs pass them and agree with userspace.
#[test]
fn damaged_packets_pass_and_agree_with_userspace() {
    let mut kernel = Kernel::load();
    let packets: Vec<Vec<u8>> = fixtures().into_iter().map(|fixture| fixture.packet).collect();
    let damaged = (
        0..packets.len(),
        prop::collection::vec((0usize..120, any::<u8>()), 0..4),
        0usize..120,
        prop::collection::vec(any::<u8>(), 0..40),
        0usize..HOOKS.len(),
    );
    let mut runner = TestRunner::new(ProptestConfig { cases: 3000, ..ProptestConfig::default() });
    let kernel = std::cell::RefCell::new(&mut kernel);
    runner
        .run(&damaged, |(which, changes, cut, tail, hook)| {
            let mut kernel = kernel.borrow_mut();
            let hook = HOOKS[hook];
            let mut packet = packets[which].clone();
            for (at, value) in changes {
                if let Some(byte) = packet.get_mut(at) {
                    *byte = value;
                }
            }
            packet.truncate(packet.len().saturating_sub(cut).max(15));
            packet.extend(tail);
            if !hook.takes(&packet) {
                return Ok(());
            }
            kernel.forget();
            let effect = timeless(kernel.effect(hook, &packet));
            let expected = Shadow::default().effect(hook, &kernel.sources, 1, &packet);
            prop_assert_eq!(effect, expected);
            Ok(())
        })
        .expect("kernel and userspace agree");
}

#[test]
fn many_sources_are_found_in_the_trie() {
    use probe_user::{
        capture::live::load::Sizes,
        source::{Profile, collect, parse},
    };
    let more: Vec<_> = (0..40).map(|n| parse(&format!("10.{n}.0.0/16")).expect("a prefix")).collect();
    let sources = collect(Profile::AzureLb, false, &more).expect("sources");
    let mut kernel = Kernel::with(sources, Sizes::default());
    for (source, outcome) in
        [([10, 39, 1, 2], Followed), (PROBER4, Followed), ([10, 40, 1, 2], IgnoredForeign)]
    {
        let packet = frame(&ip4(source, [192, 168, 0, 1], 6, &syn().bytes()));
        assert_eq!(kernel.effect(HOOKS[0], &packet).outcome, outcome, "{source:?}");
    }
    let v6 = frame(&ip6(PROBER6, LOCAL6, 6, &[], &syn().bytes()));
    assert_eq!(kernel.effect(HOOKS[0], &v6).outcome, Followed);
}

#[test]
fn a_full_ring_is_counted_and_the_packets_pass() {
    use probe_user::{
        capture::live::load::Sizes,
        source::{Profile, collect},
    };
    let sources = collect(Profile::AzureLb, false, &[]).expect("sources");
    let mut kernel = Kernel::with(sources, Sizes { ring: 4096, ..Sizes::default() });
    let hook = HOOKS[0];
    for port in 0..100u16 {
        let packet = frame(&in4(&Tcp { source_port: 40000 + port, ..syn() }));
        assert_eq!(kernel.run(hook, &packet, 1).0, hook.pass);
    }
    let counters = kernel.counters(hook.program);
    assert!(counters.reconciles());
    assert_eq!(counters.outcome(Followed), 100);
    assert_eq!(counters.observed + counters.ring_lost, 100);
    assert!(counters.ring_lost > 0);
    assert_eq!(kernel.drain().len() as u64, counters.observed);
    kernel.effect(hook, &frame(&in4(&syn())));
    assert_eq!(kernel.counters(hook.program).observed, counters.observed + 1, "room again");
}

/// The verifier gives up after a million steps, and an older one needs more of them for the same program. The longest
/// lists of sources are the most work, since it knows each of them; flows and tunnels come on top.
#[test]
fn the_verifier_has_room_to_spare() {
    use probe_common::{
        drops::Layout,
        flow::{mode, tunnel},
        maps::Tunnel,
    };
    use probe_user::{
        capture::live::load::{Following, Sizes},
        source::{Profile, collect, parse},
    };
    let tunnels = |kind| (0..8).map(move |n| Tunnel { port: n, kind, vni: u32::from(n) }).collect();
    let everything = [
        Following::default(),
        Following { mode: mode::CONTROL, tunnels: Vec::new() },
        Following { mode: mode::FULL, tunnels: tunnels(tunnel::VXLAN) },
        Following { mode: mode::CONTROL, tunnels: tunnels(tunnel::GENEVE) },
    ];
    for (count, following) in
        [0, 3, 6, 7, 40].into_iter().flat_map(|n| everything.iter().map(move |f| (n, f)))
    {
        let more: Vec<_> = (0..count)
            .flat_map(|n| [format!("10.{n}.0.0/16"), format!("fd00:{n}::/32")])
            .map(|text| parse(&text).expect("a prefix"))
            .collect();
        let sources = collect(Profile::AzureLb, false, &more).expect("sources");
        let mut kernel = Kernel::following(following, &Layout::EMPTY, sources, Sizes::default());
        for hook in HOOKS {
            let info = if hook.program == Program::Xdp {
                kernel.loaded.xdp().expect("the XDP program loads").info()
            } else {
                kernel.loaded.classifier(hook.name).expect("the classifier loads").info()
            };
            // Linux 5.16 on; before, the kernel does not say.
            let steps = info.expect("the program is loaded").verified_instruction_count();
            println!("{}, {count}, {following:?}: {steps:?} steps", hook.name);
            let bound = if following.mode == mode::OFF { 100_000 } else { 400_000 };
            assert!(steps.is_none_or(|steps| steps < bound), "{}, {count}: {steps:?} steps", hook.name);
        }
    }
}
