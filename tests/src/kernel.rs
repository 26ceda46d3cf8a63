//! The programs by `BPF_PROG_RUN`, and the same decisions in userspace beside them.

use std::collections::HashMap;

use aya::programs::{TestRun, TestRunOptions};
use probe_common::{
    bytes::Bytes,
    counters::{Counters, Outcome, Program},
    drops::{Dropped, Layout},
    follow::{self, End, Place, Room, Table},
    maps::{Peer, Probe, ProbeKey},
    observation::{Direction, Observation},
    parse::{self, Error, Headers, Link, LinkLayer},
};
use probe_user::{
    capture::live::load::{self, Loaded, Maps, Sizes},
    source::{self, Profile, Source, from_mapped},
};

/// A program as it is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hook {
    pub name: &'static str,
    pub program: Program,
    pub direction: Direction,
    pub layer: LinkLayer,
    /// What the program must return, always: XDP_PASS, or TC_ACT_UNSPEC.
    pub pass: u32,
}

/// Every program that is attached anywhere.
pub const HOOKS: [Hook; 5] = [
    Hook {
        name: "nvaprobe_xdp",
        program: Program::Xdp,
        direction: Direction::Ingress,
        layer: LinkLayer::Ethernet,
        pass: 2,
    },
    Hook {
        name: "nvaprobe_in",
        program: Program::TcIngress,
        direction: Direction::Ingress,
        layer: LinkLayer::Ethernet,
        pass: u32::MAX,
    },
    Hook {
        name: "nvaprobe_out",
        program: Program::TcEgress,
        direction: Direction::Egress,
        layer: LinkLayer::Ethernet,
        pass: u32::MAX,
    },
    Hook {
        name: "nvaprobe_in_l3",
        program: Program::TcIngress,
        direction: Direction::Ingress,
        layer: LinkLayer::Raw,
        pass: u32::MAX,
    },
    Hook {
        name: "nvaprobe_out_l3",
        program: Program::TcEgress,
        direction: Direction::Egress,
        layer: LinkLayer::Raw,
        pass: u32::MAX,
    },
];

impl Hook {
    /// Whether BPF_PROG_RUN builds such a packet: an Ethernet header at least, and for an skb a whole IP header behind
    /// an IP ethertype (net/bpf/test_run.c).
    pub fn takes(self, packet: &[u8]) -> bool {
        let least = match (self.program, packet.get(12..14)) {
            (Program::Xdp, _) => 14,
            (_, Some([0x08, 0x00])) => 14 + 20,
            (_, Some([0x86, 0xdd])) => 14 + 40,
            _ => 15,
        };
        packet.len() >= least
    }
}

/// What one packet did.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    pub returned: u32,
    pub outcome: Outcome,
    pub observed: Vec<Observation>,
}

/// The loaded object.
pub struct Kernel {
    pub loaded: Loaded,
    pub maps: Maps,
    pub sources: Vec<Source>,
}

impl Kernel {
    /// Loads with the Azure sources, and GCP's as a prefix.
    pub fn load() -> Self {
        let more = [source::parse("35.191.0.0/16").expect("a prefix")];
        Self::with(source::collect(Profile::AzureLb, false, &more).expect("sources"), Sizes::default())
    }

    pub fn with(sources: Vec<Source>, sizes: Sizes) -> Self {
        Self::on(&Layout::EMPTY, sources, sizes)
    }

    /// The same with the tracepoint's program ready for this kernel.
    pub fn on(layout: &Layout, sources: Vec<Source>, sizes: Sizes) -> Self {
        let loaded = load::load(&sources, sizes, false, layout);
        let (loaded, maps) = loaded.expect("the BPF object loads (as root)");
        Self { loaded, maps, sources }
    }

    /// Runs a program on a packet, `repeat` times. Returns what it returned and the mean time of a run.
    pub fn run(&mut self, hook: Hook, packet: &[u8], repeat: u32) -> (u32, std::time::Duration) {
        let options = TestRunOptions { data_in: Some(packet), repeat, ..TestRunOptions::new() };
        let result = if hook.program == Program::Xdp {
            self.loaded.xdp().expect("the XDP program loads").test_run(options)
        } else {
            self.loaded.classifier(hook.name).expect("the classifier loads").test_run(options)
        };
        let result = result.unwrap_or_else(|error| panic!("BPF_PROG_RUN of {}: {error:?}", hook.name));
        (result.return_value, result.duration)
    }

    pub fn counters(&self, program: Program) -> Counters {
        let mut sum = Counters::default();
        for value in self.maps.counters.get(&(program as u32), 0).expect("the counters are there").iter() {
            sum.add(value);
        }
        sum
    }

    pub fn drain(&mut self) -> Vec<Observation> {
        let mut observed = Vec::new();
        while let Some(item) = self.maps.ring.next() {
            observed.push(Observation::from_bytes(&item).expect("the ring holds observations"));
        }
        observed
    }

    /// Empties the ring of dropped packets.
    pub fn drain_drops(&mut self) -> Vec<Dropped> {
        let mut dropped = Vec::new();
        while let Some(item) = self.maps.ring.next() {
            dropped.push(Dropped::from_bytes(&item).expect("only the tracepoint writes"));
        }
        dropped
    }

