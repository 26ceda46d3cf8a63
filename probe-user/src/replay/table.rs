//! The table of probe connections, bounded: the replay's `PROBES`.

use std::collections::HashMap;

use probe_common::{
    follow,
    maps::{Probe, ProbeKey},
};

/// Entries of a generation, two of which are kept. 64 ports probed every 5 s make 3840 in five minutes.
const GENERATION: usize = 32_768;
/// An entry this old is forgotten live, too, ns; dropping a younger one is a loss.
const REMEMBERED_NS: u64 = 300_000_000_000;

/// Two generations of entries: whatever is used moves to the young one, and when that is full the old one goes. So the
/// entries used last are there, at the price of a lookup or two.
#[derive(Debug, Default)]
pub struct Connections {
    young: HashMap<ProbeKey, Probe>,
    old: HashMap<ProbeKey, Probe>,
    inserted: u64,
    evicted: u64,
    /// The youngest entry's time.
    now_ns: u64,
}

impl Connections {
    /// Entries that made room although they were young.
    pub const fn evicted(&self) -> u64 {
        self.evicted
    }

    /// New entries put in.
    pub const fn inserted(&self) -> u64 {
        self.inserted
    }

    fn make_room(&mut self) {
        if self.young.len() < GENERATION {
            return;
        }
        let young = |probe: &&Probe| self.now_ns.saturating_sub(probe.first_seen_ns) < REMEMBERED_NS;
        self.evicted += self.old.values().filter(young).count() as u64;
        self.old = std::mem::take(&mut self.young);
    }
}

impl follow::Table for Connections {
    fn update<R>(&mut self, key: &ProbeKey, change: impl FnOnce(&mut Probe) -> R) -> Option<R> {
        if let Some(probe) = self.young.get_mut(key) {
            return Some(change(probe));
        }
        let mut probe = self.old.remove(key)?;
        let result = change(&mut probe);
        self.make_room();
        self.young.insert(*key, probe);
        Some(result)
    }

    fn insert(&mut self, key: &ProbeKey, probe: &Probe, new: bool) -> bool {
        self.now_ns = self.now_ns.max(probe.first_seen_ns);
        self.make_room();
        self.young.insert(*key, *probe);
        self.inserted += u64::from(new);
        true
    }

    fn nic(&self, device: u32) -> u32 {
        device
    }
}

#[cfg(test)]
mod tests {
    use follow::Table as _;

    use super::*;

    fn key(number: usize) -> ProbeKey {
        ProbeKey { peer_port: number as u16, local_port: (number >> 16) as u16, ..ProbeKey::default() }
    }

    #[test]
    fn what_is_used_stays_and_the_size_is_bounded() {
        let mut table = Connections::default();
        for number in 0..10 * GENERATION {
            let first_seen_ns = number as u64 * 1_000_000;
            assert!(table.insert(&key(number), &Probe { first_seen_ns, ..Probe::default() }, true));
            assert_eq!(table.update(&key(0), |probe| probe.first_seen_ns), Some(0), "{number}");
        }
        assert!(table.young.len() + table.old.len() <= 2 * GENERATION);
        assert_eq!(table.inserted(), 10 * GENERATION as u64);
        // A generation takes 33 s here, far less than entries should live.
        assert!(table.evicted() > 7 * GENERATION as u64, "{}", table.evicted());
        assert_eq!(table.update(&key(1), |_| ()), None);
    }

    #[test]
    fn forgetting_old_ones_is_no_loss() {
        let mut table = Connections::default();
        for number in 0..4 * GENERATION {
            let first_seen_ns = number as u64 * 100_000_000;
            table.insert(&key(number), &Probe { first_seen_ns, ..Probe::default() }, true);
        }
        assert_eq!(table.evicted(), 0);
    }
}
