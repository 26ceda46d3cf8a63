//! What the fabric does with frames and time; no I/O.

use std::{net::IpAddr, time::Instant};

use super::{
    fabric::Config,
    neighbour, platform,
    probe_log::AttemptLog,
    prober::{Probe, Prober},
    recorder::Recorder,
    wire::{self, FABRIC_MAC, PROBE_V4, Packet, Segment, TcpFlags},
};

/// First of the ports that probes come from: Windows' ephemeral range.
const FIRST_PORT: u16 = 49152;

/// What came in and was nobody's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strays {
    /// SYN-ACKs to probes that this NIC's host did not send: misrouted replies.
    pub syn_acks: usize,
    /// RSTs likewise.
    pub resets: usize,
    /// Other TCP segments.
    pub segments: usize,
    /// Packets of the VM's own to the platform.
    pub platform: usize,
    /// UDP and anything else with an IP header.
    pub others: usize,
}

pub(super) struct Engine {
    pub(super) config: Config,
    pub(super) probers: Vec<Prober>,
    pub(super) strays: Strays,
    pub(super) recorder: Recorder,
    next_id: u64,
    next_port: u16,
}

impl Engine {
    pub(super) fn new(config: Config) -> Self {
        // Several fabrics start at different ports, so that a stray is never another fabric's own probe.
        let next_port = FIRST_PORT + u16::from(config.nic_mac[5]) * 1000 % 16000;
        Self {
            config,
            probers: Vec::new(),
            strays: Strays::default(),
            recorder: Recorder::default(),
            next_id: 0,
            next_port,
        }
    }

    pub(super) fn add(&mut self, probe: Probe, now: Instant) -> u64 {
        self.next_id += 1;
        self.probers.push(Prober::new(self.next_id, probe, now));
        self.next_id
    }

    pub(super) fn prober(&self, id: u64) -> Option<&Prober> {
        self.probers.iter().find(|prober| prober.id == id)
    }

    pub(super) fn log(&self, id: u64) -> Vec<AttemptLog> {
        self.prober(id).map(Prober::log).unwrap_or_default()
    }

    /// Does what is due; frames to send go to `out`.
    pub(super) fn tick(&mut self, now: Instant, out: &mut Vec<Vec<u8>>) {
        let mut segments = Vec::new();
        let next_port = &mut self.next_port;
        let mut port = || {
            let port = *next_port;
            *next_port = next_port.checked_add(1).unwrap_or(FIRST_PORT);
            port
        };
        for prober in &mut self.probers {
            prober.tick(now, &mut port, &mut segments);
        }
        self.frames(&segments, out);
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.probers.iter().filter_map(Prober::deadline).min()
    }

    /// Takes a frame in.
    pub(super) fn frame(&mut self, frame: &[u8], now: Instant, out: &mut Vec<Vec<u8>>) {
        self.recorder.take(frame, false);
        match wire::parse(frame) {
            Packet::ArpRequest { mac, sender, target } => {
                // A gratuitous ARP asks for its sender's own address.
                if sender != target && self.claims(IpAddr::V4(target)) {
                    out.push(neighbour::arp_reply(mac, sender, target));
                }
            }
            Packet::NeighbourSolicitation { mac, sender, target } => {
                // From nowhere: duplicate address detection.
                if !sender.is_unspecified() && self.claims(IpAddr::V6(target)) {
                    out.push(neighbour::advertisement(mac, sender, target));
                }
            }
            Packet::Tcp(segment) => self.segment(&segment, now, out),
            Packet::Udp(datagram) => {
                let platform = datagram.destination.ip() == IpAddr::V4(PROBE_V4);
                if platform {
                    self.strays.platform += 1;
                } else {
                    self.strays.others += 1;
                }
                let answers = self.config.platform && (platform || platform::is_dhcp(&datagram));
                if let Some(answer) = platform::udp(&datagram).filter(|_| answers) {
                    out.push(answer.frame(FABRIC_MAC, self.config.nic_mac));
                }
            }
            Packet::IcmpError { kind, code, quoted, .. } => {
                let known = self.probers.iter_mut().any(|prober| prober.icmp(quoted, kind, code, now));
                self.strays.others += usize::from(!known);
            }
            Packet::Other => {}
        }
    }

    fn claims(&self, target: IpAddr) -> bool {
        self.config.answers.claims(target, &self.config.own)
    }

    fn segment(&mut self, segment: &Segment, now: Instant, out: &mut Vec<Vec<u8>>) {
        let mut segments = Vec::new();
        if self.probers.iter_mut().any(|prober| prober.segment(segment, now, &mut segments)) {
            return self.frames(&segments, out);
        }
        if segment.has(TcpFlags::SYN | TcpFlags::ACK) {
            self.strays.syn_acks += 1;
        } else if segment.has(TcpFlags::RST) {
            self.strays.resets += 1;
        } else if segment.destination.ip() == IpAddr::V4(PROBE_V4) {
            self.strays.platform += 1;
            if self.config.platform {
                segments.extend(platform::tcp(segment));
                self.frames(&segments, out);
            }
        } else {
            self.strays.segments += 1;
        }
    }

    fn frames(&self, segments: &[Segment], out: &mut Vec<Vec<u8>>) {
        out.extend(segments.iter().map(|segment| segment.frame(FABRIC_MAC, self.config.nic_mac)));
    }
}
