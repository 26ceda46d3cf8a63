//! Finds the attempt of each packet, judges attempts, keeps the series.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use probe_common::observation::{Observation, Role, flags};

use super::{
    attempt::{Attempt, Silence, Tuple},
    series::{Forwarded, KEPT, Series, SeriesKey},
};
use crate::report::document::{Protocol, Verdict};

/// Series kept; the one idle for longest makes room.
const SERIES: usize = 4096;
/// The shortest interval handled is 0.2 s: an attempt at half of that may be cut short by the next one.
const SHORTEST_HALF_NS: u64 = 100_000_000;
/// At the end of a window an attempt this old without a reply has failed.
const FINAL_WAIT_NS: u64 = 3_000_000_000;

/// What is judged.
#[derive(Clone, Debug)]
pub struct Config {
    /// Logical NICs that are judged; all when `None`.
    pub judged: Option<BTreeSet<u32>>,
    /// The limit before an interval is known.
    pub default_limit: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self { judged: None, default_limit: Duration::from_secs(5) }
    }
}

/// Something to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An attempt was judged, or judged anew.
    Judged { series: SeriesKey, attempt: Box<Attempt>, revised: bool },
    /// A series' verdict changed.
    Changed { series: SeriesKey, from: Option<Verdict>, to: Verdict, at_ns: u64 },
    /// Observations were lost.
    Lost { count: u64, at_ns: u64 },
}

/// All series.
#[derive(Debug, Default)]
pub struct Tracker {
    config: Config,
    series: BTreeMap<SeriesKey, Series>,
    /// Which series a tuple's latest attempt belongs to.
    tuples: HashMap<Tuple, SeriesKey>,
    /// Series dropped because there were too many.
    dropped: u64,
}

impl Tracker {
    pub fn new(config: Config) -> Self {
        Self { config, ..Self::default() }
    }

    /// Changes which NICs are judged: devices come and go.
    pub fn judge(&mut self, nics: BTreeSet<u32>) {
        self.config.judged = Some(nics);
    }

    /// Every series, by NIC.
    pub fn series(&self) -> impl Iterator<Item = &Series> {
        self.series.values()
    }

    /// One series.
    pub fn get(&self, key: &SeriesKey) -> Option<&Series> {
        self.series.get(key)
    }

    /// Series dropped because there were more than 4096.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Takes in one packet. Packets come in the order in which they were seen. They bring verdicts by what they show; that
    /// an attempt stayed unanswered only [`Tracker::tick`] says, after losses were looked at.
    pub fn observe(&mut self, packet: &Observation, out: &mut Vec<Event>) {
        match packet.role() {
            Some(Role::Probe) if packet.flags & (flags::SYN | flags::ACK) == flags::SYN => {
                self.syn(packet, out);
            }
            Some(Role::Probe | Role::Reply | Role::Reject) => self.belongs(packet, out),
            Some(Role::Forwarded) => self.forwarded(packet),
            Some(Role::Returned) => self.returned(packet),
            None => {}
        }
    }

    fn syn(&mut self, syn: &Observation, out: &mut Vec<Event>) {
        if self.config.judged.as_ref().is_some_and(|judged| !judged.contains(&syn.nic)) {
            return;
        }
        let key =
            SeriesKey { nic: syn.nic, peer_id: syn.peer_id, local: syn.local, local_port: syn.local_port };
        let tuple = Tuple::of(syn);
        let attempt = Attempt::begin(syn);
        let series = self.series.entry(key).or_insert_with(|| Series::new(key, &attempt, syn.family));
        if let Some(known) =
            series.kept.iter_mut().rev().find(|a| a.tuple == tuple && a.sequence == syn.sequence)
        {
            known.record(syn);
            return;
        }
        // The next attempt ends the wait for the last one, unless it comes from another prober just after it.
        let half = series.interval_s().map_or(SHORTEST_HALF_NS, |s| (s * 0.5e9) as u64);
        for open in series.kept.iter_mut().filter(|a| a.judgement.is_none()) {
            let age = syn.time_ns.saturating_sub(open.started_ns);
            open.overdue |= age >= half.max(SHORTEST_HALF_NS);
        }
        series.begin(attempt);
        if series.kept.len() > KEPT {
            if let Some(old) = series.kept.front_mut() {
                old.overdue = true;
            }
            // It leaves now, so it is judged now; 64 younger attempts are more than any batch holds.
            judge(series, syn.time_ns, Silence::Judged, out);
            if let Some(old) = series.kept.pop_front()
                && self.tuples.get(&old.tuple) == Some(&key)
                && !series.kept.iter().any(|a| a.tuple == old.tuple)
            {
                self.tuples.remove(&old.tuple);
            }
        }
        self.tuples.insert(tuple, key);
        self.make_room();
    }

    fn belongs(&mut self, packet: &Observation, out: &mut Vec<Event>) {
        let tuple = Tuple::of(packet);
        let default_limit = self.default_limit_ns();
        let Some(series) = self.tuples.get(&tuple).and_then(|key| self.series.get_mut(key)) else {
            // A connection older than the observer, or a NIC that is not judged.
            return;
        };
        let limit_known = series.limit_s().is_some();
        let limit = series.limit_ns(default_limit);
        let Some(attempt) = series.kept.iter_mut().rev().find(|a| a.tuple == tuple) else { return };
        let late = packet.time_ns.saturating_sub(attempt.started_ns) > limit;
        let from_host = !matches!(packet.role(), Some(Role::Probe));
        // An answer after the limit no longer counts; before an interval is known there is no limit to miss.
        if late && from_host && limit_known && attempt.judgement.is_some() {
            return;
        }
        attempt.record(packet);
        if let Some(protocol @ (Protocol::Http | Protocol::Https)) = attempt.protocol {
            series.protocol = Some(protocol);
        }
        judge(series, packet.time_ns, Silence::Open, out);
    }

