//! One attempt of a prober: a TCP client just good enough for a handshake, one request and a proper close.

use std::{
    hash::{BuildHasher, RandomState},
    net::SocketAddr,
    time::{Duration, Instant},
};

use pnet::packet::tcp::TcpOption;

use super::{
    exchange::Exchange,
    probe::{Close, Ends, Probe},
    probe_log::{AttemptLog, Outcome},
    signature::Signature,
    wire::{Segment, TcpFlags},
};

/// Azure gives an HTTP probe min(interval, 30 s).
const HTTP_LIMIT: Duration = Duration::from_secs(30);
/// An unacknowledged request is repeated this often.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    SynSent,
    Open,
    /// Our FIN is out.
    Closing,
    Over,
}

#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) log: AttemptLog,
    phase: Phase,
    signature: Signature,
    exchange: Exchange,
    close: Close,
    ends: Ends,
    give_up: Close,
    pause: Duration,
    /// When there has to be an answer.
    limit: Option<Instant>,
    time_scale: f64,
    /// Sequence number of the request.
    first: u32,
    /// Next sequence number to send, and the lowest one not acknowledged.
    next: u32,
    unacknowledged: u32,
    /// Next sequence number expected.
    expected: u32,
    /// The request is due, for the first time or again.
    request_due: Option<Instant>,
    closing_since: Option<Instant>,
    peer_closed: bool,
    peer_timestamp: Option<u32>,
    born: Instant,
}

impl Attempt {
    pub(super) fn start(
        probe: &Probe,
        number: usize,
        source: SocketAddr,
        now: Instant,
        out: &mut Vec<Segment>,
    ) -> Self {
        let sequence = RandomState::new().hash_one((source, number)) as u32;
        let exchange = Exchange::new(probe, source, true);
        let attempt = Self {
            log: AttemptLog::new(number, source, probe.target, sequence, now),
            phase: Phase::SynSent,
            signature: probe.signature.clone(),
            limit: limit(probe, &exchange, now),
            exchange,
            close: probe.close,
            ends: probe.ends,
            give_up: probe.give_up,
            pause: probe.pause,
            time_scale: probe.time_scale,
            first: sequence.wrapping_add(1),
            next: sequence.wrapping_add(1),
            unacknowledged: sequence,
            expected: 0,
            request_due: None,
            closing_since: None,
            peer_closed: false,
            peer_timestamp: None,
            born: now,
        };
        attempt.send_syn(true, now, out);
        attempt
    }

    /// Whether another request can go out on this connection.
    pub(super) fn is_reusable(&self) -> bool {
        let answered = self.exchange.asks() && self.log.answer_at.is_some();
        self.phase == Phase::Open && answered && !self.peer_closed && self.unacknowledged == self.next
    }

    /// The next attempt, on this connection, which is its own from now on.
    pub(super) fn again(
        &mut self,
        probe: &Probe,
        number: usize,
        now: Instant,
        out: &mut Vec<Segment>,
    ) -> Self {
        let (source, sequence) = (self.log.source, self.log.sequence);
        let exchange = Exchange::new(probe, source, false);
        let mut next = Self {
            log: AttemptLog::new(number, source, probe.target, sequence, now),
            limit: limit(probe, &exchange, now),
            exchange,
            first: self.next,
            ..self.clone()
        };
        next.log.reused = true;
        self.phase = Phase::Over;
        next.send_request(now, out);
        next
    }

    /// Nothing more can happen but the end of an answered connection. Behind a FIN, a late answer may still come.
    pub(super) fn is_settled(&self) -> bool {
        self.is_over() || !matches!(self.log.outcome, Outcome::Pending | Outcome::NoReply)
    }

    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    pub(super) fn segment(&mut self, segment: &Segment, now: Instant, out: &mut Vec<Segment>) {
        let syn_ack = segment.has(TcpFlags::SYN | TcpFlags::ACK);
        match self.phase {
            Phase::Over => self.log.late_syn_acks += usize::from(syn_ack),
            Phase::SynSent => self.opening(segment, syn_ack, now, out),
            Phase::Open | Phase::Closing => self.opened(segment, syn_ack, now, out),
        }
    }

