//! Loads the object: sources into read-only data, sizes, programs on demand.

use aya::{
    Ebpf, EbpfLoader,
    maps::{
        HashMap, Map, MapData, PerCpuArray, RingBuf,
        lpm_trie::{Key, LpmTrie},
    },
    programs::{ProgramError, RawTracePoint, SchedClassifier, Xdp},
};
use aya_log::EbpfLogger;
use ipnet::IpNet;
use probe_common::{
    counters::Counters,
    drops::Layout,
    flow::mode,
    maps::{Device, LINEAR_SOURCES, Peer, Probe, ProbeKey, Settings, Source4, Source6, TUNNELS, Tunnel},
};
use thiserror::Error;

use super::flow_table::FlowTable;
use crate::{
    capture::object::{self, MissingObject},
    source::{Source, to_mapped},
};

#[derive(Debug, Error)]
pub enum LoadError {
    #[error(transparent)]
    Object(#[from] MissingObject),
    #[error("the kernel refused the BPF object: {0}")]
    Ebpf(#[from] aya::EbpfError),
    #[error("map {name} of the BPF object: {error}")]
    Map { name: &'static str, error: aya::maps::MapError },
    #[error("the BPF object has no {kind} named {name}: it was built from other sources")]
    Missing { kind: &'static str, name: &'static str },
    #[error("program {name} was refused: {error}")]
    Program { name: &'static str, error: ProgramError },
}

/// Sizes that a user may set.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Bytes of the observation ring: a power of two, at least a page.
    pub ring: u32,
    /// Probe connections remembered.
    pub probes: u32,
    /// Flows remembered, while any are followed.
    pub flows: u32,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { ring: 256 * 1024, probes: 16384, flows: 65536 }
    }
}

/// Which flows the programs follow beside probes.
#[derive(Clone, Debug, Default)]
pub struct Following {
    /// See [`probe_common::flow::mode`].
    pub mode: u32,
    /// Tunnels that are looked into; those beyond [`TUNNELS`] are not.
    pub tunnels: Vec<Tunnel>,
}

/// The maps that userspace reads and writes.
pub struct Maps {
    pub ring: RingBuf<MapData>,
    pub counters: PerCpuArray<MapData, Counters>,
    pub probes: HashMap<MapData, ProbeKey, Probe>,
    pub devices: HashMap<MapData, u32, Device>,
    pub flows: FlowTable,
}

/// The loaded object; programs are verified when first asked for.
pub struct Loaded {
    ebpf: Ebpf,
    /// Dropping it would close its map, so it lives as long as the programs.
    logger: Option<EbpfLogger<&'static dyn log::Log>>,
}

/// Loads the object with the sources and the kernel's layout baked into read-only data. With `kernel_log` the programs'
/// slow paths log.
pub fn load(
    sources: &[Source],
    sizes: Sizes,
    following: &Following,
    kernel_log: bool,
    layout: &Layout,
) -> Result<(Loaded, Maps), LoadError> {
    // Only kernels before 5.11 charge maps to RLIMIT_MEMLOCK; a refusal there shows up as a load error.
    let _ = nix::sys::resource::setrlimit(
        nix::sys::resource::Resource::RLIMIT_MEMLOCK,
        nix::sys::resource::RLIM_INFINITY,
        nix::sys::resource::RLIM_INFINITY,
    );
    let settings = settings(sources, following);
    // 0 is below every level: nothing is logged unless asked for.
    let level = if kernel_log { log::Level::Debug as u8 } else { 0 };
    let mut ebpf = EbpfLoader::new()
        .override_global("SETTINGS", &settings, true)
        .override_global("LAYOUT", layout, true)
        .override_global("AYA_LOG_LEVEL", &level, false)
        .map_max_entries("OBSERVATIONS", sizes.ring)
        .map_max_entries("PROBES", sizes.probes)
        .map_max_entries("FLOWS", if following.mode == mode::OFF { 1 } else { sizes.flows })
        .load(object::object()?)?;
    if settings.trie == 1 {
        fill_trie(&mut ebpf, sources)?;
    }
    let Some(Map::LruHashMap(flows)) = ebpf.take_map("FLOWS") else {
        return Err(LoadError::Missing { kind: "map", name: "FLOWS" });
    };
    let maps = Maps {
        ring: take(&mut ebpf, "OBSERVATIONS")?,
        counters: take(&mut ebpf, "COUNTERS")?,
        probes: take(&mut ebpf, "PROBES")?,
        devices: take(&mut ebpf, "DEVICES")?,
        flows: FlowTable::new(flows),
    };
    let logger = if kernel_log { EbpfLogger::init(&mut ebpf).ok() } else { None };
    Ok((Loaded { ebpf, logger }, maps))
}

impl Loaded {
    /// Hands what the programs logged to the `log` crate.
    pub fn forward_logs(&mut self) {
        if let Some(logger) = &mut self.logger {
            logger.flush();
        }
    }

    /// A TC program, verified on first use.
    pub fn classifier(&mut self, name: &'static str) -> Result<&mut SchedClassifier, LoadError> {
        let program: &mut SchedClassifier = self
            .ebpf
            .program_mut(name)
            .and_then(|program| program.try_into().ok())
            .ok_or(LoadError::Missing { kind: "classifier", name })?;
        match program.load() {
            Ok(()) | Err(ProgramError::AlreadyLoaded) => Ok(program),
            Err(error) => Err(LoadError::Program { name, error }),
        }
    }

    /// The XDP program, verified on first use.
    pub fn xdp(&mut self) -> Result<&mut Xdp, LoadError> {
        let name = "nvaprobe_xdp";
        let program: &mut Xdp = self
            .ebpf
            .program_mut(name)
            .and_then(|program| program.try_into().ok())
            .ok_or(LoadError::Missing { kind: "XDP program", name })?;
        match program.load() {
            Ok(()) | Err(ProgramError::AlreadyLoaded) => Ok(program),
            Err(error) => Err(LoadError::Program { name, error }),
        }
    }

    /// The program of dropped packets, verified on first use.
    pub fn tracepoint(&mut self) -> Result<&mut RawTracePoint, LoadError> {
        let name = "nvaprobe_drop";
        let program: &mut RawTracePoint = self
            .ebpf
            .program_mut(name)
            .and_then(|program| program.try_into().ok())
            .ok_or(LoadError::Missing { kind: "tracepoint program", name })?;
        match program.load() {
            Ok(()) | Err(ProgramError::AlreadyLoaded) => Ok(program),
            Err(error) => Err(LoadError::Program { name, error }),
        }
    }
}

fn take<T: TryFrom<aya::maps::Map, Error = aya::maps::MapError>>(
    ebpf: &mut Ebpf,
    name: &'static str,
) -> Result<T, LoadError> {
    let map = ebpf.take_map(name).ok_or(LoadError::Missing { kind: "map", name })?;
    T::try_from(map).map_err(|error| LoadError::Map { name, error })
}

/// The sources as the programs compare them: in a list when they are few, else all in the trie.
fn settings(sources: &[Source], following: &Following) -> Settings {
    let mut settings = Settings::default();
    for source in sources {
        let peer = peer(source);
        match source.net {
            IpNet::V4(net) => {
                let index = settings.count4 as usize;
                if index < LINEAR_SOURCES {
                    settings.sources4[index] = Source4 {
                        address: u32::from_ne_bytes(net.network().octets()),
                        mask: u32::from_ne_bytes(net.netmask().octets()),
                        peer,
                    };
                }
                settings.count4 += 1;
            }
            IpNet::V6(net) => {
                let index = settings.count6 as usize;
                if index < LINEAR_SOURCES {
                    settings.sources6[index] = Source6 {
                        address: halves(net.network().octets()),
                        mask: halves(net.netmask().octets()),
                        peer,
                        pad: 0,
                    };
                }
                settings.count6 += 1;
            }
        }
    }
    if settings.count4 as usize > LINEAR_SOURCES || settings.count6 as usize > LINEAR_SOURCES {
        settings = Settings { trie: 1, ..Settings::default() };
    }
    settings.flows = following.mode;
    settings.tunnel_count = following.tunnels.len().min(TUNNELS) as u32;
    for (into, tunnel) in settings.tunnels.iter_mut().zip(&following.tunnels) {
        *into = *tunnel;
    }
    settings
}

fn peer(source: &Source) -> Peer {
    Peer { id: source.peer_id, prefix: u16::from(!source.is_exact()) }
}

fn halves(octets: [u8; 16]) -> [u64; 2] {
    let (high, low) = octets.split_at(8);
    [high, low].map(|half| half.try_into().map_or(0, u64::from_ne_bytes))
}

fn fill_trie(ebpf: &mut Ebpf, sources: &[Source]) -> Result<(), LoadError> {
    let name = "SOURCES";
    let map = ebpf.map_mut(name).ok_or(LoadError::Missing { kind: "map", name })?;
    let mut trie: LpmTrie<_, [u8; 16], Peer> =
        LpmTrie::try_from(map).map_err(|error| LoadError::Map { name, error })?;
    for source in sources {
        // A mapped IPv4 prefix is 96 bits longer.
        let extra = if source.net.addr().is_ipv4() { 96 } else { 0 };
        let key = Key::new(extra + u32::from(source.net.prefix_len()), to_mapped(source.net.network()));
        trie.insert(&key, peer(source), 0).map_err(|error| LoadError::Map { name, error })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str, peer_id: u16) -> Source {
        Source { net: crate::source::parse(text).expect("a valid source"), peer_id }
    }

    #[test]
    fn few_sources_are_compared_in_a_list() {
        let settings = settings(
            &[source("168.63.129.16", 1), source("35.191.0.0/16", 2), source("fe80::1234:5678:9abc", 1)],
            &Following::default(),
        );
        assert_eq!((settings.count4, settings.count6, settings.trie), (2, 1, 0));
        assert_eq!(settings.sources4[0].peer, Peer { id: 1, prefix: 0 });
        assert_eq!(settings.sources4[1].peer, Peer { id: 2, prefix: 1 });
        assert_eq!(settings.sources4[1].mask.to_ne_bytes(), [255, 255, 0, 0]);
        assert_eq!(settings.sources6[0].mask, [u64::MAX; 2]);
    }

    #[test]
    fn many_sources_go_into_the_trie() {
        let many: Vec<_> = (0..9).map(|n| source(&format!("10.{n}.0.0/16"), n + 1)).collect();
        let settings = settings(&many, &Following::default());
        assert_eq!((settings.count4, settings.trie), (0, 1));
    }
}
