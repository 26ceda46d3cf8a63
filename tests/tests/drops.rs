//! The kernel's reasons for dropping packets of probes, on the running kernel.

use std::{
    fs,
    io::Write as _,
    net::{IpAddr, Ipv4Addr, TcpListener},
    os::fd::AsRawFd as _,
    path::PathBuf,
    thread,
    time::Duration,
};

use nix::sys::{
    signal::Signal,
    socket::{
        AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, bind, connect, sendto, socket,
    },
};
use nvaprobe_tests::{
    kernel::Kernel,
    observe::settings,
    packets::{ACK, Tcp, ip4},
    process::{Running as Process, tool, until},
};
use pnet::packet::tcp::{TcpPacket, ipv4_checksum};
use probe_common::{
    counters::{Counters, Outcome, Program},
    observation::{Observation, flags},
};
use probe_user::{
    capture::live::{
        Observer, Options,
        drops::{self, DropReasons, Dropped, KERNEL_BTF, Reasons, Way},
        load::Sizes,
    },
    host::{self, netlink::Netlink},
    lab::{
        fabric::{Answers, Running},
        listener::Serve,
        netns::Namespace,
        prober::Probe,
        sysctl,
        topology::{Plan, Topology},
    },
    monitor::{Monitor, Settings, boot_ns, nics},
    report::document::{ObserverState, Report},
    source::{self, Profile, from_mapped},
};

const PORT: u16 = 8008;
/// One more source, which the loopback device can play.
const LOOPBACK_PROBER: [u8; 4] = [127, 0, 0, 9];
const EVERY: Duration = Duration::from_millis(200);

/// What an observer in the namespace saw while `work` went on.
struct Seen {
    drops: Vec<Dropped>,
    observed: Vec<Observation>,
    reasons: Option<Reasons>,
    unavailable: Option<(&'static str, String)>,
    counters: Counters,
}

impl Seen {
    /// Names of the reasons of drops on `port`.
    fn names(&self, port: u16) -> Vec<String> {
        let reasons = self.reasons.as_ref().expect("drops are watched");
        let on_port = self.drops.iter().filter(|dropped| dropped.local_port == port);
        on_port.map(|dropped| reasons.text(dropped.reason)).collect()
    }

    /// The drops with a reason, going one way.
    fn of(&self, reason: &str, way: Way) -> Vec<&Dropped> {
        let reasons = self.reasons.as_ref().expect("drops are watched");
        let named = |dropped: &&Dropped| reasons.name(dropped.reason) == Some(reason) && dropped.way() == way;
        self.drops.iter().filter(named).collect()
    }
}

/// Observes with drops watched while `work` goes on.
fn watch(topology: &Topology, work: impl FnOnce() + Send) -> Seen {
    let seen = observe(&topology.nva, DropReasons::On, work);
    assert_eq!(seen.unavailable, None);
    assert!(seen.reasons.is_some());
    seen
}

fn observe(namespace: &Namespace, drop_reasons: DropReasons, work: impl FnOnce() + Send) -> Seen {
    namespace
        .run(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let netlink = Netlink::open().expect("netlink");
                let links = host::links().await.expect("links");
                let judged = nics::judged(&[], &links).expect("NICs");
                let options = Options {
                    sources: source::collect(
                        Profile::AzureLb,
                        false,
                        &[IpAddr::from(LOOPBACK_PROBER).into()],
                    )
                    .expect("sources"),
                    drop_reasons,
                    ..Options::default()
                };
                let mut observer = Observer::load(options, netlink.handle.clone()).expect("the object loads");
                observer.sync(&nics::targets(&links, &judged), true).await.expect("it attaches");
                work();
                let (mut observed, mut drops) = (Vec::new(), Vec::new());
                observer.drain(usize::MAX, &mut observed);
                observer.drops(&mut drops);
                for program in Program::ALL {
                    let counters = observer.counters(program).expect("counters");
                    assert!(counters.reconciles(), "{}: {counters:?}", program.name());
                }
                let counters = observer.counters(Program::Drops).expect("counters");
                let seen = Seen {
                    drops,
                    observed,
                    reasons: observer.drop_reasons().cloned(),
                    unavailable: observer.drops_unavailable().map(|why| (why.code(), why.to_string())),
                    counters,
                };
                observer.close().await;
                seen
            })
        })
        .expect("the namespace can be entered")
}