    fn opening(&mut self, segment: &Segment, syn_ack: bool, now: Instant, out: &mut Vec<Segment>) {
        // Replies to an older use of the port acknowledge something else (RFC 9293, 3.10.7.3).
        if !segment.has(TcpFlags::ACK) || segment.acknowledgement != self.next {
            return;
        }
        if segment.has(TcpFlags::RST) {
            self.log.rst_at = Some(now);
            self.log.judge(Outcome::Refused);
            self.over(now);
        } else if syn_ack {
            self.log.syn_ack_at = Some(now);
            self.log.syn_acks = 1;
            self.phase = Phase::Open;
            self.unacknowledged = self.next;
            self.expected = segment.sequence.wrapping_add(1);
            self.peer_timestamp = segment.timestamp();
            if self.ends == Ends::HalfOpen {
                self.log.judge(Outcome::Answered);
                return self.send_rst(now, out);
            }
            self.send(TcpFlags::ACK, self.next, Vec::new(), now, out);
            if !self.exchange.asks() {
                self.log.judge(Outcome::Answered);
                self.end_at_answer(now, out);
            } else if self.pause.is_zero() {
                self.send_request(now, out);
            } else {
                self.request_due = Some(now + self.pause);
            }
        }
    }

    fn opened(&mut self, segment: &Segment, syn_ack: bool, now: Instant, out: &mut Vec<Segment>) {
        if segment.has(TcpFlags::RST) {
            self.log.rst_at = Some(now);
            self.log.judge(Outcome::Closed);
            return self.over(now);
        }
        if syn_ack {
            // Our acknowledgement was lost, or went to a socket that is not listening to us any more.
            self.log.syn_acks += 1;
            return self.send(TcpFlags::ACK, self.next, Vec::new(), now, out);
        }
        self.peer_timestamp = segment.timestamp().or(self.peer_timestamp);
        if segment.has(TcpFlags::ACK) && after(segment.acknowledgement, self.unacknowledged) {
            self.unacknowledged = segment.acknowledgement;
            if self.unacknowledged == self.next {
                self.request_due = None;
            }
        }
        if segment.length() > 0 {
            if segment.sequence == self.expected {
                self.expected = self.expected.wrapping_add(segment.length());
                self.take(&segment.payload, now);
                if segment.has(TcpFlags::FIN) {
                    self.peer_closed = true;
                    self.log.peer_closed_at = Some(now);
                    if !self.exchange.asks() {
                        self.log.judge(Outcome::Answered);
                    }
                }
            }
            self.send(TcpFlags::ACK, self.next, Vec::new(), now, out);
        }
        self.meet_close(now, out);
        self.end_at_answer(now, out);
        if self.phase == Phase::Closing && self.peer_closed && self.unacknowledged == self.next {
            self.over(now);
        }
    }

    /// A client that has asked is done when the server closes; one that has not learns of it when it asks. A TCP probe
    /// holds its side until the next one.
    fn meet_close(&mut self, now: Instant, out: &mut Vec<Segment>) {
        if self.peer_closed && self.phase == Phase::Open && self.log.asked_at.is_some() {
            self.log.judge(Outcome::Closed);
            self.send_fin(now, out);
        }
    }

    /// Collects the response until it can be judged.
    fn take(&mut self, payload: &[u8], now: Instant) {
        if self.log.answer_at.is_none()
            && let Some(answer) = self.exchange.hear(payload)
        {
            self.log.http_status = answer.http_status;
            self.log.answer_at = Some(now);
            self.log.judge(answer.outcome);
        }
    }

    fn end_at_answer(&mut self, now: Instant, out: &mut Vec<Segment>) {
        if self.ends != Ends::Answer || self.phase != Phase::Open || self.log.is_pending() {
            return;
        }
        self.end(self.close, now, out);
    }

    pub(super) fn icmp(&mut self, kind: u8, code: u8, now: Instant) {
        self.log.icmp_at = Some(now);
        if self.phase == Phase::SynSent {
            self.log.judge(Outcome::Rejected(kind, code));
            self.over(now);
        }
    }

    /// The next attempt is due, or the prober stops.
    pub(super) fn give_way(&mut self, now: Instant, out: &mut Vec<Segment>) {
        let close = if self.log.is_pending() { self.give_up } else { self.close };
        self.end(close, now, out);
    }

    fn end(&mut self, close: Close, now: Instant, out: &mut Vec<Segment>) {
        self.log.judge(Outcome::NoReply);
        match (self.phase, close) {
            // A client that gives up on a SYN just forgets it.
            (Phase::SynSent, _) => self.over(now),
            (Phase::Open, Close::Fin) => self.send_fin(now, out),
            (Phase::Open, Close::Rst) => self.send_rst(now, out),
            (Phase::Closing | Phase::Over, _) => {}
        }
    }

