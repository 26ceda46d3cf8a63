//! The kernel's table of flows: what each program enters for which packet, in which mode.

use std::sync::Barrier;

use aya::programs::{TestRun as _, TestRunOptions};
use nvaprobe_tests::{
    kernel::{HOOKS, Hook, Kernel},
    packets::*,
};
use probe_common::{
    counters::Outcome::{self, *},
    drops::Layout,
    flow::{Flow, FlowKey, mode, tunnel},
    maps::{Device, Tunnel},
    parse::LinkLayer,
};
use probe_user::{
    capture::live::load::{Following, Sizes},
    source::{self, Profile},
};

/// BPF_PROG_RUN takes the loopback device for the packet's.
const DEVICE: u32 = 1;
const CLIENT: [u8; 4] = [198, 51, 100, 7];
const SERVER: [u8; 4] = [10, 4, 9, 9];
const CLIENT6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
const SERVER6: [u8; 16] = [0xfd, 0, 0, 4, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];

const XDP: Hook = HOOKS[0];
const IN: Hook = HOOKS[1];
const OUT: Hook = HOOKS[2];

fn following(following: &Following, sizes: Sizes) -> Kernel {
    let sources = source::collect(Profile::AzureLb, false, &[]).expect("sources");
    let mut kernel = Kernel::following(following, &Layout::EMPTY, sources, sizes);
    kernel.maps.devices.insert(DEVICE, Device { nic: 7, flows: 1 }, 0).expect("room for a device");
    kernel
}

fn kernel(mode: u32) -> Kernel {
    following(&Following { mode, tunnels: Vec::new() }, Sizes::default())
}

fn tcp(flags: u8) -> Vec<u8> {
    frame(&ip4(CLIENT, SERVER, 6, &Tcp::new(40000, 443, flags).bytes()))
}

fn answer(flags: u8) -> Vec<u8> {
    frame(&ip4(SERVER, CLIENT, 6, &Tcp::new(443, 40000, flags).bytes()))
}

/// Runs a packet, which the program must pass.
fn enter(kernel: &mut Kernel, hook: Hook, packet: &[u8]) -> Outcome {
    let effect = kernel.effect(hook, packet);
    assert_eq!(effect.returned, hook.pass, "{} passes every packet", hook.name);
    assert!(effect.observed.is_empty(), "a flow is no observation");
    effect.outcome
}

fn table(kernel: &Kernel) -> Vec<(FlowKey, Flow)> {
    kernel.maps.flows.read().expect("the table can be read")
}

fn only(kernel: &Kernel) -> (FlowKey, Flow) {
    let all = table(kernel);
    let [one] = all.as_slice() else { panic!("one flow, not {all:?}") };
    *one
}

#[test]
fn each_mode_enters_what_it_says() {
    for (mode, syn, data, udp_out) in [
        (mode::OFF, IgnoredForeign, IgnoredForeign, IgnoredForeign),
        (mode::CONTROL, Tracked, IgnoredForeign, Tracked),
        (mode::FULL, Tracked, Tracked, Tracked),
    ] {
        let mut kernel = kernel(mode);
        for hook in [XDP, IN, OUT] {
            assert_eq!(enter(&mut kernel, hook, &tcp(SYN)), syn, "a SYN in mode {mode}");
            assert_eq!(enter(&mut kernel, hook, &tcp(ACK)), data, "data in mode {mode}");
            let packet = frame(&ip4(CLIENT, SERVER, 17, &udp(5000, 53)));
            assert_eq!(enter(&mut kernel, hook, &packet), udp_out, "UDP in mode {mode}");
        }
        assert_eq!(table(&kernel).len(), if mode == mode::OFF { 0 } else { 2 });
    }
}

#[test]
fn both_ways_of_a_flow_are_one_entry() {
    let mut kernel = kernel(mode::CONTROL);
    for (hook, packet) in [
        (IN, tcp(SYN)),
        (OUT, answer(SYN | ACK)),
        (IN, tcp(SYN)),
        (IN, tcp(FIN | ACK)),
        (OUT, answer(FIN | ACK)),
        (OUT, answer(RST)),
    ] {
        assert_eq!(enter(&mut kernel, hook, &packet), Tracked);
    }
    let (key, flow) = only(&kernel);
    assert_eq!((key.nic, key.protocol, key.family, key.tunnel), (7, 6, 4, 0));
    let asked = &flow.ways[flow.first_way as usize];
    let answered = &flow.ways[1 - flow.first_way as usize];
    assert_eq!((asked.entered, asked.left, asked.opened, asked.answered, asked.fin), (3, 0, 2, 0, 1));
    assert_eq!((answered.entered, answered.left, answered.opened, answered.answered), (0, 3, 0, 1));
    assert_eq!((answered.fin, answered.reset), (1, 1));
    assert!(asked.first_ns > 0 && asked.first_ns < asked.last_ns && asked.first_ns < answered.first_ns);
    let end = flow.first_way as usize;
    assert_eq!(key.port(end), 40000);
    assert_eq!(key.address(end)[12..], CLIENT);
    assert_eq!(key.port(1 - end), 443);
    assert_eq!(key.address(1 - end)[12..], SERVER);

    // A SYN after the end begins another flow on the same tuple.
    assert_eq!(enter(&mut kernel, IN, &tcp(SYN)), Tracked);
    let (_, flow) = only(&kernel);
    let asked = &flow.ways[flow.first_way as usize];
    assert_eq!((flow.reopened, asked.entered, asked.fin), (1, 1, 0));
}

