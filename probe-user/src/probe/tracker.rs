//! Finds the attempt of each packet, judges attempts, keeps the series.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use probe_common::observation::{Observation, Role, flags};

use super::{
    assess::{Measure, Silence},
    attempt::{Attempt, Left, Tuple},
    rules::{Expected, Limit, Rules},
    series::{Forwarded, KEPT, Plan, Series, SeriesKey},
};
use crate::report::document::{LbState, Protocol, Verdict};

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
    /// The load balancer's rules, where nothing else is expected.
    pub rules: Rules,
    /// Probes that are configured to come, with the ifindex of their NIC.
    pub expected: Vec<(u32, Expected)>,
    /// NICs that stand for several: which one a packet used is not known (a capture of "any").
    pub merged: BTreeSet<u32>,
}

impl Config {
    fn plan(&self, key: &SeriesKey) -> Plan {
        let expected = self
            .expected
            .iter()
            .find(|(nic, expected)| *nic == key.nic && expected.port == key.local_port)
            .map(|(_, expected)| expected);
        match expected {
            Some(expected) => {
                Plan { rules: expected.rules.clone(), role: Some(expected.role), protocol: expected.protocol }
            }
            None => Plan { rules: self.rules.clone(), role: None, protocol: None },
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            judged: None,
            default_limit: Duration::from_secs(5),
            rules: Rules::default(),
            expected: Vec::new(),
            merged: BTreeSet::new(),
        }
    }
}