    /// A probe that was passed on: the address probed may have been translated, the prober's end not.
    fn forwarded(&mut self, packet: &Observation) {
        let found = self
            .tuples
            .iter()
            .find(|(tuple, _)| tuple.peer == packet.peer && tuple.peer_port == packet.peer_port);
        let Some(key) = found.map(|(_, key)| *key) else { return };
        if let Some(series) = self.series.get_mut(&key) {
            series.forwarded = Some(Forwarded {
                device: packet.device,
                to: (packet.local, packet.local_port),
                returned: false,
            });
        }
    }

    fn returned(&mut self, packet: &Observation) {
        for series in self.series.values_mut() {
            if let Some(forwarded) = &mut series.forwarded {
                forwarded.returned |= forwarded.to == (packet.local, packet.local_port);
            }
        }
    }

    /// Judges what time alone decides. `now_ns` was read before the packets were, and losses were told since: else a reply
    /// that waits to be read, or was lost, would count as silence.
    pub fn tick(&mut self, now_ns: u64, out: &mut Vec<Event>) {
        let default_limit = self.default_limit_ns();
        for series in self.series.values_mut() {
            let limit = series.limit_ns(default_limit);
            for open in series.kept.iter_mut().filter(|a| a.judgement.is_none()) {
                open.overdue |= now_ns.saturating_sub(open.started_ns) >= limit;
            }
            judge(series, now_ns, Silence::Judged, out);
        }
    }

    /// When [`Tracker::tick`] has something to do, ns.
    pub fn next_deadline(&self) -> Option<u64> {
        let default_limit = self.default_limit_ns();
        self.series
            .values()
            .flat_map(|series| {
                let limit = series.limit_ns(default_limit);
                series.kept.iter().filter(|a| a.judgement.is_none() && !a.void).map(move |a| {
                    // Ended by the next attempt already: due at once.
                    let overdue = if a.overdue { a.started_ns } else { a.started_ns.saturating_add(limit) };
                    a.settles_ns().map_or(overdue, |settles| settles.min(overdue))
                })
            })
            .min()
    }

    /// Observations were lost. What is still open may have been answered among them: its silence proves nothing, so
    /// it gets no verdict unless a reply shows up. Later attempts are judged as ever.
    pub fn lost(&mut self, count: u64, at_ns: u64, out: &mut Vec<Event>) {
        out.push(Event::Lost { count, at_ns });
        for series in self.series.values_mut() {
            for open in series.kept.iter_mut().filter(|a| a.judgement.is_none() && !a.void) {
                open.void = true;
                series.voided += 1;
            }
        }
    }

    /// The window ends: what has waited for 3 s has failed, younger attempts stay pending.
    pub fn finish(&mut self, now_ns: u64, out: &mut Vec<Event>) {
        for series in self.series.values_mut() {
            for open in series.kept.iter_mut().filter(|a| a.judgement.is_none()) {
                open.overdue |= now_ns.saturating_sub(open.started_ns) >= FINAL_WAIT_NS;
            }
            judge(series, now_ns, Silence::Judged, out);
        }
    }

    fn default_limit_ns(&self) -> u64 {
        u64::try_from(self.config.default_limit.as_nanos()).unwrap_or(u64::MAX)
    }

    fn make_room(&mut self) {
        if self.series.len() <= SERIES {
            return;
        }
        let idle = self.series.values().min_by_key(|series| series.starts.back().copied());
        if let Some(key) = idle.map(|series| series.key) {
            self.series.remove(&key);
            self.tuples.retain(|_, of| *of != key);
            self.dropped += 1;
        }
    }
}

/// Judges every kept attempt whose facts now say something new.
fn judge(series: &mut Series, now_ns: u64, silence: Silence, out: &mut Vec<Event>) {
    let mut attempts = std::mem::take(&mut series.kept);
    for attempt in &mut attempts {
        let known = series.protocol;
        let Some(judgement) = attempt.assess(known, now_ns, silence) else { continue };
        if attempt.judgement == Some(judgement) {
            continue;
        }
        let former = attempt.judgement.map(|former| former.verdict);
        if attempt.void && former.is_none() {
            series.voided = series.voided.saturating_sub(1);
        }
        attempt.judgement = Some(judgement);
        if judgement.verdict == Verdict::Ok && series.protocol.is_none() && attempt.request_ns.is_none() {
            // No request followed a good handshake: the prober only wants the connection.
            series.protocol = Some(Protocol::Tcp);
        }
        let (from, to) = series.enter(attempt, former);
        out.push(Event::Judged {
            series: series.key,
            attempt: Box::new(attempt.clone()),
            revised: former.is_some(),
        });
        if from != Some(to) {
            out.push(Event::Changed { series: series.key, from, to, at_ns: now_ns });
        }
    }
    series.kept = attempts;
}