#[test]
fn every_shape_of_packet_is_entered_or_passed_with_a_reason() {
    let open = Tcp::new(40000, 443, SYN).bytes();
    let v4 = ip4(CLIENT, SERVER, 6, &open);
    let v6 = ip6(CLIENT6, SERVER6, 6, &[], &open);
    let chain = [(0, vec![0, 1, 4, 0, 0, 0, 0]), (60, vec![0, 1, 4, 0, 0, 0, 0])];
    let echo = |kind: u8| [&[kind, 0, 0, 0, 0x12, 0x34, 0, 1][..], &[0; 8]].concat();
    let cases: Vec<(&str, Vec<u8>, Outcome)> = vec![
        ("IPv4", frame(&v4), Tracked),
        ("IPv6", frame(&v6), Tracked),
        ("a VLAN tag", ethernet(&[(0x8100, 5)], 0x0800, &v4), Tracked),
        ("two tags", ethernet(&[(0x88a8, 6), (0x8100, 5)], 0x86dd, &v6), Tracked),
        ("IPv4 options", frame(&ip4_full(CLIENT, SERVER, 6, &[1, 1, 1, 0], 0, &open)), Tracked),
        ("extension headers", frame(&ip6(CLIENT6, SERVER6, 6, &chain, &open)), Tracked),
        ("a first fragment", frame(&ip4_full(CLIENT, SERVER, 17, &[], 0x2000, &udp(9, 53))), Tracked),
        ("a later one", frame(&ip4_full(CLIENT, SERVER, 17, &[], 3, &udp(9, 53))), IgnoredFragment),
        ("an IPv4 echo", frame(&ip4(CLIENT, SERVER, 1, &echo(8))), Tracked),
        ("an IPv6 echo", frame(&ip6(CLIENT6, SERVER6, 58, &[], &echo(128))), Tracked),
        ("a neighbour solicitation", frame(&ip6(CLIENT6, SERVER6, 58, &[], &echo(135))), IgnoredForeign),
        ("GRE", frame(&ip4(CLIENT, SERVER, 47, &open)), IgnoredForeign),
        ("a cut header", frame(&ip4(CLIENT, SERVER, 6, &open[..9])), FailedMalformed),
    ];
    for (name, packet, expected) in cases {
        for hook in [XDP, IN, OUT] {
            let mut kernel = kernel(mode::CONTROL);
            assert_eq!(enter(&mut kernel, hook, &packet), expected, "{name} in {}", hook.name);
            assert_eq!(table(&kernel).len(), usize::from(expected == Tracked), "{name}");
        }
    }
}

#[test]
fn devices_without_ethernet_are_followed_too() {
    let mut kernel = kernel(mode::CONTROL);
    let packet = ip4(CLIENT, SERVER, 6, &Tcp::new(40000, 443, SYN).bytes());
    for hook in HOOKS.into_iter().filter(|hook| hook.layer == LinkLayer::Raw) {
        // BPF_PROG_RUN takes an Ethernet header off a classifier's packet, and its program sees one all the same: these
        // bytes are long enough to be taken for one.
        let (returned, _) = kernel.run(hook, &packet, 1);
        assert_eq!(returned, hook.pass);
    }
    assert_eq!(only(&kernel).1.ways[0].opened + only(&kernel).1.ways[1].opened, 2);
}

#[test]
fn an_icmp_error_ends_the_flow_that_it_quotes_and_makes_none() {
    let unreachable = |code| {
        let quoted = ip4(CLIENT, SERVER, 6, &Tcp::new(40000, 443, SYN).bytes());
        frame(&ip4([10, 4, 2, 1], CLIENT, 1, &icmp_error(3, code, &quoted)))
    };
    let mut kernel = kernel(mode::CONTROL);
    assert_eq!(enter(&mut kernel, OUT, &unreachable(1)), IgnoredForeign, "nothing was opened");
    assert!(table(&kernel).is_empty());
    assert_eq!(enter(&mut kernel, IN, &tcp(SYN)), Tracked);
    assert_eq!(enter(&mut kernel, OUT, &unreachable(4)), IgnoredForeign, "too long is not refused");
    assert_eq!(enter(&mut kernel, OUT, &unreachable(1)), Tracked);
    let (_, flow) = only(&kernel);
    let answered = &flow.ways[1 - flow.first_way as usize];
    assert_eq!((answered.left, answered.reset), (1, 1));
}

#[test]
fn probes_and_devices_that_are_not_judged_make_no_flow() {
    let mut kernel = kernel(mode::FULL);
    assert_eq!(kernel.effect(IN, &frame(&in4(&syn()))).outcome, Followed);
    kernel.maps.devices.insert(DEVICE, Device { nic: 7, flows: 0 }, 0).expect("room for a device");
    assert_eq!(enter(&mut kernel, IN, &tcp(SYN)), IgnoredForeign);
    assert!(table(&kernel).is_empty());
}