fn probe(topology: &Topology, nic: usize, attempts: usize) -> Running {
    let probe = Probe::tcp(topology.target(nic, PORT)).every(EVERY).attempts(attempts).time_scale(0.1);
    topology.fabrics[nic].probe(probe).expect("a prober")
}

/// Three probes by `nic` and time for what comes of them.
fn three(topology: &Topology, nic: usize) {
    let _prober = probe(topology, nic, 3);
    thread::sleep(EVERY * 5);
}

fn ifindex(topology: &Topology, nic: usize) -> u32 {
    let listed = tool(&topology.nva, &format!("ip -o link show {}", topology.nics[nic].name));
    listed.split(':').next().and_then(|index| index.trim().parse().ok()).expect("ip prints the ifindex first")
}

/// A SYN from the prober to a NIC, as it arrived.
fn assert_syn(dropped: &Dropped, topology: &Topology, nic: usize, observed: &[Observation]) {
    assert_eq!(from_mapped(&dropped.peer).to_string(), "168.63.129.16");
    assert_eq!(from_mapped(&dropped.local), topology.nics[nic].address);
    assert_eq!((dropped.local_port, dropped.family, dropped.flags & flags::SYN), (PORT, 4, flags::SYN));
    assert!(!dropped.is_icmp() && dropped.flags & flags::ACK == 0 && dropped.peer_id != 0, "{dropped:?}");
    assert!(dropped.length >= 40 && dropped.length <= 60, "{dropped:?}");
    let same = observed.iter().find(|seen| {
        seen.sequence == dropped.sequence
            && seen.peer_port == dropped.peer_port
            && seen.device == dropped.ingress
    });
    let arrived = same.unwrap_or_else(|| panic!("{dropped:?} in {observed:#?}")).time_ns;
    assert!(dropped.time_ns >= arrived && dropped.time_ns - arrived < 1_000_000_000, "{dropped:?}");
}

#[test]
fn strict_rp_filter_drops_the_probe_on_the_nic_it_came_by() {
    let topology = Topology::build(&Plan { rp_filter: 1, ..Plan::default() }).expect("a topology");
    topology.primary_route().expect("a route");
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let seen = watch(&topology, || three(&topology, 1));
    let drops = seen.of("IP_RPFILTER", Way::FromProber);
    assert!(drops.len() >= 3, "{:?}", seen.names(PORT));
    assert_eq!(drops.len(), seen.drops.len(), "{:?}", seen.names(PORT));
    for dropped in drops {
        assert_syn(dropped, &topology, 1, &seen.observed);
        assert_eq!((dropped.device, dropped.ingress), (ifindex(&topology, 1), ifindex(&topology, 1)));
    }
}

#[test]
fn an_input_rule_drops_the_probe_and_an_output_rule_the_reply() {
    for (hook, rule, way) in [
        ("input", format!("tcp dport {PORT}"), Way::FromProber),
        ("prerouting", format!("tcp dport {PORT}"), Way::FromProber),
        ("output", format!("tcp sport {PORT}"), Way::ToProber),
        ("postrouting", format!("tcp sport {PORT}"), Way::ToProber),
    ] {
        let topology = Topology::two_armed().expect("a topology");
        topology.primary_route().expect("a route");
        let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
        tool(
            &topology.nva,
            &format!(
                "nft 'add table inet t; add chain inet t c {{ type filter hook {hook} priority 0; }}; add rule inet t c {rule} drop'"
            ),
        );
        let seen = watch(&topology, || three(&topology, 0));
        let drops = seen.of("NETFILTER_DROP", way);
        assert!(drops.len() >= 3, "{hook}: {:?}", seen.names(PORT));
        for dropped in drops {
            let own = ifindex(&topology, 0);
            if way == Way::FromProber {
                assert_syn(dropped, &topology, 0, &seen.observed);
                assert_eq!(dropped.device, own, "{hook}: {dropped:?}");
                continue;
            }
            // The output hook comes before the device is known.
            let device = if hook == "output" { 0 } else { own };
            assert_eq!((dropped.device, dropped.ingress), (device, 0), "{hook}: {dropped:?}");
            assert_eq!(dropped.flags & (flags::SYN | flags::ACK), flags::SYN | flags::ACK, "{dropped:?}");
            assert_eq!(
                (dropped.local_port, from_mapped(&dropped.local)),
                (PORT, topology.nics[0].address.into())
            );
            let probe = seen.observed.iter().find(|probe| probe.peer_port == dropped.peer_port);
            let probe = probe.expect("its SYN was seen");
            assert_eq!(dropped.acknowledgement, probe.sequence.wrapping_add(1), "it answers that probe");
        }
    }
}

