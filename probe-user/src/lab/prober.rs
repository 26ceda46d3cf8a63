//! A probe sender that behaves like the load balancer: a schedule of attempts, without I/O.
//! [`super::fabric`] owns the wire and the clock.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

pub use super::probe::{Close, Ends, Kind, Preface, Probe};
use super::{attempt::Attempt, probe_log::AttemptLog, view::View, wire::Segment};

/// How long a closing connection may take before it is forgotten.
const LINGER: Duration = Duration::from_secs(3);

/// The running form of a [`Probe`].
#[derive(Debug)]
pub(super) struct Prober {
    pub(super) id: u64,
    probe: Probe,
    attempts: Vec<Attempt>,
    next_due: Option<Instant>,
    /// When the latest attempt gives way.
    expires: Option<Instant>,
}

impl Prober {
    pub(super) fn new(id: u64, probe: Probe, now: Instant) -> Self {
        let next_due = (probe.attempts != Some(0)).then(|| now + probe.delay);
        Self { id, probe, attempts: Vec::new(), next_due, expires: None }
    }

    pub(super) fn view(&self) -> View {
        View::of(&self.log(), self.probe.counting)
    }

    /// No attempt is to come, and every connection is closed.
    pub(super) fn is_done(&self) -> bool {
        self.next_due.is_none() && self.attempts.iter().all(Attempt::is_over)
    }

    /// No attempt is to come, and nothing more can happen to one but the end of an answered connection.
    pub(super) fn is_settled(&self) -> bool {
        self.next_due.is_none() && self.attempts.iter().all(Attempt::is_settled)
    }

    pub(super) fn log(&self) -> Vec<AttemptLog> {
        self.attempts.iter().map(|attempt| attempt.log.clone()).collect()
    }

    /// No further attempts; the open connection is closed properly.
    pub(super) fn stop(&mut self, now: Instant) {
        self.next_due = None;
        self.expires = Some(now);
    }

    /// Takes a segment that belongs to one of this prober's attempts.
    pub(super) fn segment(&mut self, segment: &Segment, now: Instant, out: &mut Vec<Segment>) -> bool {
        let ends = (segment.destination, segment.source);
        let deaf = self.probe.deaf;
        match self.find(ends) {
            Some(attempt) => {
                if attempt.log.number >= deaf {
                    attempt.segment(segment, now, out);
                }
                true
            }
            None => false,
        }
    }

    /// Takes an ICMP error about one of this prober's packets.
    pub(super) fn icmp(
        &mut self,
        quoted: (SocketAddr, SocketAddr),
        kind: u8,
        code: u8,
        now: Instant,
    ) -> bool {
        self.find(quoted).is_some_and(|attempt| {
            attempt.icmp(kind, code, now);
            true
        })
    }

    fn find(&mut self, ends: (SocketAddr, SocketAddr)) -> Option<&mut Attempt> {
        self.attempts.iter_mut().rev().find(|attempt| (attempt.log.source, attempt.log.target) == ends)
    }

    /// Does what is due: gives the previous attempt up or closes it, repeats SYNs, starts the next attempt.
    pub(super) fn tick(&mut self, now: Instant, port: &mut impl FnMut() -> u16, out: &mut Vec<Segment>) {
        if self.expires.is_some_and(|at| at <= now) {
            self.expires = None;
            let another = self.next_due.is_some_and(|due| due <= now);
            if let Some(attempt) = self.attempts.last_mut()
                && !(self.probe.reuse && another && attempt.is_reusable())
            {
                attempt.give_way(now, out);
            }
        }
        for attempt in self.attempts.iter_mut().filter(|attempt| !attempt.is_over()) {
            attempt.tick(now, LINGER, out);
        }
        if let Some(due) = self.next_due.filter(|due| *due <= now) {
            let number = self.attempts.len();
            let source = SocketAddr::new(self.probe.sources[number % self.probe.sources.len()], port());
            let again = self.attempts.last_mut().filter(|last| self.probe.reuse && last.is_reusable());
            let attempt = match again {
                Some(last) => last.again(&self.probe, number, now, out),
                None => Attempt::start(&self.probe, number, source, now, out),
            };
            self.attempts.push(attempt);
            // A stalled machine must not be answered by a burst.
            let next = (due + self.probe.interval).max(now);
            self.expires = Some(next);
            let more = self.probe.attempts.is_none_or(|limit| number + 1 < limit);
            self.next_due = more.then_some(next);
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let open = self.attempts.iter().rev().filter(|attempt| !attempt.is_over());
        open.filter_map(|attempt| attempt.deadline(LINGER)).chain(self.next_due).chain(self.expires).min()
    }
}
