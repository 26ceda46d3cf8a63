//! What was configured when: readings of addresses, rules and routes, and by which change a series fell.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use ipnet::IpNet;

use super::{boot_ns, nics::Names};
use crate::{
    host::{
        Facts, HostError,
        changes::{about, deciding, diff},
        selection::Packet,
        watch::Notice,
    },
    probe::{Series, SeriesKey},
    report::document::Verdict,
    source::{Source, from_mapped},
};

/// Several changes come at once: one reading at the end of them is enough.
const SETTLE_NS: u64 = 50_000_000;
/// A router whose tables change all the time is read for a twentieth of the time at most.
const PAUSE: u64 = 19;
/// Differences remembered.
const EPISODES: usize = 64;
/// A change is heard of after it took effect: by then a probe may have failed. Later than this it was another matter.
const HEARD_LATE_NS: u64 = 250_000_000;

/// Two readings that differ.
#[derive(Debug)]
struct Episode {
    at_ns: u64,
    before: Arc<Facts>,
    after: Arc<Facts>,
}

#[derive(Debug)]
pub(super) struct History {
    peers: Vec<IpNet>,
    latest: Arc<Facts>,
    episodes: VecDeque<Episode>,
    /// When something was heard of that is not read yet.
    heard_ns: Option<u64>,
    /// Not to be read again before.
    rest_until_ns: u64,
    /// Series that fell by changes: when each was, and what.
    fallen: BTreeMap<SeriesKey, Vec<(u64, String)>>,
}

impl History {
    /// The first reading, of the current thread's network namespace.
    pub(super) async fn start(sources: &[Source]) -> Result<Self, HostError> {
        let peers: Vec<IpNet> = sources.iter().map(|source| source.net).collect();
        let latest = Arc::new(about(Facts::routing().await?, &peers));
        Ok(Self {
            peers,
            latest,
            episodes: VecDeque::new(),
            heard_ns: None,
            rest_until_ns: 0,
            fallen: BTreeMap::new(),
        })
    }

    pub(super) fn hear(&mut self, notice: Notice) {
        let ago = u64::try_from(notice.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.heard_ns.get_or_insert(boot_ns().saturating_sub(ago));
    }

    /// When [`History::catch_up`] has something to do, ns.
    pub(super) fn due_ns(&self) -> Option<u64> {
        Some((self.heard_ns? + SETTLE_NS).max(self.rest_until_ns))
    }

    /// Reads what changed, if it is time.
    pub(super) async fn catch_up(&mut self) {
        let begun = boot_ns();
        if self.due_ns().is_none_or(|due| due > begun) {
            return;
        }
        match Facts::routing().await {
            Ok(facts) => self.learn(facts),
            // What is heard of next is read then.
            Err(error) => tracing::warn!("a change of the host was not read: {error}"),
        }
        let end = boot_ns();
        self.rest_until_ns = end.saturating_add(end.saturating_sub(begun).saturating_mul(PAUSE));
    }

    /// A reading of now.
    pub(super) fn learn(&mut self, facts: Facts) {
        let after = about(facts, &self.peers);
        let at_ns = self.heard_ns.take().unwrap_or_else(boot_ns);
        if diff(&self.latest, &after).is_empty() {
            return;
        }
        let after = Arc::new(after);
        let before = std::mem::replace(&mut self.latest, Arc::clone(&after));
        self.episodes.push_back(Episode { at_ns, before, after });
        if self.episodes.len() > EPISODES {
            self.episodes.pop_front();
        }
    }

    /// Looks for series that fell by a change; those found for the first time.
    pub(super) fn explain<'a>(
        &mut self,
        series: impl Iterator<Item = &'a Series>,
        names: &Names,
    ) -> Vec<SeriesKey> {
        let mut found = Vec::new();
        for series in series {
            if series.verdict() == Verdict::Ok {
                self.fallen.remove(&series.key);
            } else if !self.fallen.contains_key(&series.key) {
                let changes = self.changes(series, names);
                if !changes.is_empty() {
                    self.fallen.insert(series.key, changes);
                    found.push(series.key);
                }
            }
        }
        found
    }

    /// The changes by which a series fell, with their times.
    pub(super) fn fallen(&self, key: &SeriesKey) -> Option<&[(u64, String)]> {
        self.fallen.get(key).map(Vec::as_slice)
    }

    fn changes(&self, series: &Series, names: &Names) -> Vec<(u64, String)> {
        let verdict = series.verdict();
        // What was answered on its own NIC was not decided by a route.
        let routed = matches!(verdict, Verdict::Asymmetric | Verdict::NoReply | Verdict::IcmpReject);
        let (Some((ok_ns, failed_ns)), true, true) = (series.fell(), routed, series.confirmed) else {
            return Vec::new();
        };
        let Some(failed) = series.latest.get(&verdict) else { return Vec::new() };
        let to = from_mapped(&failed.tuple.peer);
        let nic = names.get(series.key.nic);
        // Replies to a link-local peer are bound to the NIC that it asked on.
        let bound = matches!(to, std::net::IpAddr::V6(v6) if v6.is_unicast_link_local());
        let packet = Packet {
            from: Some(from_mapped(&series.key.local)),
            to,
            oif: bound.then_some(nic.as_str()),
            mark: 0,
            port: Some(series.key.local_port),
        };
        let between = ok_ns..=failed_ns.saturating_add(HEARD_LATE_NS);
        let episodes = self.episodes.iter().filter(|episode| between.contains(&episode.at_ns));
        episodes
            .flat_map(|Episode { at_ns, before, after }| {
                let texts = deciding(&packet, before, after).into_iter();
                texts.map(|change| (*at_ns, change.text(before, after)))
            })
            .collect()
    }
}