    pub(super) fn tick(&mut self, now: Instant, linger: Duration, out: &mut Vec<Segment>) {
        match self.phase {
            Phase::SynSent => {
                let done = self.log.retransmitted_at.len();
                if let Some(repeat) = self.signature.retransmits.get(done).copied()
                    && self.repeat_at(repeat.after) <= now
                {
                    self.log.retransmitted_at.push(now);
                    self.send_syn(repeat.full, now, out);
                }
            }
            Phase::Open if self.request_due.is_some_and(|at| at <= now) => self.send_request(now, out),
            Phase::Closing if self.closing_since.is_some_and(|since| since + linger <= now) => self.over(now),
            _ => {}
        }
        if self.waits() && self.limit.is_some_and(|at| at <= now) {
            self.end(self.give_up, now, out);
        }
    }

    fn waits(&self) -> bool {
        matches!(self.phase, Phase::SynSent | Phase::Open) && self.log.is_pending()
    }

    pub(super) fn deadline(&self, linger: Duration) -> Option<Instant> {
        let repeat = match self.phase {
            Phase::SynSent => self
                .signature
                .retransmits
                .get(self.log.retransmitted_at.len())
                .map(|repeat| self.repeat_at(repeat.after)),
            Phase::Open => self.request_due,
            Phase::Closing => self.closing_since.map(|since| since + linger),
            Phase::Over => None,
        };
        repeat.into_iter().chain(self.limit.filter(|_| self.waits())).min()
    }

    fn repeat_at(&self, after: Duration) -> Instant {
        self.log.sent_at + after.mul_f64(self.time_scale)
    }

    fn over(&mut self, now: Instant) {
        self.phase = Phase::Over;
        self.log.closed_at = Some(now);
    }

    fn send_syn(&self, full: bool, now: Instant, out: &mut Vec<Segment>) {
        out.push(Segment {
            source: self.log.source,
            destination: self.log.target,
            sequence: self.log.sequence,
            acknowledgement: 0,
            flags: self.signature.flags(full),
            window: self.signature.window,
            options: self.signature.options(full, self.clock(now)),
            payload: Vec::new(),
        });
    }

    fn send_request(&mut self, now: Instant, out: &mut Vec<Segment>) {
        let mut sequence = self.first;
        for piece in self.exchange.pieces.clone() {
            let length = piece.len() as u32;
            self.send(TcpFlags::PSH | TcpFlags::ACK, sequence, piece, now, out);
            sequence = sequence.wrapping_add(length);
        }
        self.next = sequence;
        self.log.asked_at.get_or_insert(now);
        self.request_due = Some(now + REQUEST_TIMEOUT.mul_f64(self.time_scale));
        self.meet_close(now, out);
    }

    fn send_fin(&mut self, now: Instant, out: &mut Vec<Segment>) {
        self.send(TcpFlags::FIN | TcpFlags::ACK, self.next, Vec::new(), now, out);
        self.next = self.next.wrapping_add(1);
        self.phase = Phase::Closing;
        self.closing_since = Some(now);
    }

    fn send_rst(&mut self, now: Instant, out: &mut Vec<Segment>) {
        self.send(TcpFlags::RST | TcpFlags::ACK, self.next, Vec::new(), now, out);
        self.over(now);
    }

    fn send(&self, flags: u8, sequence: u32, payload: Vec<u8>, now: Instant, out: &mut Vec<Segment>) {
        // Once agreed on, every segment carries timestamps (RFC 7323, 3.2).
        let options = match self.peer_timestamp.filter(|_| self.signature.timestamps) {
            Some(theirs) => {
                vec![TcpOption::nop(), TcpOption::nop(), TcpOption::timestamp(self.clock(now), theirs)]
            }
            None => Vec::new(),
        };
        out.push(Segment {
            source: self.log.source,
            destination: self.log.target,
            sequence,
            acknowledgement: self.expected,
            flags,
            window: self.signature.window,
            options,
            payload,
        });
    }

    /// A millisecond clock for timestamps; any start will do.
    fn clock(&self, now: Instant) -> u32 {
        (now.saturating_duration_since(self.born).as_millis() as u32).wrapping_add(self.log.sequence)
    }
}

/// The prober's own timeout; a request without one has Azure's limit.
fn limit(probe: &Probe, exchange: &Exchange, now: Instant) -> Option<Instant> {
    probe.timeout.or(exchange.asks().then_some(HTTP_LIMIT)).map(|limit| now + limit)
}

/// Whether sequence number `a` comes after `b`.
fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}
