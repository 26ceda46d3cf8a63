//! A probe sender that behaves like the load balancer: a schedule of attempts, without I/O.
//! [`super::fabric`] owns the wire and the clock.

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use super::{
    attempt::Attempt,
    probe_log::AttemptLog,
    signature::Signature,
    wire::{PROBE_V4, PROBE_V6, Segment},
};

/// How long a closing connection may take before it is forgotten.
const LINGER: Duration = Duration::from_secs(3);

/// How a connection that was held open ends when the next attempt is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    Fin,
    Rst,
}

/// What an attempt asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The handshake only; the connection is held until the next attempt.
    Tcp,
    /// `GET path`; only status 200 is success.
    Http { path: String },
}

/// A probe, as configured on a load balancer.
#[derive(Clone, Debug)]
pub struct Probe {
    pub target: SocketAddr,
    /// Source addresses, used in turn.
    pub sources: Vec<IpAddr>,
    pub kind: Kind,
    pub interval: Duration,
    /// The first attempt is sent this long after the start.
    pub delay: Duration,
    pub close: Close,
    /// Stop after so many attempts; `None` goes on until stopped.
    pub attempts: Option<usize>,
    pub signature: Signature,
    /// Multiplies retransmission times, never the interval.
    pub time_scale: f64,
}

impl Probe {
    /// Azure's TCP probe with the portal's default interval of 5 s.
    pub fn tcp(target: SocketAddr) -> Self {
        let (source, signature) = match target {
            SocketAddr::V4(_) => (IpAddr::V4(PROBE_V4), Signature::azure_v4()),
            SocketAddr::V6(_) => (IpAddr::V6(PROBE_V6), Signature::azure_v6()),
        };
        Self {
            target,
            sources: vec![source],
            kind: Kind::Tcp,
            interval: Duration::from_secs(5),
            delay: Duration::ZERO,
            close: Close::Fin,
            attempts: None,
            signature,
            time_scale: 1.0,
        }
    }

    /// Azure's HTTP probe.
    pub fn http(target: SocketAddr, path: impl Into<String>) -> Self {
        Self { kind: Kind::Http { path: path.into() }, ..Self::tcp(target) }
    }

    #[must_use]
    pub fn every(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    #[must_use]
    pub fn delayed(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    #[must_use]
    pub fn attempts(mut self, attempts: usize) -> Self {
        self.attempts = Some(attempts);
        self
    }

    #[must_use]
    pub fn close(mut self, close: Close) -> Self {
        self.close = close;
        self
    }

    #[must_use]
    pub fn sources(mut self, sources: impl IntoIterator<Item = IpAddr>) -> Self {
        self.sources = sources.into_iter().collect();
        self
    }

    #[must_use]
    pub fn signature(mut self, signature: Signature) -> Self {
        self.signature = signature;
        self
    }

    #[must_use]
    pub fn time_scale(mut self, scale: f64) -> Self {
        self.time_scale = scale;
        self
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.sources.is_empty() {
            return Err("a prober needs a source address".to_owned());
        }
        if self.sources.iter().any(|source| source.is_ipv4() != self.target.is_ipv4()) {
            return Err(format!("the source of a prober for {} is of the other IP family", self.target));
        }
        if self.interval < Duration::from_millis(10) {
            return Err("a prober's interval must be at least 10 ms".to_owned());
        }
        if !(self.time_scale.is_finite() && self.time_scale > 0.0) {
            return Err(format!("a prober's time scale must be positive, not {}", self.time_scale));
        }
        Ok(())
    }
}

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
        match self.find(ends) {
            Some(attempt) => {
                attempt.segment(segment, now, out);
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
            if let Some(attempt) = self.attempts.last_mut() {
                attempt.give_way(self.probe.close, now, out);
            }
        }
        for attempt in self.attempts.iter_mut().filter(|attempt| !attempt.is_over()) {
            attempt.tick(now, LINGER, out);
        }
        if let Some(due) = self.next_due.filter(|due| *due <= now) {
            let number = self.attempts.len();
            let source = SocketAddr::new(self.probe.sources[number % self.probe.sources.len()], port());
            self.attempts.push(Attempt::start(&self.probe, number, source, now, out));
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
