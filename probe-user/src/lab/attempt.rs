//! One attempt of a prober: a TCP client just good enough for a handshake, one request and a proper close.

use std::{
    hash::{BuildHasher, RandomState},
    net::SocketAddr,
    time::{Duration, Instant},
};

use pnet::packet::tcp::TcpOption;

use super::{
    probe_log::{AttemptLog, Outcome},
    prober::{Close, Kind, Probe},
    signature::Signature,
    wire::{Segment, TcpFlags},
};

/// Azure gives an HTTP probe min(interval, 30 s).
const HTTP_LIMIT: Duration = Duration::from_secs(30);
/// An unacknowledged request is repeated this often.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
/// Enough of a response to find its status line.
const RESPONSE_KEPT: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    SynSent,
    Open,
    /// Our FIN is out.
    Closing,
    Over,
}

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) log: AttemptLog,
    phase: Phase,
    signature: Signature,
    request: Option<Vec<u8>>,
    http_due: Option<Instant>,
    time_scale: f64,
    /// Next sequence number to send, and the lowest one not acknowledged.
    next: u32,
    unacknowledged: u32,
    /// Next sequence number expected.
    expected: u32,
    request_repeat: Option<Instant>,
    closing_since: Option<Instant>,
    peer_closed: bool,
    peer_timestamp: Option<u32>,
    response: Vec<u8>,
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
        let request = match &probe.kind {
            Kind::Tcp => None,
            Kind::Http { path } => Some(
                format!(
                    "GET {path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: Load Balancer Agent\r\n\r\n",
                    probe.target
                )
                .into_bytes(),
            ),
        };
        let attempt = Self {
            log: AttemptLog::new(number, source, probe.target, sequence, now),
            phase: Phase::SynSent,
            signature: probe.signature.clone(),
            http_due: request.is_some().then(|| now + HTTP_LIMIT),
            request,
            time_scale: probe.time_scale,
            next: sequence.wrapping_add(1),
            unacknowledged: sequence,
            expected: 0,
            request_repeat: None,
            closing_since: None,
            peer_closed: false,
            peer_timestamp: None,
            response: Vec::new(),
        };
        attempt.send_syn(true, now, out);
        attempt
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
            self.send(TcpFlags::ACK, self.next, Vec::new(), now, out);
            if self.request.is_some() {
                self.send_request(now, out);
            } else {
                self.log.judge(Outcome::Answered);
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
            self.request_repeat = None;
        }
        if segment.length() > 0 {
            if segment.sequence == self.expected {
                self.expected = self.expected.wrapping_add(segment.length());
                self.take(&segment.payload, now);
                if segment.has(TcpFlags::FIN) {
                    self.peer_closed = true;
                    self.log.peer_closed_at = Some(now);
                    self.log.judge(if self.request.is_some() { Outcome::Closed } else { Outcome::Answered });
                }
            }
            self.send(TcpFlags::ACK, self.next, Vec::new(), now, out);
        }
        // An HTTP client is done when the server closes; a TCP probe holds its side until the next one.
        if self.peer_closed && self.phase == Phase::Open && self.request.is_some() {
            self.send_fin(now, out);
        }
        if self.phase == Phase::Closing && self.peer_closed && self.unacknowledged == self.next {
            self.over(now);
        }
    }

    /// Collects the response until its status is known: `HTTP/1.1 200 …`.
    fn take(&mut self, payload: &[u8], now: Instant) {
        let room = RESPONSE_KEPT.saturating_sub(self.response.len());
        self.response.extend_from_slice(&payload[..payload.len().min(room)]);
        if self.log.http_status.is_some() || self.request.is_none() {
            return;
        }
        let status = self.response.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5));
        let status = status.and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u16>().ok());
        if let Some(status) = status {
            self.log.http_status = Some(status);
            self.log.http_at = Some(now);
            self.log.judge(if status == 200 { Outcome::Answered } else { Outcome::HttpStatus(status) });
        }
    }

    pub(super) fn icmp(&mut self, kind: u8, code: u8, now: Instant) {
        self.log.icmp_at = Some(now);
        if self.phase == Phase::SynSent {
            self.log.judge(Outcome::Rejected(kind, code));
            self.over(now);
        }
    }

    /// The next attempt is due, or the prober stops.
    pub(super) fn give_way(&mut self, close: Close, now: Instant, out: &mut Vec<Segment>) {
        let answered = self.log.outcome != Outcome::Pending;
        self.log.judge(Outcome::NoReply);
        match (self.phase, close) {
            // A client that gives up on a SYN just forgets it.
            (Phase::SynSent, _) => self.over(now),
            (Phase::Open, Close::Fin) if answered => self.send_fin(now, out),
            (Phase::Open, _) => self.send_rst(now, out),
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
            Phase::Open if self.request_repeat.is_some_and(|at| at <= now) => self.send_request(now, out),
            Phase::Closing if self.closing_since.is_some_and(|since| since + linger <= now) => self.over(now),
            _ => {}
        }
        let waiting = matches!(self.phase, Phase::SynSent | Phase::Open);
        if waiting && self.log.outcome == Outcome::Pending && self.http_due.is_some_and(|at| at <= now) {
            self.give_way(Close::Rst, now, out);
        }
    }

    pub(super) fn deadline(&self, linger: Duration) -> Option<Instant> {
        let repeat = match self.phase {
            Phase::SynSent => self
                .signature
                .retransmits
                .get(self.log.retransmitted_at.len())
                .map(|repeat| self.repeat_at(repeat.after)),
            Phase::Open => self.request_repeat,
            Phase::Closing => self.closing_since.map(|since| since + linger),
            Phase::Over => None,
        };
        let limit = self.http_due.filter(|_| self.log.outcome == Outcome::Pending && !self.is_over());
        repeat.into_iter().chain(limit).min()
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
        let Some(request) = self.request.clone() else { return };
        let first = self.log.sequence.wrapping_add(1);
        self.next = first.wrapping_add(request.len() as u32);
        self.request_repeat = Some(now + REQUEST_TIMEOUT.mul_f64(self.time_scale));
        self.send(TcpFlags::PSH | TcpFlags::ACK, first, request, now, out);
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
        (now.saturating_duration_since(self.log.sent_at).as_millis() as u32).wrapping_add(self.log.sequence)
    }
}

/// Whether sequence number `a` comes after `b`.
fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}