#[test]
fn nobody_listening_is_no_socket() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    let seen = watch(&topology, || three(&topology, 0));
    let drops = seen.of("NO_SOCKET", Way::FromProber);
    assert!(drops.len() >= 3, "{:?}", seen.names(PORT));
    for dropped in &drops {
        assert_syn(dropped, &topology, 0, &seen.observed);
    }
    assert_eq!(seen.drops.len(), drops.len(), "{:?}", seen.names(PORT));
}

#[test]
fn a_reject_rule_is_told_by_the_icmp_error_that_an_output_rule_drops() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    tool(
        &topology.nva,
        &format!(
            "nft 'add table inet t; add chain inet t i {{ type filter hook input priority 0; }}; \
             add rule inet t i tcp dport {PORT} reject; \
             add chain inet t o {{ type filter hook output priority 0; }}; add rule inet t o meta l4proto icmp drop'"
        ),
    );
    let seen = watch(&topology, || three(&topology, 0));
    let errors: Vec<_> = seen.of("NETFILTER_DROP", Way::ToProber);
    assert!(!errors.is_empty(), "{:?}", seen.names(PORT));
    for dropped in errors {
        assert!(dropped.is_icmp(), "{dropped:?}");
        assert_eq!((dropped.icmp_type, dropped.icmp_code, dropped.local_port), (3, 3, PORT), "{dropped:?}");
        assert!(seen.observed.iter().any(|probe| probe.sequence == dropped.sequence), "{dropped:?}");
    }
}

#[test]
fn ipv6_is_seen_too() {
    let topology = Topology::build(&Plan { ipv6: true, ..Plan::default() }).expect("a topology");
    tool(
        &topology.nva,
        &format!(
            "nft 'add table inet t; add chain inet t c {{ type filter hook input priority 0; }}; add rule inet t c tcp dport {PORT} drop'"
        ),
    );
    let target = topology.target6(1, PORT).expect("the plan has it");
    let seen = watch(&topology, || {
        let probe = Probe::tcp(target).every(EVERY).attempts(3).time_scale(0.1);
        let _prober = topology.fabrics[1].probe(probe).expect("a prober");
        thread::sleep(EVERY * 5);
    });
    let drops = seen.of("NETFILTER_DROP", Way::FromProber);
    assert!(drops.len() >= 3, "{:?}", seen.names(PORT));
    for dropped in drops {
        assert_eq!((dropped.family, from_mapped(&dropped.local)), (6, target.ip()));
        assert_eq!(from_mapped(&dropped.peer).to_string(), "fe80::1234:5678:9abc");
        assert_eq!(dropped.device, ifindex(&topology, 1));
    }
}