fn udp_around(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(50001u16.to_be_bytes());
    bytes.extend(port.to_be_bytes());
    bytes.extend((8 + payload.len() as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(payload);
    frame(&ip4([10, 4, 2, 4], LOCAL4, 17, &bytes))
}

fn vxlan(vni: u8, inner: &[u8]) -> Vec<u8> {
    [&[8, 0, 0, 0, 0, vni / 100, vni, 0][..], inner].concat()
}

#[test]
fn what_a_tunnel_carries_is_entered_and_its_own_packets_are_not() {
    let to = |port: u16, kind, vni| Tunnel { port: port.to_be(), kind, vni };
    let tunnels = vec![
        to(10801, tunnel::VXLAN, 33),
        to(10801, tunnel::VXLAN, 44),
        to(6081, tunnel::GENEVE, tunnel::ANY),
        to(4789, tunnel::DEVICE, tunnel::ANY),
    ];
    let mut kernel = following(&Following { mode: mode::CONTROL, tunnels }, Sizes::default());
    // GENEVE with one option of four bytes, and an IPv4 packet inside, as AWS sends it.
    let mut geneve = vec![1, 0, 0x08, 0x00, 0, 0, 0, 0, 0, 0, 0, 0];
    geneve.extend(ip4(CLIENT, SERVER, 6, &Tcp::new(40003, 443, SYN).bytes()));
    let inner = |port| frame(&ip4(CLIENT, SERVER, 6, &Tcp::new(port, 443, SYN).bytes()));
    for hook in [XDP, IN, OUT] {
        assert_eq!(enter(&mut kernel, hook, &udp_around(10801, &vxlan(33, &inner(40001)))), Tracked);
        assert_eq!(enter(&mut kernel, hook, &udp_around(10801, &vxlan(44, &inner(40002)))), Tracked);
        assert_eq!(enter(&mut kernel, hook, &udp_around(10801, &vxlan(55, &inner(40009)))), IgnoredForeign);
        assert_eq!(enter(&mut kernel, hook, &udp_around(6081, &geneve)), Tracked);
        assert_eq!(enter(&mut kernel, hook, &udp_around(4789, &vxlan(1, &inner(40009)))), IgnoredForeign);
        let data = frame(&ip4(CLIENT, SERVER, 6, &Tcp::new(40001, 443, ACK).bytes()));
        assert_eq!(enter(&mut kernel, hook, &udp_around(10801, &vxlan(33, &data))), IgnoredForeign);
        assert_eq!(
            enter(&mut kernel, hook, &udp_around(10801, &vxlan(33, &inner(1))[..20])),
            FailedMalformed
        );
    }
    let mut places: Vec<(u8, u16)> =
        table(&kernel).iter().map(|(key, flow)| (key.tunnel, key.port(flow.first_way as usize))).collect();
    places.sort_unstable();
    assert_eq!(places, [(1, 40001), (2, 40002), (3, 40003)]);
}

#[test]
fn a_full_table_forgets_and_counts_it() {
    let sizes = Sizes { flows: 1024, ..Sizes::default() };
    let mut kernel = following(&Following { mode: mode::CONTROL, tunnels: Vec::new() }, sizes);
    for port in 1..=5000 {
        let packet = frame(&ip4(CLIENT, SERVER, 6, &Tcp::new(port, 443, SYN).bytes()));
        assert_eq!(enter(&mut kernel, IN, &packet), Tracked);
    }
    let there = table(&kernel);
    let different: std::collections::HashSet<FlowKey> = there.iter().map(|(key, _)| *key).collect();
    assert_eq!(different.len(), there.len(), "no entry is told twice");
    assert!((500..=1024).contains(&there.len()), "{} of 1024 places are taken", there.len());
    assert_eq!(kernel.counters(IN.program).flows_inserted, 5000);
    assert!(kernel.maps.flows.remove(&there[0].0).expect("the entry can be removed"));
    assert!(!kernel.maps.flows.remove(&there[0].0).expect("an absent entry is no error"));
    assert_eq!(table(&kernel).len(), there.len() - 1);
}

#[test]
fn two_cpus_on_one_flow_lose_no_packet() {
    const EACH: u32 = 200_000;
    let mut kernel = kernel(mode::FULL);
    assert_eq!(enter(&mut kernel, IN, &tcp(SYN)), Tracked);
    let program = &*kernel.loaded.classifier(IN.name).expect("the classifier loads");
    let together = Barrier::new(2);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                together.wait();
                let packet = tcp(ACK);
                let options =
                    TestRunOptions { data_in: Some(&packet), repeat: EACH, ..TestRunOptions::new() };
                program.test_run(options).expect("BPF_PROG_RUN");
            });
        }
    });
    let (_, flow) = only(&kernel);
    assert_eq!(flow.ways[flow.first_way as usize].entered, 1 + 2 * u64::from(EACH));
}
