//! The observer: everything attached, read and counted for one network namespace.

use std::{
    collections::{BTreeMap, VecDeque},
    path::{Path, PathBuf},
};

use aya::maps::{MapData, RingBuf};
use probe_common::{
    counters::{Counters, Program},
    drops::{Dropped, Layout},
    flow::{Flow, FlowKey},
    maps::{Device, Probe, ProbeKey},
    observation::Observation,
};
use rtnetlink::Handle;
use thiserror::Error;
use tokio::io::unix::AsyncFd;

use super::{
    attach::{self, AttachError, Attachment, Target, TcHook},
    clsact,
    drops::{self, DropReasons, KERNEL_BTF, Reasons, Unavailable, Watching},
    flow_table::FlowTable,
    guardian::Guardian,
    load::{self, Following, LoadError, Loaded, Maps, Sizes},
    mode::{IngressChoice, Tc, TcChoice},
};
use crate::source::Source;

/// How to observe.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub sources: Vec<Source>,
    pub ingress: IngressChoice,
    pub tc: TcChoice,
    pub sizes: Sizes,
    /// The binary whose `guardian` subcommand cleans up clsact filters after a death; without one, nobody does.
    pub guardian: Option<PathBuf>,
    /// Let the programs log their slow paths through the `log` crate.
    pub kernel_log: bool,
    pub drop_reasons: DropReasons,
}

/// Dropped packets held for [`Observer::drops`] when nobody asks: then the oldest go.
const DROPS_HELD: usize = 4096;

