//! The maps; layouts are in `probe_common::maps`.

use aya_ebpf::{
    Global,
    macros::map,
    maps::{HashMap, LpmTrie, LruHashMap, PerCpuArray, RingBuf},
};
use probe_common::{
    counters::{Counters, Program},
    drops::Layout,
    flow::{FlowKey, SharedFlow},
    maps::{Address, Device, Peer, Probe, ProbeKey, Settings},
};

use crate::{drops, follow::Scratch};

/// Read-only after loading: the sources, and what is done about flows.
#[unsafe(no_mangle)]
pub(crate) static SETTINGS: Global<Settings> = Global::new(Settings::EMPTY);

/// Read-only after loading: where this kernel keeps what `drops` reads.
#[unsafe(no_mangle)]
pub(crate) static LAYOUT: Global<Layout> = Global::new(Layout::EMPTY);

#[map]
pub(crate) static COUNTERS: PerCpuArray<Counters> =
    PerCpuArray::with_max_entries(Program::ALL.len() as u32, 0);

#[map]
pub(crate) static PROBES: LruHashMap<ProbeKey, Probe> = LruHashMap::with_max_entries(4096, 0);

#[map]
pub(crate) static FLOWS: LruHashMap<FlowKey, SharedFlow> = LruHashMap::with_max_entries(1, 0);

#[map]
pub(crate) static DEVICES: HashMap<u32, Device> = HashMap::with_max_entries(1024, 0);

#[map]
pub(crate) static OBSERVATIONS: RingBuf = RingBuf::with_byte_size(256 * 1024, 0);

/// Every source, when they are too many for the list in `SETTINGS`. BPF_F_NO_PREALLOC, as tries demand.
#[map]
pub(crate) static SOURCES: LpmTrie<Address, Peer> = LpmTrie::with_max_entries(4096, 1);

/// Where a probe packet's headers are copied to and parsed: contiguous whatever the packet's shape.
#[map]
pub(crate) static SCRATCH: PerCpuArray<Scratch> = PerCpuArray::with_max_entries(1, 0);

/// The same for the tracepoint, apart: a softirq may run the programs above on this CPU in the middle of it.
#[map]
pub(crate) static DROP_SCRATCH: PerCpuArray<drops::Scratch> = PerCpuArray::with_max_entries(1, 0);
