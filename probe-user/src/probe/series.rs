//! The attempts from one source to one local address and port on one NIC.

use std::collections::{BTreeMap, VecDeque};

use hdrhistogram::Histogram;
use probe_common::maps::Address;

use super::{
    attempt::{Attempt, Judgement},
    interval,
};
use crate::report::document::{Protocol, Verdict};

/// Attempts kept for late packets.
pub(super) const KEPT: usize = 64;
/// Judged attempts whose order is remembered.
const REMEMBERED: usize = 256;
/// Addresses listed.
const ADDRESSES: usize = 8;

/// Which series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesKey {
    /// Logical NIC that the probes enter by.
    pub nic: u32,
    pub peer_id: u16,
    pub local: Address,
    pub local_port: u16,
}

/// Where a forwarded probe went, and what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarded {
    /// The device it left by.
    pub device: u32,
    /// Where to.
    pub to: (Address, u16),
    /// The answer came back from behind.
    pub returned: bool,
}

/// How the failures of a series lie among its judged attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    pub judged: u64,
    pub failed: u64,
    /// Contiguous runs of failures among the attempts remembered.
    pub runs: u64,
    /// The latest judged attempt is OK.
    pub last_ok: bool,
}

impl Failures {
    /// One contiguous run of failures, then successes.
    pub const fn recovered(&self) -> bool {
        self.failed > 0 && self.last_ok && self.runs <= 1
    }

    /// Failures among successes.
    pub const fn intermittent(&self) -> bool {
        self.failed < self.judged && self.runs > 1
    }

    /// Whether a finding is due.
    pub const fn failing(&self) -> bool {
        self.failed > 0 && !self.recovered()
    }
}

/// One series.
#[derive(Clone, Debug)]
pub struct Series {
    pub key: SeriesKey,
    pub family: u8,
    /// Prober's addresses seen, at most 8.
    pub addresses: Vec<Address>,
    /// What the prober speaks, once it was seen.
    pub protocol: Option<Protocol>,
    pub attempts: u64,
    /// Attempts without a verdict because observations were lost.
    pub voided: u64,
    /// Attempts by verdict.
    pub counts: BTreeMap<Verdict, u64>,
    /// Two attempts from different ports were seen.
    pub confirmed: bool,
    pub forwarded: Option<Forwarded>,
    /// Replies by the wrong NIC, counted by that NIC.
    pub out_nics: BTreeMap<u32, u64>,
    /// The latest attempt of each verdict.
    pub latest: BTreeMap<Verdict, Attempt>,
    pub(super) kept: VecDeque<Attempt>,
    pub(super) starts: VecDeque<u64>,
    verdict: Option<Verdict>,
    cadences: Vec<f64>,
    /// Judged attempts by when they began.
    history: VecDeque<(u64, Verdict)>,
    first_port: u16,
    /// ns; boxed, as it is larger than all the rest.
    latency: Option<Box<Histogram<u64>>>,
}

impl Series {
    pub(super) fn new(key: SeriesKey, first: &Attempt, family: u8) -> Self {
        Self {
            key,
            family,
            addresses: Vec::new(),
            protocol: None,
            attempts: 0,
            voided: 0,
            counts: BTreeMap::new(),
            confirmed: false,
            forwarded: None,
            out_nics: BTreeMap::new(),
            latest: BTreeMap::new(),
            kept: VecDeque::new(),
            starts: VecDeque::new(),
            verdict: None,
            cadences: Vec::new(),
            history: VecDeque::new(),
            first_port: first.tuple.peer_port,
            latency: new_histogram(),
        }
    }

    /// The verdict of the latest judged attempt; pending while there is none.
    pub fn verdict(&self) -> Verdict {
        self.verdict.unwrap_or(Verdict::Pending)
    }

    /// The latest judgement, with its reply and NIC.
    pub fn judgement(&self) -> Option<Judgement> {
        self.latest.get(&self.verdict?)?.judgement
    }

    /// Seconds between attempts: the shortest cadence.
    pub fn interval_s(&self) -> Option<f64> {
        self.cadences.first().copied()
    }

    /// Every cadence, seconds.
    pub fn cadences(&self) -> &[f64] {
        &self.cadences
    }

    /// Seconds within which an answer counts: for a TCP probe the interval, for HTTP at most 30 s
    /// (Azure Load Balancer's custom-probe page).
    pub fn limit_s(&self) -> Option<f64> {
        let interval = self.interval_s()?;
        match self.protocol {
            Some(Protocol::Http | Protocol::Https) => Some(interval.min(30.0)),
            _ => Some(interval),
        }
    }

