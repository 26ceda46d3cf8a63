//! The attempts from one source to one local address and port on one NIC.

use std::collections::{BTreeMap, VecDeque};

use hdrhistogram::Histogram;
use probe_common::maps::Address;

use super::{
    assess::Judgement,
    attempt::{Attempt, Left},
    interval,
    lb_view::{LbView, Outcome},
    request::Proxy,
    rules::{Role, Rules},
};
use crate::report::document::{LbState, Protocol, Verdict};

/// Attempts kept for late packets.
pub(super) const KEPT: usize = 64;
/// Judged attempts whose order is remembered.
const REMEMBERED: usize = 256;
/// Seconds without an attempt that never make a view stale.
const LEAST_PATIENCE_S: f64 = 5.0;
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
    /// The device it left by first: a bridge shows it before its port does.
    pub device: u32,
    /// Where to.
    pub to: (Address, u16),
    /// When and by which device the answer came back from behind.
    pub returned: Option<Left>,
}

/// Probes of a series that were passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassedOn {
    pub probes: u64,
    /// Those whose answer came back from behind; whether it left is the verdict's matter.
    pub returned: u64,
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

/// What the configuration says about a series.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub rules: Rules,
    /// The configuration expects it, in this role.
    pub role: Option<Role>,
    pub protocol: Option<Protocol>,
}

/// One series.
#[derive(Clone, Debug)]
pub struct Series {
    pub key: SeriesKey,
    pub family: u8,
    /// Prober's addresses seen, at most 8.
    pub addresses: Vec<Address>,
    /// What the prober speaks, once it was seen or as it is configured.
    pub protocol: Option<Protocol>,
    pub plan: Plan,
    /// The PROXY protocol header seen in front of requests.
    pub proxy: Option<Proxy>,
    pub attempts: u64,
    /// Attempts without a verdict because observations were lost.
    pub voided: u64,
    /// Attempts whose answer was not captured far enough to be read; they are among the voided.
    pub unreadable: u64,
    /// Attempts whose handshake the prober completed.
    pub completed: u64,
    /// Attempts by verdict.
    pub counts: BTreeMap<Verdict, u64>,
    /// Two attempts from different ports were seen.
    pub confirmed: bool,
    /// The latest probe that was passed on.
    pub forwarded: Option<Forwarded>,
    pub passed_on: PassedOn,
    /// Replies by the wrong NIC, counted by that NIC.
    pub out_nics: BTreeMap<u32, u64>,
    /// The latest attempt of each verdict.
    pub latest: BTreeMap<Verdict, Attempt>,
    pub(super) kept: VecDeque<Attempt>,
    pub(super) starts: VecDeque<u64>,
    /// What its attempts were last judged by: limit in ns and protocol.
    pub(super) measured: Option<(u64, Option<Protocol>)>,
    verdict: Option<Verdict>,
    cadences: Vec<f64>,
    /// Judged attempts by when they began, with their ids.
    history: VecDeque<(u64, Outcome)>,
    /// The view of the load balancer before the history, and with it.
    view_before: LbView,
    view: LbView,
    /// The state of the view that was told.
    pub(super) told: LbState,
    first_port: u16,
    /// ns; boxed, as they are larger than all the rest.
    latency: Option<Box<Histogram<u64>>>,
    answers: Option<Box<Histogram<u64>>>,
}

