//! One probe: what was seen of it. What that means is [`super::assess`]'s.

use probe_common::{
    maps::Address,
    observation::{Observation, Role, flags},
};

use super::{
    assess::Judgement,
    http,
    request::{self, Request},
    series::Forwarded,
    stream::Stream,
    tls,
};
use crate::report::document::Protocol;

/// One packet seen on two devices of this host (a VF and its master, a bridge and its port) is seen within this time; a
/// prober repeats a SYN after a second at the earliest (RFC 6298, 2).
const SAME_PACKET_NS: u64 = 10_000_000;

/// The prober's end and the end it probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tuple {
    pub peer: Address,
    pub peer_port: u16,
    pub local: Address,
    pub local_port: u16,
}

impl Tuple {
    pub const fn of(observation: &Observation) -> Self {
        Self {
            peer: observation.peer,
            peer_port: observation.peer_port,
            local: observation.local,
            local_port: observation.local_port,
        }
    }
}

/// A packet that left: when, and by which logical NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    pub at_ns: u64,
    pub nic: u32,
}

/// The first packet of one kind that left by the probe's own NIC, and the first that left by another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sides {
    pub here: Option<Left>,
    pub elsewhere: Option<Left>,
}

impl Sides {
    fn record(&mut self, here: bool, left: Left) {
        let side = if here { &mut self.here } else { &mut self.elsewhere };
        side.get_or_insert(left);
    }

    /// The earlier of the two.
    pub fn first(&self) -> Option<Left> {
        self.here.into_iter().chain(self.elsewhere).min_by_key(|left| left.at_ns)
    }
}

/// Whether an ICMP error ends the attempt: fragmentation needed, packet too big, source quench and redirect do not.
fn is_rejection(packet: &Observation) -> bool {
    match (packet.family, packet.icmp_type, packet.icmp_code) {
        (4, 3, 4) | (4, 4 | 5, _) => false,
        (6, kind, _) => kind != 2,
        _ => true,
    }
}

/// One probe, retransmissions included: a connection, or one request of several on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Counts up within a series.
    pub id: u64,
    pub tuple: Tuple,
    /// Initial sequence number of the SYN.
    pub sequence: u32,
    /// Logical NIC that the SYN entered by.
    pub nic: u32,
    /// Device that it was seen on first.
    pub device: u32,
    /// Another NIC that the very same SYN was seen on.
    pub also: Option<u32>,
    pub started_ns: u64,
    /// A further request on a connection that an earlier attempt opened.
    pub reused: bool,
    pub retransmits: u32,
    /// When the last SYN came, ns.
    pub last_syn_ns: u64,
    pub syn_ack: Sides,
    pub rst: Sides,
    pub icmp: Sides,
    /// Type and code of the first ICMP error.
    pub icmp_code: Option<(u8, u8)>,
    /// The handshake's ACK came in.
    pub acked_ns: Option<u64>,
    /// The prober's first data came in.
    pub request_ns: Option<u64>,
    /// What the prober's data says.
    pub request: Request,
    pub answer: Sides,
    /// The host closed its side.
    pub closed: Sides,
    /// The prober closed.
    pub ended_ns: Option<u64>,
    /// The prober reset the connection.
    pub given_up_ns: Option<u64>,
    /// The alert by which the prober refused the TLS handshake.
    pub prober_alert: Option<(u8, u64)>,
    /// It was passed on to another machine.
    pub forwarded: Option<Forwarded>,
    asked: Stream,
    answered: Stream,
    /// No reply is expected any more: the limit passed, or the next attempt began.
    pub overdue: bool,
    /// Replies may have been among lost observations, or could not be read: silence proves nothing.
    pub void: bool,
    /// The judgement so far.
    pub judgement: Option<Judgement>,
    /// Something new was seen since it was judged.
    pub(super) fresh: bool,
    /// Latencies that went into the series' histograms.
    pub(super) recorded: (bool, bool),
}

impl Attempt {
    /// The attempt that an inbound SYN begins.
    pub(super) fn begin(syn: &Observation) -> Self {
        Self {
            id: 0,
            tuple: Tuple::of(syn),
            sequence: syn.sequence,
            nic: syn.nic,
            device: syn.device,
            also: None,
            started_ns: syn.time_ns,
            reused: false,
            retransmits: 0,
            last_syn_ns: syn.time_ns,
            syn_ack: Sides::default(),
            rst: Sides::default(),
            icmp: Sides::default(),
            icmp_code: None,
            acked_ns: None,
            request_ns: None,
            request: Request::default(),
            answer: Sides::default(),
            closed: Sides::default(),
            ended_ns: None,
            given_up_ns: None,
            prober_alert: None,
            forwarded: None,
            asked: Stream::from(syn.sequence.wrapping_add(1)),
            answered: Stream::default(),
            overdue: false,
            void: false,
            judgement: None,
            fresh: false,
            recorded: (false, false),
        }
    }

    /// The attempt that a further request on this connection begins: the answer to the last one is there, and a new
    /// request line comes.
    pub(super) fn next_request(&self, packet: &Observation) -> Option<Self> {
        let is_request = packet.role() == Some(Role::Probe)
            && packet.payload_length > 0
            && request::sniff(packet.payload()).speaks == Some(Protocol::Http);
        let answered = self.request.speaks == Some(Protocol::Http)
            && matches!(http::answer(self.answered.bytes()), http::Answer::Status(_));
        if !is_request || !answered || self.asked.contains(packet.sequence) {
            return None;
        }
        let mut next =
            Self { sequence: self.sequence, nic: self.nic, also: self.also, ..Self::begin(packet) };
        next.reused = true;
        next.syn_ack = self.syn_ack;
        next.forwarded = self.forwarded;
        next.acked_ns = self.acked_ns;
        next.recorded.0 = true;
        next.asked = Stream::from(packet.sequence);
        // What the host sends from here on answers this request (RFC 9112, 9.3.2: in order).
        next.answered = Stream::from(packet.acknowledgement);
        next.record(packet);
        Some(next)
    }