    /// Runs one packet and tells what it did. The counters must reconcile and name exactly one outcome.
    pub fn effect(&mut self, hook: Hook, packet: &[u8]) -> Effect {
        let before = self.counters(hook.program);
        let (returned, _) = self.run(hook, packet, 1);
        let after = self.counters(hook.program);
        assert!(after.reconciles(), "{}: {after:?}", hook.name);
        let grown: Vec<Outcome> =
            Outcome::ALL.into_iter().filter(|o| after.outcome(*o) > before.outcome(*o)).collect();
        assert_eq!(after.seen, before.seen + 1, "{}", hook.name);
        let [outcome] = grown.as_slice() else { panic!("{}: outcomes {grown:?}", hook.name) };
        Effect { returned, outcome: *outcome, observed: self.drain() }
    }

    /// Forgets every probe.
    pub fn forget(&mut self) {
        let keys: Vec<ProbeKey> = self.maps.probes.keys().flatten().collect();
        for key in keys {
            self.maps.probes.remove(&key).expect("the key was just listed");
        }
    }
}

/// The kernel half's decisions, in userspace: what a replay does.
#[derive(Default)]
pub struct Shadow {
    probes: HashMap<ProbeKey, Probe>,
}

impl Table for Shadow {
    fn update<R>(&mut self, key: &ProbeKey, change: impl FnOnce(&mut Probe) -> R) -> Option<R> {
        self.probes.get_mut(key).map(change)
    }

    fn insert(&mut self, key: &ProbeKey, probe: &Probe, _new: bool) -> bool {
        self.probes.insert(*key, *probe);
        true
    }

    fn nic(&self, device: u32) -> u32 {
        device
    }
}

impl Shadow {
    /// What `hook` must do with `packet` on `device`.
    pub fn effect(&mut self, hook: Hook, sources: &[Source], device: u32, packet: &[u8]) -> Effect {
        let (outcome, observed) = match self.decide(hook, sources, device, packet) {
            Ok((outcome, observed)) => (outcome, observed.into_iter().collect()),
            Err(outcome) => (outcome, Vec::new()),
        };
        Effect { returned: hook.pass, outcome, observed }
    }

    fn decide(
        &mut self,
        hook: Hook,
        sources: &[Source],
        device: u32,
        packet: &[u8],
    ) -> Result<(Outcome, Option<Observation>), Outcome> {
        let mut link = Link::default();
        parse::link(packet, hook.layer, &mut link).map_err(Error::outcome)?;
        let (from, to) = match link.ethertype {
            parse::ETHERTYPE_IPV4 => {
                let (from, to) = parse::v4_addresses(packet, link.offset).map_err(Error::outcome)?;
                (from.to_ne_bytes().into(), to.to_ne_bytes().into())
            }
            parse::ETHERTYPE_IPV6 => {
                let (from, to) = parse::v6_addresses(packet, link.offset).map_err(Error::outcome)?;
                let address = |[high, low]: [u64; 2]| {
                    let mut octets = [0; 16];
                    octets[..8].copy_from_slice(&high.to_ne_bytes());
                    octets[8..].copy_from_slice(&low.to_ne_bytes());
                    std::net::IpAddr::from(octets)
                };
                (address(from), address(to))
            }
            _ => return Err(Outcome::IgnoredNotIp),
        };
        let peer = |address: std::net::IpAddr| {
            sources
                .iter()
                .find(|source| source.net.contains(&address))
                .map(|source| Peer { id: source.peer_id, prefix: u16::from(!source.is_exact()) })
        };
        let (end, peer) = match (peer(from), peer(to)) {
            (Some(peer), _) => (End::From, peer),
            (None, Some(peer)) => (End::To, peer),
            (None, None) => return Err(Outcome::IgnoredForeign),
        };
        let mut headers = Headers::default();
        parse::headers(packet, hook.layer, &mut headers).map_err(Error::outcome)?;
        let place = Place { time_ns: 0, device, direction: hook.direction };
        let decision = follow::decide(self, &mut Room::default(), &place, end, peer, &headers);
        let observed = decision.observe.map(|role| {
            let mut observation = Observation::EMPTY;
            let pieces =
                follow::observe(&mut observation, &place, device, role, peer, packet.length(), &headers);
            observation.options_length = piece(packet, pieces.options, &mut observation.options) as u8;
            observation.captured = piece(packet, pieces.payload, &mut observation.payload) as u16;
            observation
        });
        Ok((decision.outcome, observed))
    }
}

fn piece(packet: &[u8], (offset, length): (usize, usize), into: &mut [u8]) -> usize {
    let length = length.min(into.len());
    into[..length].copy_from_slice(&packet[offset..offset + length]);
    length
}

/// Observations without their time, for comparing.
pub fn timeless(mut effect: Effect) -> Effect {
    for observation in &mut effect.observed {
        observation.time_ns = 0;
    }
    effect
}

/// The prober's address of an observation, readable.
pub fn prober(observation: &Observation) -> std::net::IpAddr {
    from_mapped(&observation.peer)
}
