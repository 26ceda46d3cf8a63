//! What the load balancer saw of each of its attempts: the ground truth that tests compare verdicts with.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

/// How an attempt ended, in the eyes of the load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Neither answered nor due.
    Pending,
    /// TCP: the handshake completed. HTTP: an accepted status. HTTPS: a ServerHello.
    Answered,
    /// HTTP: any other status.
    HttpStatus(u16),
    /// HTTPS: an alert, by its description, instead of a ServerHello.
    TlsAlert(u8),
    /// Something that is neither HTTP nor TLS, as asked for.
    Garbage,
    /// RST instead of SYN-ACK.
    Refused,
    /// An ICMP error (type, code) instead of a reply.
    Rejected(u8, u8),
    /// Nothing by the timeout, or by the time the next attempt was due.
    NoReply,
    /// The connection was closed or reset without an answer to the request.
    Closed,
}

/// One attempt.
#[derive(Clone, Debug)]
pub struct AttemptLog {
    /// Counts from 0.
    pub number: usize,
    pub source: SocketAddr,
    pub target: SocketAddr,
    /// The initial sequence number.
    pub sequence: u32,
    pub sent_at: Instant,
    pub retransmitted_at: Vec<Instant>,
    pub syn_ack_at: Option<Instant>,
    /// SYN-ACKs, repetitions included.
    pub syn_acks: usize,
    pub rst_at: Option<Instant>,
    pub icmp_at: Option<Instant>,
    /// The first byte of the request went out.
    pub asked_at: Option<Instant>,
    pub http_status: Option<u16>,
    /// The answer could be judged, in time or not.
    pub answer_at: Option<Instant>,
    /// Asked on the connection of the attempt before.
    pub reused: bool,
    /// The appliance closed its side.
    pub peer_closed_at: Option<Instant>,
    /// Both sides closed, or reset by either.
    pub closed_at: Option<Instant>,
    /// A SYN-ACK that came after the attempt had been given up.
    pub late_syn_acks: usize,
    pub outcome: Outcome,
}

impl AttemptLog {
    pub(super) fn new(
        number: usize,
        source: SocketAddr,
        target: SocketAddr,
        sequence: u32,
        now: Instant,
    ) -> Self {
        Self {
            number,
            source,
            target,
            sequence,
            sent_at: now,
            retransmitted_at: Vec::new(),
            syn_ack_at: None,
            syn_acks: 0,
            rst_at: None,
            icmp_at: None,
            asked_at: None,
            http_status: None,
            answer_at: None,
            reused: false,
            peer_closed_at: None,
            closed_at: None,
            late_syn_acks: 0,
            outcome: Outcome::Pending,
        }
    }

    pub fn answered(&self) -> bool {
        self.outcome == Outcome::Answered
    }

    /// Neither answered nor given up yet.
    pub fn is_pending(&self) -> bool {
        self.outcome == Outcome::Pending
    }

    /// From the first SYN to the SYN-ACK.
    pub fn latency(&self) -> Option<Duration> {
        Some(self.syn_ack_at?.duration_since(self.sent_at))
    }

    /// From the request to the answer.
    pub fn answer_latency(&self) -> Option<Duration> {
        Some(self.answer_at?.duration_since(self.asked_at?))
    }

    pub(super) fn judge(&mut self, outcome: Outcome) {
        if self.outcome == Outcome::Pending {
            self.outcome = outcome;
        }
    }
}