#[derive(Debug, Error)]
pub enum ObserveError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Attach(#[from] AttachError),
    #[error("the ring of observations cannot be polled: {0}")]
    Ring(std::io::Error),
    #[error("map {name}: {error}")]
    Map { name: &'static str, error: aya::maps::MapError },
    #[error("the table of flows cannot be read: {0}")]
    Flows(std::io::Error),
}

/// Everything of ours in the kernel. Dropping it detaches all of it.
pub struct Observer {
    loaded: Loaded,
    ring: AsyncFd<RingBuf<MapData>>,
    counters: aya::maps::PerCpuArray<MapData, Counters>,
    probes: aya::maps::HashMap<MapData, ProbeKey, Probe>,
    /// Entries that we removed from `probes`.
    forgotten: u64,
    devices: aya::maps::HashMap<MapData, u32, Device>,
    flows: FlowTable,
    watching: Watching,
    dropped: VecDeque<Dropped>,
    attachments: BTreeMap<u32, Attachment>,
    /// Devices that could not be covered, with the reason.
    uncovered: BTreeMap<u32, String>,
    options: Options,
    tcx_refused: Option<String>,
    handle: Handle,
    // Last: it cleans up and is waited for after everything else was dropped.
    guardian: Option<Guardian>,
}

impl Observer {
    /// Loads the programs; nothing is attached to a device yet. Must be called inside a tokio runtime, on a thread that
    /// is in the network namespace to observe. Drop reasons that cannot be had are no error.
    pub fn load(options: Options, handle: Handle) -> Result<Self, ObserveError> {
        let understood = match &options.drop_reasons {
            DropReasons::On => Some(drops::understand(Path::new(KERNEL_BTF))),
            DropReasons::Types(path) => Some(drops::understand(path)),
            DropReasons::Off => None,
        };
        let layout = match &understood {
            Some(Ok(understood)) => understood.layout,
            _ => Layout::EMPTY,
        };
        // Flows are not followed yet: no model judges them.
        let following = Following::default();
        let (mut loaded, Maps { ring, counters, probes, devices, flows }) =
            load::load(&options.sources, options.sizes, &following, options.kernel_log, &layout)?;
        let watching = match understood {
            None => Watching::Off,
            Some(Err(error)) => Watching::Unavailable(error),
            Some(Ok(understood)) => match drops::attach(&mut loaded) {
                Ok(link) => Watching::On { reasons: understood.reasons, link },
                Err(error) => Watching::Unavailable(error),
            },
        };
        // SAFETY: a RingBuf owns its map's file descriptor for as long as it lives, and always returns the same one.
        let ring = unsafe { AsyncFd::register(ring) };
        Ok(Self {
            loaded,
            ring: ring.map_err(|error| ObserveError::Ring(error.into_parts().1))?,
            counters,
            probes,
            forgotten: 0,
            devices,
            flows,
            watching,
            dropped: VecDeque::new(),
            attachments: BTreeMap::new(),
            uncovered: BTreeMap::new(),
            options,
            tcx_refused: None,
            handle,
            guardian: None,
        })
    }

    /// Makes the attachments match the devices that are there: new ones get theirs, vanished ones are forgotten.
    /// A judged NIC that cannot be covered is an error while `strict`; otherwise it is remembered as uncovered.
    pub async fn sync(&mut self, targets: &[Target], strict: bool) -> Result<(), ObserveError> {
        let there = |ifindex: &u32| targets.iter().any(|target| target.ifindex == *ifindex);
        self.attachments.retain(|ifindex, _| there(ifindex));
        self.uncovered.retain(|ifindex, _| there(ifindex));
        // Judged NICs first: an ingress hook that is demanded and refused ends the start before others are touched.
        let mut missing: Vec<&Target> = targets
            .iter()
            .filter(|target| {
                !self.attachments.contains_key(&target.ifindex)
                    && !self.uncovered.contains_key(&target.ifindex)
            })
            .collect();
        missing.sort_by_key(|target| (!target.judged, target.ifindex));
        for target in missing {
            self.clean_stale(target).await;
            let mut tc = TcHook {
                choice: self.options.tc,
                tcx_refused: &mut self.tcx_refused,
                handle: &self.handle,
                guardian: &mut self.guardian,
                guardian_binary: self.options.guardian.as_deref(),
            };
            match attach::attach(&mut self.loaded, target, self.options.ingress, &mut tc).await {
                Ok(attachment) => {
                    self.attachments.insert(target.ifindex, attachment);
                }
                Err(error @ AttachError::Load(_)) => return Err(error.into()),
                Err(error) if target.judged && strict => return Err(error.into()),
                Err(error) => {
                    self.uncovered.insert(target.ifindex, error.to_string());
                }
            }
        }
        Ok(())
    }

    /// We hold the namespace's lock, so a filter with our name is left over from a death.
    async fn clean_stale(&self, target: &Target) {
        if let Err(error) = clsact::clean(&self.handle, &target.name, target.ifindex, false).await {
            tracing::debug!(device = target.name, %error, "no stale filters removed");
        }
    }

    /// Records which logical NIC each device belongs to, and where flows are followed.
    pub fn map_devices(&mut self, nics: impl IntoIterator<Item = (u32, Device)>) -> Result<(), ObserveError> {
        for (device, entry) in nics {
            self.devices
                .insert(device, entry, 0)
                .map_err(|error| ObserveError::Map { name: "DEVICES", error })?;
        }
        Ok(())
    }

    /// What is attached where.
    pub fn attachments(&self) -> impl Iterator<Item = &Attachment> {
        self.attachments.values()
    }

    /// Devices that could not be covered: ifindex and reason.
    pub fn uncovered(&self) -> impl Iterator<Item = (u32, &str)> {
        self.uncovered.iter().map(|(ifindex, reason)| (*ifindex, reason.as_str()))
    }

    /// Waits until there are observations.
    pub async fn readable(&mut self) -> Result<(), ObserveError> {
        let mut guard = self.ring.readable_mut().await.map_err(ObserveError::Ring)?;
        guard.clear_ready();
        Ok(())
    }

    /// Hands on what the programs logged, if they were asked to.
    pub fn forward_logs(&mut self) {
        self.loaded.forward_logs();
    }

    /// Takes the observations that are there, at most `limit`. Drops among them wait for [`Self::drops`].
    pub fn drain(&mut self, limit: usize, into: &mut Vec<Observation>) {
        let ring = self.ring.get_mut();
        let mut taken = 0;
        while taken < limit {
            let Some(item) = ring.next() else { return };
            // Both halves compile the same layouts, so no third length comes from the ring.
            if let Some(observation) = Observation::from_bytes(&item) {
                into.push(observation);
                taken += 1;
            } else if let Some(dropped) = Dropped::from_bytes(&item) {
                if self.dropped.len() == DROPS_HELD {
                    self.dropped.pop_front();
                }
                self.dropped.push_back(dropped);
            }
        }
    }

    /// Takes the dropped packets that [`Self::drain`] came across, in the order of their drops.
    pub fn drops(&mut self, into: &mut Vec<Dropped>) {
        into.extend(self.dropped.drain(..));
    }

    /// What this kernel calls its reasons for drops; `None` when drops are not watched.
    pub fn drop_reasons(&self) -> Option<&Reasons> {
        match &self.watching {
            Watching::On { reasons, .. } => Some(reasons),
            Watching::Off | Watching::Unavailable(_) => None,
        }
    }

    /// Why drops are not seen though they were asked for.
    pub fn drops_unavailable(&self) -> Option<&Unavailable> {
        match &self.watching {
            Watching::Unavailable(why) => Some(why),
            Watching::Off | Watching::On { .. } => None,
        }
    }

    /// The counters of one program, summed over CPUs.
    pub fn counters(&self, program: Program) -> Result<Counters, ObserveError> {
        let values = self
            .counters
            .get(&(program as u32), 0)
            .map_err(|error| ObserveError::Map { name: "COUNTERS", error })?;
        let mut sum = Counters::default();
        for value in values.iter() {
            sum.add(value);
        }
        Ok(sum)
    }

    /// Observations lost so far; a lost drop reason is none, see [`Self::counters`].
    pub fn lost(&self) -> Result<u64, ObserveError> {
        let mut lost = 0;
        for program in [Program::Xdp, Program::TcIngress, Program::TcEgress] {
            lost += self.counters(program)?.ring_lost;
        }
        Ok(lost)
    }

    /// Forgets probes that began before `before_ns`: their connections are over, and a table that only grows would
    /// evict the young with the old.
    pub fn forget(&mut self, before_ns: u64) -> Result<(), ObserveError> {
        let old: Vec<ProbeKey> = self
            .probes
            .iter()
            .filter_map(Result::ok)
            .filter(|(_, probe)| probe.first_seen_ns < before_ns)
            .map(|(key, _)| key)
            .collect();
        for key in old {
            match self.probes.remove(&key) {
                Ok(()) => self.forgotten += 1,
                // Evicted meanwhile.
                Err(aya::maps::MapError::KeyNotFound) => {}
                Err(error) => return Err(ObserveError::Map { name: "PROBES", error }),
            }
        }
        Ok(())
    }

    /// Probe entries evicted so far: what was inserted, and is neither there nor forgotten.
    pub fn evicted(&self) -> Result<u64, ObserveError> {
        let mut inserted = 0;
        for program in Program::ALL {
            inserted += self.counters(program)?.inserted;
        }
        let there = self.probes.keys().flatten().count() as u64;
        Ok(inserted.saturating_sub(there + self.forgotten))
    }

    /// The flows that the programs know of; none while they follow none.
    pub fn flows(&self) -> Result<Vec<(FlowKey, Flow)>, ObserveError> {
        self.flows.read().map_err(ObserveError::Flows)
    }

    /// Detaches everything and waits until it is gone.
    pub async fn close(mut self) {
        let attachments = std::mem::take(&mut self.attachments);
        let clsact: Vec<(u32, String, bool)> = attachments
            .values()
            .filter(|attachment| attachment.tc == Tc::Clsact)
            .map(|attachment| (attachment.ifindex, attachment.name.clone(), attachment.created_clsact))
            .collect();
        drop(attachments);
        for (ifindex, name, created) in clsact {
            if let Err(error) = clsact::clean(&self.handle, &name, ifindex, created).await {
                tracing::debug!(device = name, %error, "clsact left in place");
            }
        }
    }
}
