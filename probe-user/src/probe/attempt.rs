//! One probe: what was seen of it, and what that means.

use probe_common::{
    maps::Address,
    observation::{Observation, Role, flags},
};

use super::request;
use crate::report::document::{Protocol, Reply, Verdict};

/// How long after a good SYN-ACK a request may still come before a probe of a series whose protocol is not known yet
/// counts as plain TCP. A prober sends its request with the handshake's ACK; 250 ms is far beyond that.
pub const SETTLE_NS: u64 = 250_000_000;

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
    fn record(&mut self, nic: u32, left: Left) {
        let side = if left.nic == nic { &mut self.here } else { &mut self.elsewhere };
        side.get_or_insert(left);
    }
}

/// Whether silence may be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silence {
    /// More packets may be waiting, or were lost.
    Open,
    /// Everything up to now was read, and losses were told.
    Judged,
}

/// Whether an ICMP error ends the attempt: fragmentation needed, packet too big, source quench and redirect do not.
fn is_rejection(packet: &Observation) -> bool {
    match (packet.family, packet.icmp_type, packet.icmp_code) {
        (4, 3, 4) | (4, 4 | 5, _) => false,
        (6, kind, _) => kind != 2,
        _ => true,
    }
}

/// What an attempt came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    pub verdict: Verdict,
    pub reply: Reply,
    /// The NIC a misrouted reply left by.
    pub out_nic: Option<u32>,
    /// The request was read and the connection closed without an answer.
    pub closed_by_application: bool,
    /// Accepted, request seen, never answered.
    pub timed_out: bool,
}

impl Judgement {
    const fn plain(verdict: Verdict, reply: Reply) -> Self {
        Self { verdict, reply, out_nic: None, closed_by_application: false, timed_out: false }
    }

    const fn asymmetric(reply: Reply, left: Left) -> Self {
        Self {
            verdict: Verdict::Asymmetric,
            reply,
            out_nic: Some(left.nic),
            closed_by_application: false,
            timed_out: false,
        }
    }
}

/// One probe, retransmissions included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub tuple: Tuple,
    /// Initial sequence number of the SYN.
    pub sequence: u32,
    /// Logical NIC that the SYN entered by.
    pub nic: u32,
    pub started_ns: u64,
    pub retransmits: u32,
    pub syn_ack: Sides,
    pub rst: Sides,
    pub icmp: Sides,
    /// Type and code of the first ICMP error.
    pub icmp_code: Option<(u8, u8)>,
    /// The handshake's ACK came in.
    pub acked_ns: Option<u64>,
    /// The prober's first data came in.
    pub request_ns: Option<u64>,
    /// What the first data speaks.
    pub protocol: Option<Protocol>,
    pub answer: Sides,
    /// The host closed its side.
    pub closed: Sides,
    /// The prober closed.
    pub ended_ns: Option<u64>,
    /// No reply is expected any more: the limit passed, or the next attempt began.
    pub overdue: bool,
    /// Replies may have been among lost observations: silence proves nothing.
    pub void: bool,
    /// The judgement so far.
    pub judgement: Option<Judgement>,
}