    /// Latency from SYN to SYN-ACK at a quantile, ns; `None` before the first.
    pub fn latency_ns(&self, quantile: f64) -> Option<u64> {
        let latency = self.latency.as_ref().filter(|latency| !latency.is_empty())?;
        Some(latency.value_at_quantile(quantile))
    }

    /// The largest latency, ns.
    pub fn latency_max_ns(&self) -> Option<u64> {
        let latency = self.latency.as_ref().filter(|latency| !latency.is_empty())?;
        Some(latency.max())
    }

    /// Counts with the attempts that are still open as pending.
    pub fn counts(&self) -> BTreeMap<Verdict, u64> {
        let mut counts = self.counts.clone();
        let open = self.kept.iter().filter(|a| a.judgement.is_none() && !a.void).count() as u64;
        if open > 0 {
            counts.insert(Verdict::Pending, open);
        }
        counts
    }

    /// How failures lie among the judged attempts.
    pub fn failures(&self) -> Failures {
        let judged = self.counts.values().sum::<u64>();
        let failed = judged - self.counts.get(&Verdict::Ok).copied().unwrap_or(0);
        let mut runs = 0;
        let mut in_run = false;
        for (_, verdict) in &self.history {
            let fails = *verdict != Verdict::Ok;
            runs += u64::from(fails && !in_run);
            in_run = fails;
        }
        Failures { judged, failed, runs, last_ok: !in_run && !self.history.is_empty() }
    }

    /// The failing verdict to explain: the latest failure's.
    pub fn failing_verdict(&self) -> Option<Verdict> {
        self.history.iter().rev().map(|(_, verdict)| *verdict).find(|verdict| *verdict != Verdict::Ok)
    }

    pub(super) fn limit_ns(&self, default_ns: u64) -> u64 {
        self.limit_s().map_or(default_ns, |seconds| (seconds * 1e9) as u64)
    }

    /// An attempt begins.
    pub(super) fn begin(&mut self, attempt: Attempt) {
        self.attempts += 1;
        self.confirmed |= attempt.tuple.peer_port != self.first_port;
        if !self.addresses.contains(&attempt.tuple.peer) && self.addresses.len() < ADDRESSES {
            self.addresses.push(attempt.tuple.peer);
        }
        self.starts.push_back(attempt.started_ns);
        if self.starts.len() > KEPT {
            self.starts.pop_front();
        }
        self.cadences = interval::cadences(self.starts.make_contiguous());
        self.kept.push_back(attempt);
    }

    /// Enters a judgement, in the place of the attempt's former one. Returns the series' verdict before and after.
    pub(super) fn enter(&mut self, attempt: &Attempt, former: Option<Verdict>) -> (Option<Verdict>, Verdict) {
        let before = self.verdict;
        let Some(judgement) = attempt.judgement else { return (before, self.verdict()) };
        let verdict = judgement.verdict;
        if let Some(count) = former.and_then(|former| self.counts.get_mut(&former)) {
            *count = count.saturating_sub(1);
        }
        *self.counts.entry(verdict).or_default() += 1;
        self.counts.retain(|_, count| *count > 0);
        let place = self.history.iter().position(|(began, _)| *began > attempt.started_ns);
        match self.history.iter_mut().find(|(began, _)| *began == attempt.started_ns) {
            Some(entry) => entry.1 = verdict,
            None => self.history.insert(place.unwrap_or(self.history.len()), (attempt.started_ns, verdict)),
        }
        if self.history.len() > REMEMBERED {
            self.history.pop_front();
        }
        if let Some(nic) = judgement.out_nic {
            *self.out_nics.entry(nic).or_default() += 1;
        }
        if former.is_none()
            && let (Some(latency), Some(recorded)) = (attempt.latency_ns(), self.latency.as_mut())
        {
            // Beyond the histogram's range only the top bucket is right, and that is where it goes.
            recorded.saturating_record(latency.max(1));
        }
        self.latest.insert(verdict, attempt.clone());
        self.verdict = self.history.back().map(|(_, verdict)| *verdict);
        (before, self.verdict())
    }
}

/// 1 ns to 10 minutes with two significant digits. Only impossible bounds are refused, and these are constants.
fn new_histogram() -> Option<Box<Histogram<u64>>> {
    Histogram::new_with_bounds(1, 600_000_000_000, 2).ok().map(Box::new)
}