    /// Takes in a packet of this tuple. Packets that belong to an earlier use of the tuple change nothing.
    pub(super) fn record(&mut self, packet: &Observation) {
        let left = Left { at_ns: packet.time_ns, nic: packet.nic };
        match packet.role() {
            Some(Role::Probe) => self.record_inbound(packet),
            Some(Role::Reply) => self.record_outbound(packet, left),
            Some(Role::Reject)
                if (packet.sequence == self.sequence || self.acked_ns.is_some()) && is_rejection(packet) =>
            {
                self.icmp.record(self.is_here(left.nic), left);
                self.icmp_code.get_or_insert((packet.icmp_type, packet.icmp_code));
            }
            _ => {}
        }
    }

    /// Whether a NIC is one that the SYN was seen on.
    fn is_here(&self, nic: u32) -> bool {
        nic == self.nic || self.also == Some(nic)
    }

    fn record_inbound(&mut self, packet: &Observation) {
        if packet.has(flags::SYN) {
            let elsewhere = packet.device != self.device || packet.nic != self.nic;
            if elsewhere && packet.time_ns.saturating_sub(self.last_syn_ns) < SAME_PACKET_NS {
                if packet.nic != self.nic {
                    self.also.get_or_insert(packet.nic);
                }
                return;
            }
            self.retransmits += 1;
            self.last_syn_ns = packet.time_ns;
            return;
        }
        if packet.has(flags::RST) {
            self.given_up_ns.get_or_insert(packet.time_ns);
        }
        if packet.has(flags::RST) || packet.has(flags::FIN) {
            self.ended_ns.get_or_insert(packet.time_ns);
        }
        if packet.payload_length > 0 {
            self.acked_ns.get_or_insert(packet.time_ns);
            if self.asked.push(packet.sequence, packet.payload(), packet.payload_length) {
                self.request_ns.get_or_insert(packet.time_ns);
                if self.request.speaks.is_none() {
                    self.request = request::sniff(self.asked.bytes());
                }
                if let Some(alert) = tls::prober_alert(packet.payload()) {
                    self.prober_alert.get_or_insert((alert, packet.time_ns));
                }
            }
        } else if packet.flags & (flags::ACK | flags::RST) == flags::ACK {
            self.acked_ns.get_or_insert(packet.time_ns);
        }
    }

    fn record_outbound(&mut self, packet: &Observation, left: Left) {
        let here = self.is_here(left.nic);
        let answers_syn = packet.acknowledgement == self.sequence.wrapping_add(1);
        if packet.has(flags::SYN | flags::ACK) {
            // RFC 9293, 3.10.7.4: anything else answers another SYN.
            if answers_syn && !self.reused {
                self.syn_ack.record(here, left);
                self.answered.begins(packet.sequence.wrapping_add(1));
            }
            return;
        }
        if packet.has(flags::RST) {
            // Without a handshake only a RST that acknowledges the SYN is heard (RFC 9293, 3.10.7.3); afterwards it aborts
            // the connection.
            if (answers_syn && packet.has(flags::ACK)) || self.acked_ns.is_some() {
                self.rst.record(here, left);
            }
            return;
        }
        if packet.payload_length > 0
            && self.answered.push(packet.sequence, packet.payload(), packet.payload_length)
        {
            self.answer.record(here, left);
        }
        if packet.has(flags::FIN) {
            self.closed.record(here, left);
        }
    }

    /// What is spoken, as far as this attempt shows it. Where the request could not be read, the answer tells.
    pub fn speaks(&self) -> Option<Protocol> {
        if self.request.speaks.is_none() && self.request_ns.is_some() && self.asked.ends() {
            return match self.answered.bytes() {
                [b'H', b'T', b'T', b'P', b'/', ..] => Some(Protocol::Http),
                [21 | 22, 3, ..] => Some(Protocol::Https),
                _ => None,
            };
        }
        self.request.speaks
    }

    /// The beginning of what the host sent.
    pub fn answer_bytes(&self) -> &[u8] {
        self.answered.bytes()
    }

    /// An answer came, and the capture does not hold enough of it to tell what it was.
    pub(super) fn is_unreadable(&self) -> bool {
        let undecided = match self.speaks() {
            Some(Protocol::Http) => http::answer(self.answered.bytes()) == http::Answer::Partial,
            Some(Protocol::Https) => tls::answer(self.answered.bytes()) == tls::Answer::Partial,
            Some(Protocol::Tcp) | None => false,
        };
        undecided && self.answered.ends()
    }

    /// The machine that it was passed on to has answered, and nothing of that left for the prober.
    pub fn is_withheld(&self) -> bool {
        let left = [self.syn_ack, self.rst, self.icmp].iter().any(|sides| sides.first().is_some());
        self.forwarded.is_some_and(|forwarded| forwarded.returned.is_some()) && !left
    }

    /// SYN to the first SYN-ACK that left by the right NIC, ns.
    pub fn latency_ns(&self) -> Option<u64> {
        let syn_ack = self.syn_ack.here.filter(|_| !self.reused)?;
        Some(syn_ack.at_ns.saturating_sub(self.started_ns))
    }

    /// Request to the first byte of its answer by the right NIC, ns.
    pub fn answer_ns(&self) -> Option<u64> {
        if !matches!(self.speaks(), Some(Protocol::Http | Protocol::Https)) {
            return None;
        }
        self.answer.here?.at_ns.checked_sub(self.request_ns?)
    }
}