/// Within TCP an skb has neither device nor socket of its own: the receiving socket tells the namespace.
#[test]
fn what_a_socket_refuses_is_told_with_the_device_it_came_by() {
    let topology = Topology::two_armed().expect("a topology");
    let prober = Ipv4Addr::from(LOOPBACK_PROBER);
    let seen = watch(&topology, || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PORT)).expect("bound");
        let client =
            socket(AddressFamily::Inet, SockType::Stream, SockFlag::empty(), None).expect("a socket");
        let [a, b, c, d] = LOOPBACK_PROBER;
        bind(client.as_raw_fd(), &SockaddrIn::new(a, b, c, d, 0)).expect("an address of lo");
        connect(client.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, PORT)).expect("connected");
        let (mut accepted, peer) = listener.accept().expect("accepted");
        // A segment far outside of the window, on the tuple of the connection.
        let (far, data) = (0x4000_0000, [0; 8]);
        let mut segment =
            Tcp { sequence: far, payload: data.to_vec(), ..Tcp::new(peer.port(), PORT, ACK) }.bytes();
        let checksum = TcpPacket::new(&segment).expect("whole");
        let checksum = ipv4_checksum(&checksum, &prober, &Ipv4Addr::LOCALHOST);
        segment[16..18].copy_from_slice(&checksum.to_be_bytes());
        let packet = ip4(LOOPBACK_PROBER, [127, 0, 0, 1], 6, &segment);
        let raw = socket(AddressFamily::Inet, SockType::Raw, SockFlag::empty(), SockProtocol::Raw);
        let to = SockaddrIn::new(127, 0, 0, 1, 0);
        let raw = raw.expect("a raw socket");
        assert_eq!(sendto(raw.as_raw_fd(), &packet, &to, MsgFlags::empty()), Ok(packet.len()));
        accepted.write_all(b"it still works").expect("connected");
    });
    let drops: Vec<_> = seen.drops.iter().filter(|dropped| dropped.sequence == 0x4000_0000).collect();
    let [dropped] = drops.as_slice() else { panic!("one drop: {:?}", seen.names(PORT)) };
    assert_eq!((from_mapped(&dropped.peer), dropped.way()), (IpAddr::V4(prober), Way::FromProber));
    assert_eq!((dropped.device, dropped.ingress), (0, 1), "the device is gone, lo was it: {dropped:?}");
    let name = seen.reasons.as_ref().and_then(|reasons| reasons.name(dropped.reason)).expect("a name");
    assert!(name.starts_with("TCP_") && name.contains("SEQUENCE"), "{name}");
}

#[test]
fn a_silent_next_hop_drops_the_reply_on_its_way_out() {
    let topology =
        Topology::build(&Plan { answers: Answers::Nothing, ..Plan::default() }).expect("a topology");
    topology.primary_route().expect("a route");
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let seen = watch(&topology, || {
        let _prober = probe(&topology, 0, 3);
        // Three requests a second apart, then the neighbour has failed.
        thread::sleep(Duration::from_secs(5));
    });
    let drops = seen.of("NEIGH_FAILED", Way::ToProber);
    assert!(!drops.is_empty(), "{:?}", seen.names(PORT));
    assert!(drops.iter().all(|dropped| dropped.device == ifindex(&topology, 0)), "{drops:?}");
}

#[test]
fn a_forwarded_probe_is_told_with_its_translated_address() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    sysctl::set(&topology.nva, "ipv4/ip_forward", "1").expect("forwarding");
    tool(
        &topology.nva,
        &format!(
            "nft 'add table ip t; add chain ip t n {{ type nat hook prerouting priority -100; }}; \
             add rule ip t n tcp dport {PORT} dnat to 10.4.3.55:80; \
             add chain ip t f {{ type filter hook forward priority 0; }}; add rule ip t f drop'"
        ),
    );
    let seen = watch(&topology, || three(&topology, 0));
    let drops = seen.of("NETFILTER_DROP", Way::FromProber);
    assert!(drops.len() >= 3, "{:?}", seen.names(80));
    for dropped in drops {
        assert_eq!(
            (from_mapped(&dropped.local).to_string(), dropped.local_port),
            ("10.4.3.55".to_owned(), 80)
        );
        assert_eq!(dropped.device, ifindex(&topology, 0));
    }
}

#[test]
fn an_address_that_is_not_local_is_told() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    tool(&topology.nva, "ip address del 10.4.2.101/24 dev eth0 && ip address add 10.4.2.200/24 dev eth0");
    let seen = watch(&topology, || three(&topology, 0));
    let drops = seen.of("IP_INADDRERRORS", Way::FromProber);
    assert!(drops.len() >= 3, "{:?}", seen.names(PORT));
}

/// The links of a process to tracepoints, each with its program: `(tracepoint, program id)`.
fn tracepoints(pid: u32) -> Vec<(String, u32)> {
    let folder = fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("the process runs");
    let mut found = Vec::new();
    for entry in folder.flatten() {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        let field = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.map(|value| value.trim().to_owned())
        };
        if let (Some(tracepoint), Some(program)) = (field("tp_name"), field("prog_id")) {
            found.push((tracepoint, program.parse().expect("a number")));
        }
    }
    found
}