/// Something to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An attempt was judged, or judged anew.
    Judged { series: SeriesKey, attempt: Box<Attempt>, revised: bool },
    /// A series' verdict changed.
    Changed { series: SeriesKey, from: Option<Verdict>, to: Verdict, at_ns: u64 },
    /// What the load balancer must think of a series changed.
    View { series: SeriesKey, from: LbState, to: LbState, at_ns: u64 },
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

    /// Changes what is expected: NICs come and go, and a capture names them as it goes.
    pub fn expect(&mut self, expected: Vec<(u32, Expected)>) {
        self.config.expected = expected;
        for series in self.series.values_mut() {
            series.replan(self.config.plan(&series.key));
        }
    }

    /// Which NIC the packets of this one used is not known.
    pub fn merge(&mut self, nic: u32) {
        self.config.merged.insert(nic);
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
        let tuple = Tuple::of(syn);
        let key =
            SeriesKey { nic: syn.nic, peer_id: syn.peer_id, local: syn.local, local_port: syn.local_port };
        // The same SYN again: a retransmission, or the same packet on another device.
        for known in [self.tuples.get(&tuple).copied(), Some(key)].into_iter().flatten() {
            let series = self.series.get_mut(&known);
            let attempts = series.map(|series| series.kept.iter_mut().rev());
            let same = |a: &&mut Attempt| a.tuple == tuple && a.sequence == syn.sequence && !a.reused;
            if let Some(attempt) = attempts.and_then(|mut attempts| attempts.find(same)) {
                attempt.record(syn);
                return;
            }
        }
        if self.config.judged.as_ref().is_some_and(|judged| !judged.contains(&syn.nic)) {
            return;
        }
        let attempt = Attempt::begin(syn);
        let plan = self.config.plan(&key);
        let series = self.series.entry(key).or_insert_with(|| Series::new(key, &attempt, syn.family, plan));
        // The next attempt ends the wait for the last one, unless it comes from another prober just after it, or the
        // prober has a timeout of its own.
        if series.plan.rules.limit == Limit::Interval {
            let half = series.expected_interval_s().map_or(SHORTEST_HALF_NS, |s| (s * 0.5e9) as u64);
            let last = |a: &&mut Attempt| a.judgement.is_none() && a.tuple.peer == tuple.peer;
            for open in series.kept.iter_mut().filter(last) {
                let age = syn.time_ns.saturating_sub(open.started_ns);
                open.overdue |= age >= half.max(SHORTEST_HALF_NS);
            }
        }
        self.begin(key, attempt, syn.time_ns, out);
        self.make_room();
    }

    fn begin(&mut self, key: SeriesKey, attempt: Attempt, now_ns: u64, out: &mut Vec<Event>) {
        let default_limit = self.default_limit_ns();
        let tuple = attempt.tuple;
        let Some(series) = self.series.get_mut(&key) else { return };
        series.begin(attempt);
        let bench = Bench { default_limit, merged: &self.config.merged };
        if series.kept.len() > KEPT {
            if let Some(old) = series.kept.front_mut() {
                old.overdue = true;
            }
            // It leaves now, so it is judged now; 64 younger attempts are more than any batch holds.
            bench.judge(series, now_ns, Silence::Judged, out);
            if let Some(old) = series.kept.pop_front()
                && self.tuples.get(&old.tuple) == Some(&key)
                && !series.kept.iter().any(|a| a.tuple == old.tuple)
            {
                self.tuples.remove(&old.tuple);
            }
        }
        self.tuples.insert(tuple, key);
    }

    fn belongs(&mut self, packet: &Observation, out: &mut Vec<Event>) {
        let tuple = Tuple::of(packet);
        // Else it is a connection older than the observer, or a NIC that is not judged.
        let Some(key) = self.tuples.get(&tuple).copied() else { return };
        let find = |series: &Series| series.kept.iter().rposition(|a| a.tuple == tuple);
        let Some(at) = self.series.get(&key).and_then(find) else { return };
        let next = self.series.get(&key).and_then(|series| series.kept.get(at)?.next_request(packet));
        if let Some(next) = next {
            self.begin(key, next, packet.time_ns, out);
        }
        let default_limit = self.default_limit_ns();
        let Some(series) = self.series.get_mut(&key) else { return };
        let Some(attempt) = find(series).and_then(|at| series.kept.get_mut(at)) else { return };
        let acked = attempt.acked_ns.is_some();
        attempt.record(packet);
        attempt.fresh = true;
        series.completed +=
            u64::from(!acked && attempt.acked_ns.is_some() && attempt.syn_ack.first().is_some());
        if attempt.is_unreadable() && !attempt.void && attempt.judgement.is_none() {
            attempt.void = true;
            series.voided += 1;
            series.unreadable += 1;
        }
        if let Some(protocol @ (Protocol::Http | Protocol::Https)) = attempt.speaks() {
            series.protocol = Some(protocol);
        }
        series.proxy = attempt.request.proxy.or(series.proxy);
        let bench = Bench { default_limit, merged: &self.config.merged };
        bench.judge(series, packet.time_ns, Silence::Open, out);
    }

    /// A probe that was passed on: the address probed may have been translated, the prober's end not.
    fn forwarded(&mut self, packet: &Observation) {
        if packet.flags & (flags::SYN | flags::ACK) != flags::SYN {
            return;
        }
        let Some((key, at)) = self.behind(packet, packet.sequence) else { return };
        let Some(series) = self.series.get_mut(&key) else { return };
        let Some(attempt) = series.kept.get_mut(at).filter(|attempt| attempt.forwarded.is_none()) else {
            return;
        };
        let forwarded =
            Forwarded { device: packet.device, to: (packet.local, packet.local_port), returned: None };
        attempt.forwarded = Some(forwarded);
        series.forwarded = Some(forwarded);
        series.passed_on.probes += 1;
    }

    /// What it was answered with behind: a SYN-ACK or a RST.
    fn returned(&mut self, packet: &Observation) {
        if packet.flags & (flags::SYN | flags::RST) == 0 {
            return;
        }
        let Some((key, at)) = self.behind(packet, packet.acknowledgement.wrapping_sub(1)) else { return };
        let Some(series) = self.series.get_mut(&key) else { return };
        let Some(attempt) = series.kept.get_mut(at) else { return };
        let Some(forwarded) = &mut attempt.forwarded else { return };
        if forwarded.to != (packet.local, packet.local_port) || forwarded.returned.is_some() {
            return;
        }
        forwarded.returned = Some(Left { at_ns: packet.time_ns, nic: packet.device });
        series.forwarded = Some(*forwarded);
        series.passed_on.returned += 1;
    }

    /// The attempt that a packet on the far side belongs to, by the prober's end and its SYN's sequence number. Two NICs may
    /// be probed from one port at a time.
    fn behind(&self, packet: &Observation, sequence: u32) -> Option<(SeriesKey, usize)> {
        let probers = self
            .tuples
            .iter()
            .filter(|(tuple, _)| tuple.peer == packet.peer && tuple.peer_port == packet.peer_port);
        let mut found = None;
        for (tuple, key) in probers {
            let Some(series) = self.series.get(key) else { continue };
            let Some(at) = series.kept.iter().rposition(|a| a.tuple == *tuple && !a.reused) else { continue };
            if series.kept.get(at).is_some_and(|attempt| attempt.sequence == sequence) {
                return Some((*key, at));
            }
            // Something on the way numbers anew (a SYN proxy): good enough while nobody else has that port.
            found = if found.is_none() { Some(Some((*key, at))) } else { Some(None) };
        }
        found.flatten()
    }

    /// Judges what time alone decides. `now_ns` was read before the packets were, and losses were told since: else a reply
    /// that waits to be read, or was lost, would count as silence.
    pub fn tick(&mut self, now_ns: u64, out: &mut Vec<Event>) {
        let bench = Bench { default_limit: self.default_limit_ns(), merged: &self.config.merged };
        for series in self.series.values_mut() {
            let limit = series.limit_ns(bench.default_limit);
            for open in series.kept.iter_mut().filter(|a| a.judgement.is_none()) {
                open.overdue |= now_ns.saturating_sub(open.started_ns) >= limit;
            }
            bench.judge(series, now_ns, Silence::Judged, out);
        }
    }

    /// When [`Tracker::tick`] has something to do, ns.
    pub fn next_deadline(&self) -> Option<u64> {
        let default_limit = self.default_limit_ns();
        self.series
            .values()
            .flat_map(|series| {
                let limit = series.limit_ns(default_limit);
                series.kept.iter().filter_map(move |a| {
                    let settles = a.settles_ns(series.protocol);
                    if a.judgement.is_some() || a.void {
                        return settles.filter(|_| a.fresh);
                    }
                    // Ended already, by the next attempt or by the prober: due at once.
                    let over = a.overdue || a.given_up_ns.is_some();
                    let overdue = if over { a.started_ns } else { a.started_ns.saturating_add(limit) };
                    Some(settles.map_or(overdue, |settles| settles.min(overdue)))
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
        let bench = Bench { default_limit: self.default_limit_ns(), merged: &self.config.merged };
        for series in self.series.values_mut() {
            for open in series.kept.iter_mut().filter(|a| a.judgement.is_none()) {
                open.overdue |= now_ns.saturating_sub(open.started_ns) >= FINAL_WAIT_NS;
            }
            bench.judge(series, now_ns, Silence::Judged, out);
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

/// Where attempts are judged.
struct Bench<'a> {
    default_limit: u64,
    merged: &'a BTreeSet<u32>,
}

impl Bench<'_> {
    /// Judges every kept attempt whose facts, or whose measure, now say something new.
    fn judge(&self, series: &mut Series, now_ns: u64, silence: Silence, out: &mut Vec<Event>) {
        let limit_ns = series.limit_ns(self.default_limit);
        let anew = series.measured != Some((limit_ns, series.protocol));
        series.measured = Some((limit_ns, series.protocol));
        let mut attempts = std::mem::take(&mut series.kept);
        for attempt in &mut attempts {
            if !anew && attempt.judgement.is_some() && !attempt.fresh {
                continue;
            }
            let measure = Measure {
                known: series.protocol,
                now_ns,
                silence,
                limit_ns,
                statuses: &series.plan.rules.statuses,
                nics_known: !self.merged.contains(&attempt.nic),
            };
            // Undecided stays fresh: time may tell.
            let Some(judgement) = attempt.assess(&measure) else { continue };
            attempt.fresh = false;
            let former = attempt.judgement;
            if former.is_some_and(|former| former.says(&judgement)) {
                continue;
            }
            if attempt.void && former.is_none() {
                series.voided = series.voided.saturating_sub(1);
            }
            attempt.judgement = Some(judgement);
            if judgement.verdict == Verdict::Ok && series.protocol.is_none() && attempt.request_ns.is_none() {
                // No request followed a good handshake: the prober only wants the connection.
                series.protocol = Some(Protocol::Tcp);
            }
            let (from, to) = series.enter(attempt, former);
            let key = series.key;
            out.push(Event::Judged {
                series: key,
                attempt: Box::new(attempt.clone()),
                revised: former.is_some(),
            });
            if from != Some(to) {
                out.push(Event::Changed { series: key, from, to, at_ns: now_ns });
            }
            // What a single connection would make of it is told only once it is a probe.
            let state = series.view().state();
            if state != series.told && series.confirmed {
                let from = std::mem::replace(&mut series.told, state);
                out.push(Event::View { series: key, from, to: state, at_ns: judgement.decided_ns });
            }
        }
        series.kept = attempts;
    }
}
