//! Packets and a small world to send them through.

use probe_common::observation::{Direction, Observation, Role, flags};

use super::{Attempt, Config, Event, Series, Tracker};
use crate::report::document::Verdict;

pub(super) const SECOND: u64 = 1_000_000_000;
pub(super) const MS: u64 = 1_000_000;

/// One prober's connection: where it comes in, and its ports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub nic: u32,
    pub port: u16,
    pub peer_port: u16,
    pub sequence: u32,
}

impl Flow {
    pub(super) fn new(nic: u32, peer_port: u16) -> Self {
        Self { nic, port: 8008, peer_port, sequence: u32::from(peer_port) * 1000 }
    }

    fn base(self, at: u64, role: Role, nic: u32) -> Observation {
        Observation {
            time_ns: at,
            device: nic,
            nic,
            peer: probe_common::maps::map_v4([168, 63, 129, 16]),
            local: probe_common::maps::map_v4([10, 4, self.nic as u8, 101]),
            peer_port: self.peer_port,
            local_port: self.port,
            peer_id: 1,
            direction: if role == Role::Probe { Direction::Ingress } else { Direction::Egress } as u8,
            role: role as u8,
            family: 4,
            ..Observation::EMPTY
        }
    }

    fn inbound(self, at: u64, flags: u8) -> Observation {
        Observation { flags, ..self.base(at, Role::Probe, self.nic) }
    }

    pub(super) fn syn(self, at: u64) -> Observation {
        Observation { sequence: self.sequence, ..self.inbound(at, flags::SYN | flags::ECE | flags::CWR) }
    }

    pub(super) fn ack(self, at: u64) -> Observation {
        self.inbound(at, flags::ACK)
    }

    pub(super) fn fin(self, at: u64) -> Observation {
        self.inbound(at, flags::FIN | flags::ACK)
    }

    pub(super) fn request(self, at: u64) -> Observation {
        self.ask(at, 0, b"GET /health HTTP/1.1\r\n\r\n")
    }

    /// Data of the prober, `offset` bytes into its stream.
    pub(super) fn ask(self, at: u64, offset: u32, text: &[u8]) -> Observation {
        let sequence = self.sequence.wrapping_add(1 + offset);
        with_payload(Observation { sequence, ..self.inbound(at, flags::PSH | flags::ACK) }, text)
    }

    fn outbound(self, at: u64, nic: u32, flags: u8) -> Observation {
        let acknowledgement = self.sequence.wrapping_add(1);
        Observation { flags, acknowledgement, ..self.base(at, Role::Reply, nic) }
    }

    /// Initial sequence number of the host.
    fn host_sequence(self) -> u32 {
        self.sequence ^ 0xffff_0000
    }

    pub(super) fn syn_ack(self, at: u64, nic: u32) -> Observation {
        let sequence = self.host_sequence();
        Observation { sequence, ..self.outbound(at, nic, flags::SYN | flags::ACK) }
    }

    pub(super) fn rst(self, at: u64, nic: u32) -> Observation {
        self.outbound(at, nic, flags::RST | flags::ACK)
    }

    pub(super) fn host_fin(self, at: u64, nic: u32) -> Observation {
        self.outbound(at, nic, flags::FIN | flags::ACK)
    }

    pub(super) fn answer(self, at: u64, nic: u32) -> Observation {
        self.say(at, nic, 0, b"HTTP/1.1 200 OK\r\n\r\n")
    }

    /// Data of the host, `offset` bytes into its stream.
    pub(super) fn say(self, at: u64, nic: u32, offset: u32, text: &[u8]) -> Observation {
        let sequence = self.host_sequence().wrapping_add(1 + offset);
        with_payload(Observation { sequence, ..self.outbound(at, nic, flags::PSH | flags::ACK) }, text)
    }

    pub(super) fn prober_rst(self, at: u64) -> Observation {
        self.inbound(at, flags::RST | flags::ACK)
    }

    pub(super) fn icmp(self, at: u64, nic: u32) -> Observation {
        Observation {
            sequence: self.sequence,
            icmp_type: 3,
            icmp_code: 3,
            ..self.base(at, Role::Reject, nic)
        }
    }
}

/// A packet with as much of `text` as an observation carries.
fn with_payload(mut packet: Observation, text: &[u8]) -> Observation {
    let captured = text.len().min(packet.payload.len());
    packet.payload[..captured].copy_from_slice(&text[..captured]);
    packet.captured = captured as u16;
    packet.payload_length = text.len() as u32;
    packet
}

/// A tracker with everything that it said.
#[derive(Debug, Default)]
pub(super) struct World {
    pub tracker: Tracker,
    pub events: Vec<Event>,
}

impl World {
    pub(super) fn judging(nics: &[u32]) -> Self {
        let judged = Some(nics.iter().copied().collect());
        Self { tracker: Tracker::new(Config { judged, ..Config::default() }), events: Vec::new() }
    }

    pub(super) fn with(config: Config) -> Self {
        Self { tracker: Tracker::new(config), events: Vec::new() }
    }

    pub(super) fn see(&mut self, packets: impl IntoIterator<Item = Observation>) {
        for packet in packets {
            self.tracker.observe(&packet, &mut self.events);
        }
    }

    pub(super) fn tick(&mut self, now: u64) {
        self.tracker.tick(now, &mut self.events);
    }

    pub(super) fn finish(&mut self, now: u64) {
        self.tracker.finish(now, &mut self.events);
    }

    pub(super) fn only(&self) -> &Series {
        let mut all = self.tracker.series();
        let first = all.next().expect("one series");
        assert!(all.next().is_none(), "more than one series");
        first
    }

    /// Verdicts as they were said.
    pub(super) fn said(&self) -> Vec<(Verdict, bool)> {
        self.events
            .iter()
            .filter_map(|event| match event {
                Event::Judged { attempt, revised, .. } => Some((verdict(attempt), *revised)),
                _ => None,
            })
            .collect()
    }
}

fn verdict(attempt: &Attempt) -> Verdict {
    attempt.judgement.expect("a judged attempt has a judgement").verdict
}