#[test]
fn a_killed_process_leaves_no_tracepoint_and_a_flag_attaches_none() {
    let topology = Topology::two_armed().expect("a topology");
    let without = Process::start(&topology.nva, &["run", "--drop-reasons=false"]);
    assert_eq!(tracepoints(without.child.id()), []);
    drop(without);
    let with = Process::start(&topology.nva, &["run"]);
    let links = tracepoints(with.child.id());
    let [(tracepoint, program)] = links.as_slice() else { panic!("one link, not {links:?}") };
    assert_eq!(tracepoint, "kfree_skb");
    let there = || aya::programs::loaded_programs().flatten().any(|loaded| loaded.id() == *program);
    assert!(there());
    with.signal(Signal::SIGKILL);
    drop(with);
    until("the program is gone", || !there());
}

#[test]
fn drops_of_another_namespace_are_counted_and_not_seen() {
    let here = Topology::two_armed().expect("a topology");
    let there = Topology::two_armed().expect("another");
    there.primary_route().expect("a route");
    let seen = watch(&here, || three(&there, 0));
    assert_eq!(seen.drops, [], "{:?}", seen.names(PORT));
    assert!(seen.counters.outcome(Outcome::IgnoredOtherNamespace) >= 3, "{:?}", seen.counters);
}

#[test]
fn a_healthy_host_drops_nothing_of_its_probes() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let seen = watch(&topology, || {
        let prober = probe(&topology, 0, 5);
        until("five probes are answered", || prober.answered() == 5);
    });
    assert!(seen.observed.len() >= 15);
    assert_eq!(seen.drops, [], "{:?}", seen.names(PORT));
    assert_eq!(seen.counters.observed, 0);
}

#[test]
fn switched_off_nothing_is_attached() {
    let topology = Topology::two_armed().expect("a topology");
    let seen = observe(&topology.nva, DropReasons::Off, || three(&topology, 0));
    assert_eq!((seen.counters.seen, seen.drops.len()), (0, 0));
    assert!(seen.reasons.is_none() && seen.unavailable.is_none());
    assert!(!seen.observed.is_empty(), "the probes are seen all the same");
}

fn report(topology: &Topology, drop_reasons: DropReasons) -> Report {
    let settings = Settings { drop_reasons, ..settings(topology) };
    topology
        .nva
        .run(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let mut monitor = Monitor::start(settings).await.unwrap_or_else(|error| panic!("{error:#}"));
                let end = boot_ns() + 1_500_000_000;
                while monitor.next(end, &mut Vec::new()).await.expect("observation goes on") {}
                let report = monitor.finish().await.expect("a report");
                monitor.close().await;
                report
            })
        })
        .expect("the namespace can be entered")
}

#[test]
fn a_kernel_without_types_degrades_the_observer_and_nothing_else() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    // Without an end: it takes its time until observation begins.
    let probe = Probe::tcp(topology.target(0, PORT)).every(EVERY);
    let _prober = topology.fabrics[0].probe(probe).expect("a prober");
    let report = report(&topology, DropReasons::Types(PathBuf::from("/nonexistent/vmlinux")));
    assert_eq!(report.observer.state, ObserverState::Degraded);
    let reasons: Vec<&str> = report.observer.reasons.iter().map(|reason| reason.code.as_str()).collect();
    assert_eq!(reasons, ["no-btf"]);
    assert!(report.observer.reasons[0].text.contains("/nonexistent/vmlinux"), "{:?}", report.observer);
    assert_eq!(report.probes.len(), 1, "probes are judged");
}

/// The longest lists of sources are the most work for the verifier, since it knows each of them.
#[test]
fn the_verifier_has_room_to_spare() {
    let layout =
        drops::understand(std::path::Path::new(KERNEL_BTF)).expect("this kernel is understood").layout;
    for count in [0, 7, 40] {
        let more: Vec<_> = (0..count)
            .flat_map(|n| [format!("10.{n}.0.0/16"), format!("fd00:{n}::/32")])
            .map(|text| source::parse(&text).expect("a prefix"))
            .collect();
        let sources = source::collect(Profile::AzureLb, false, &more).expect("sources");
        let mut kernel = Kernel::on(&layout, sources, Sizes::default());
        let info = kernel.loaded.tracepoint().expect("the program loads").info();
        let steps = info.expect("it is loaded").verified_instruction_count();
        println!("{count}: {steps:?} steps");
        assert!(steps.is_none_or(|steps| steps < 100_000), "{count}: {steps:?} steps");
    }
}