impl Attempt {
    /// The attempt that an inbound SYN begins.
    pub(super) fn begin(syn: &Observation) -> Self {
        Self {
            tuple: Tuple::of(syn),
            sequence: syn.sequence,
            nic: syn.nic,
            started_ns: syn.time_ns,
            retransmits: 0,
            syn_ack: Sides::default(),
            rst: Sides::default(),
            icmp: Sides::default(),
            icmp_code: None,
            acked_ns: None,
            request_ns: None,
            protocol: None,
            answer: Sides::default(),
            closed: Sides::default(),
            ended_ns: None,
            overdue: false,
            void: false,
            judgement: None,
        }
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
                self.icmp.record(self.nic, left);
                self.icmp_code.get_or_insert((packet.icmp_type, packet.icmp_code));
            }
            _ => {}
        }
    }

    fn record_inbound(&mut self, packet: &Observation) {
        if packet.has(flags::SYN) {
            self.retransmits += 1;
            return;
        }
        if packet.has(flags::RST) || packet.has(flags::FIN) {
            self.ended_ns.get_or_insert(packet.time_ns);
        }
        if packet.payload_length > 0 {
            self.acked_ns.get_or_insert(packet.time_ns);
            if self.request_ns.is_none() {
                self.request_ns = Some(packet.time_ns);
                self.protocol = Some(request::protocol(packet.payload()));
            }
        } else if packet.flags & (flags::ACK | flags::RST | flags::FIN) == flags::ACK {
            self.acked_ns.get_or_insert(packet.time_ns);
        }
    }

    fn record_outbound(&mut self, packet: &Observation, left: Left) {
        let answers_syn = packet.acknowledgement == self.sequence.wrapping_add(1);
        if packet.has(flags::SYN | flags::ACK) {
            // RFC 9293, 3.10.7.4: anything else answers another SYN.
            if answers_syn {
                self.syn_ack.record(self.nic, left);
            }
            return;
        }
        if packet.has(flags::RST) {
            // Without a handshake a RST answers the SYN; afterwards it aborts the connection.
            if answers_syn || self.acked_ns.is_some() {
                self.rst.record(self.nic, left);
            }
            return;
        }
        if packet.payload_length > 0 && self.request_ns.is_some() {
            self.answer.record(self.nic, left);
        }
        if packet.has(flags::FIN) {
            self.closed.record(self.nic, left);
        }
    }

    /// What the attempt has come to at `now_ns`, if it has; `known` is what the series is known to speak.
    pub(super) fn assess(&self, known: Option<Protocol>, now_ns: u64, silence: Silence) -> Option<Judgement> {
        let overdue = self.overdue && silence == Silence::Judged;
        match self.syn_ack.here {
            Some(syn_ack) => self.assess_connected(syn_ack, known, now_ns, overdue),
            None => self.assess_unconnected(overdue),
        }
    }

    fn assess_connected(
        &self,
        syn_ack: Left,
        known: Option<Protocol>,
        now_ns: u64,
        overdue: bool,
    ) -> Option<Judgement> {
        let speaks = match self.protocol {
            Some(Protocol::Tcp) | None => known.unwrap_or(Protocol::Tcp),
            Some(protocol) => protocol,
        };
        if self.request_ns.is_none() || self.protocol == Some(Protocol::Tcp) {
            let ok = Judgement::plain(Verdict::Ok, Reply::SynAck);
            let settled = now_ns >= syn_ack.at_ns.saturating_add(SETTLE_NS);
            let plain = known == Some(Protocol::Tcp) || self.protocol == Some(Protocol::Tcp);
            return (plain || settled || self.ended_ns.is_some() || overdue).then_some(ok);
        }
        debug_assert!(speaks != Protocol::Tcp);
        if self.answer.here.is_some() {
            return Some(Judgement::plain(Verdict::Ok, Reply::Data));
        }
        if let Some(left) = self.answer.elsewhere {
            return Some(Judgement::asymmetric(Reply::Data, left));
        }
        if let Some(left) = self.rst.elsewhere {
            return Some(Judgement::asymmetric(Reply::Rst, left));
        }
        if self.rst.here.is_some() || self.closed.here.is_some() {
            let reply = if self.rst.here.is_some() { Reply::Rst } else { Reply::None };
            return Some(Judgement {
                closed_by_application: true,
                ..Judgement::plain(Verdict::Refused, reply)
            });
        }
        (overdue && !self.void)
            .then_some(Judgement { timed_out: true, ..Judgement::plain(Verdict::NoReply, Reply::None) })
    }

    fn assess_unconnected(&self, overdue: bool) -> Option<Judgement> {
        let asymmetric = [
            (Reply::SynAck, self.syn_ack.elsewhere),
            (Reply::Rst, self.rst.elsewhere),
            (Reply::Icmp, self.icmp.elsewhere),
        ];
        if let Some((reply, Some(left))) = asymmetric.into_iter().find(|(_, left)| left.is_some()) {
            return Some(Judgement::asymmetric(reply, left));
        }
        if self.rst.here.is_some() {
            return Some(Judgement::plain(Verdict::Refused, Reply::Rst));
        }
        if self.icmp.here.is_some() {
            return Some(Judgement::plain(Verdict::IcmpReject, Reply::Icmp));
        }
        (overdue && !self.void).then_some(Judgement::plain(Verdict::NoReply, Reply::None))
    }

    /// When [`Attempt::assess`] may change its mind by time alone.
    pub(super) fn settles_ns(&self) -> Option<u64> {
        match (self.judgement, self.syn_ack.here) {
            (None, Some(syn_ack)) if self.request_ns.is_none() => Some(syn_ack.at_ns + SETTLE_NS),
            _ => None,
        }
    }

    /// SYN to the first SYN-ACK that left by the right NIC, ns.
    pub fn latency_ns(&self) -> Option<u64> {
        self.syn_ack.here.map(|left| left.at_ns.saturating_sub(self.started_ns))
    }
}