impl Series {
    pub(super) fn new(key: SeriesKey, first: &Attempt, family: u8, plan: Plan) -> Self {
        let view = LbView::new(&plan.rules);
        Self {
            key,
            family,
            addresses: Vec::new(),
            protocol: plan.protocol,
            // One that is expected needs no second attempt to be believed.
            confirmed: plan.role.is_some(),
            plan,
            proxy: None,
            attempts: 0,
            voided: 0,
            unreadable: 0,
            completed: 0,
            counts: BTreeMap::new(),
            forwarded: None,
            passed_on: PassedOn::default(),
            out_nics: BTreeMap::new(),
            latest: BTreeMap::new(),
            kept: VecDeque::new(),
            starts: VecDeque::new(),
            measured: None,
            verdict: None,
            cadences: Vec::new(),
            history: VecDeque::new(),
            view_before: view.clone(),
            view,
            told: LbState::Unknown,
            first_port: first.tuple.peer_port,
            latency: new_histogram(),
            answers: new_histogram(),
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

    /// Seconds within which an answer counts, once it is known.
    pub fn limit_s(&self) -> Option<f64> {
        let rules = &self.plan.rules;
        let configured = rules.interval.map(|interval| interval.as_secs_f64());
        // What the load balancer does counts more than what was said about it.
        rules.limit.seconds(self.interval_s().or(configured), self.protocol)
    }

    /// Seconds between probes as observed, else as configured.
    pub fn expected_interval_s(&self) -> Option<f64> {
        self.interval_s().or(self.plan.rules.interval.map(|interval| interval.as_secs_f64()))
    }

    /// Latency from SYN to SYN-ACK, ns.
    pub fn latency(&self) -> Option<&Histogram<u64>> {
        self.latency.as_deref().filter(|latency| !latency.is_empty())
    }

    /// Time from a request to the first byte of its answer, ns.
    pub fn answers(&self) -> Option<&Histogram<u64>> {
        self.answers.as_deref().filter(|answers| !answers.is_empty())
    }

    /// When the latest attempt began, ns.
    pub fn last_start_ns(&self) -> Option<u64> {
        self.starts.back().copied()
    }

    /// What the load balancer must think.
    pub fn view(&self) -> &LbView {
        &self.view
    }

    /// Whether what is known is older than three intervals at `now_ns`. Below Azure's shortest interval a pause of a few
    /// seconds says nothing yet.
    pub fn is_stale(&self, now_ns: u64) -> bool {
        let patience = 3.0 * self.expected_interval_s().unwrap_or(5.0);
        self.last_start_ns()
            .is_none_or(|last| now_ns.saturating_sub(last) as f64 / 1e9 > patience.max(LEAST_PATIENCE_S))
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
        for (_, outcome) in &self.history {
            let fails = outcome.verdict != Verdict::Ok;
            runs += u64::from(fails && !in_run);
            in_run = fails;
        }
        Failures { judged, failed, runs, last_ok: !in_run && !self.history.is_empty() }
    }

    /// When the series last fell, if it is remembered: when the last attempt that was OK began, and when the failure after it
    /// was decided.
    pub fn fell(&self) -> Option<(u64, u64)> {
        let outcomes = || self.history.iter().map(|(_, outcome)| outcome);
        let mut pairs = outcomes().rev().skip(1).zip(outcomes().rev());
        let fall = pairs.find(|(a, b)| a.verdict == Verdict::Ok && b.verdict != Verdict::Ok);
        fall.map(|(last, first)| (last.began_ns, first.decided_ns))
    }

    /// The failing verdict to explain: the latest failure's.
    pub fn failing_verdict(&self) -> Option<Verdict> {
        self.history.iter().rev().map(|(_, outcome)| outcome.verdict).find(|verdict| *verdict != Verdict::Ok)
    }

    /// Within what time an answer counts, ns. An estimate that merely trembles changes nothing.
    pub(super) fn limit_ns(&self, default_ns: u64) -> u64 {
        let Some(seconds) = self.limit_s() else { return default_ns };
        let estimate = (seconds * 1e9) as u64;
        let in_use = self.measured.map(|(used, _)| used);
        in_use.filter(|used| used.abs_diff(estimate) < used / 20).unwrap_or(estimate)
    }

    /// An attempt begins.
    pub(super) fn begin(&mut self, mut attempt: Attempt) {
        self.attempts += 1;
        attempt.id = self.attempts;
        self.confirmed |= attempt.tuple.peer_port != self.first_port || attempt.reused;
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

    /// Enters a judgement, in the place of the attempt's `former` one. Returns the series' verdict before, and after.
    pub(super) fn enter(
        &mut self,
        attempt: &mut Attempt,
        former: Option<Judgement>,
    ) -> (Option<Verdict>, Verdict) {
        let from = self.verdict;
        let Some(judgement) = attempt.judgement else { return (from, self.verdict()) };
        let verdict = judgement.verdict;
        if let Some(former) = former {
            if let Some(count) = self.counts.get_mut(&former.verdict) {
                *count = count.saturating_sub(1);
            }
            if let Some(count) = former.out_nic.and_then(|nic| self.out_nics.get_mut(&nic)) {
                *count = count.saturating_sub(1);
            }
        }
        *self.counts.entry(verdict).or_default() += 1;
        self.counts.retain(|_, count| *count > 0);
        if let Some(nic) = judgement.out_nic {
            *self.out_nics.entry(nic).or_default() += 1;
        }
        self.out_nics.retain(|_, count| *count > 0);
        self.remember(
            attempt.id,
            Outcome {
                began_ns: attempt.started_ns,
                decided_ns: judgement.decided_ns,
                verdict,
                connected: judgement.connected,
            },
        );
        record(&mut self.latency, attempt.latency_ns(), &mut attempt.recorded.0);
        record(&mut self.answers, attempt.answer_ns(), &mut attempt.recorded.1);
        if former.is_some_and(|former| former.verdict != verdict) {
            self.latest.retain(|_, kept| kept.id != attempt.id);
        }
        self.latest.insert(verdict, attempt.clone());
        self.verdict = self.history.back().map(|(_, outcome)| outcome.verdict);
        (from, self.verdict())
    }

    /// Puts an outcome where it belongs in the order of beginnings, and brings the load balancer's view up to date.
    fn remember(&mut self, id: u64, outcome: Outcome) {
        let order = |(id, outcome): &(u64, Outcome)| (outcome.began_ns, *id);
        let at = self.history.partition_point(|known| order(known) < (outcome.began_ns, id));
        let (last, full) = (at == self.history.len(), self.history.len() >= REMEMBERED);
        match self.history.get_mut(at) {
            Some(known) if known.0 == id => known.1 = outcome,
            // Older than everything remembered: the view has gone on without it.
            _ if at == 0 && full => return,
            _ => self.history.insert(at, (id, outcome)),
        }
        if last {
            self.view.enter(&outcome);
        } else {
            self.refold();
        }
        if self.history.len() > REMEMBERED
            && let Some((_, old)) = self.history.pop_front()
        {
            self.view_before.enter(&old);
        }
    }

    fn refold(&mut self) {
        self.view = self.view_before.clone();
        for (_, outcome) in &self.history {
            self.view.enter(outcome);
        }
    }

    /// The configuration says something else about this series from now on.
    pub(super) fn replan(&mut self, plan: Plan) {
        let rules = (self.plan.rules.fall, self.plan.rules.rise) != (plan.rules.fall, plan.rules.rise);
        self.confirmed |= plan.role.is_some();
        self.protocol = self.protocol.or(plan.protocol);
        self.plan = plan;
        if rules {
            self.view_before = LbView::new(&self.plan.rules);
            self.refold();
        }
    }
}

/// Records a value once. Beyond the histogram's range only the top bucket is right, and that is where it goes.
fn record(histogram: &mut Option<Box<Histogram<u64>>>, value: Option<u64>, done: &mut bool) {
    if let (Some(histogram), Some(value), false) = (histogram.as_mut(), value, *done) {
        histogram.saturating_record(value.max(1));
        *done = true;
    }
}

/// 1 ns to 10 minutes with two significant digits. Only impossible bounds are refused, and these are constants.
fn new_histogram() -> Option<Box<Histogram<u64>>> {
    Histogram::new_with_bounds(1, 600_000_000_000, 2).ok().map(Box::new)
}
