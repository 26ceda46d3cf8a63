//! The programs by `BPF_PROG_RUN`, and the same decisions in userspace beside them.

use aya::programs::{TestRun, TestRunOptions};
use probe_common::{
    counters::{Counters, Outcome, Program},
    drops::{Dropped, Layout},
    follow::Place,
    maps::ProbeKey,
    observation::{Direction, Observation},
    parse::{Error, LinkLayer},
};
use probe_user::{
    capture::live::load::{self, Following, Loaded, Maps, Sizes},
    replay::{sighting::Sighting, sources::Matcher, table::Connections},
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
        Self::following(&Following::default(), layout, sources, sizes)
    }

    /// The same with flows followed.
    pub fn following(following: &Following, layout: &Layout, sources: Vec<Source>, sizes: Sizes) -> Self {
        let loaded = load::load(&sources, sizes, following, false, layout);
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

/// The kernel half's decisions, in userspace: the code of a replay.
#[derive(Default)]
pub struct Shadow {
    probes: Connections,
}

impl Shadow {
    /// What `hook` must do with `packet` on `device`.
    pub fn effect(&mut self, hook: Hook, sources: &[Source], device: u32, packet: &[u8]) -> Effect {
        let (outcome, observed) = match sight(hook, sources, device, packet) {
            Ok(Some(sighting)) => {
                let (decision, observation) = sighting.decide(&mut self.probes);
                (decision.outcome, observation.into_iter().collect())
            }
            Ok(None) => (Outcome::IgnoredForeign, Vec::new()),
            Err(error) => (error.outcome(), Vec::new()),
        };
        Effect { returned: hook.pass, outcome, observed }
    }
}

fn sight(hook: Hook, sources: &[Source], device: u32, packet: &[u8]) -> Result<Option<Sighting>, Error> {
    let Some(found) = Matcher::new(sources).find(packet, hook.layer)? else { return Ok(None) };
    let place = Place { time_ns: 0, device, direction: hook.direction };
    Sighting::whole(packet, hook.layer, place, found).map(Some)
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
