//! Frames, built and parsed with pnet. Received L4 checksums are not verified: with checksum offload, veth
//! delivers them half done.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use pnet::{
    packet::{
        Packet as _,
        arp::{ArpOperations, ArpPacket},
        ethernet::{EtherType, EtherTypes, EthernetPacket, MutableEthernetPacket},
        icmp::{IcmpPacket, IcmpTypes},
        icmpv6::{Icmpv6Packet, Icmpv6Types, ndp::NeighborSolicitPacket},
        ip::{IpNextHeaderProtocol, IpNextHeaderProtocols},
        ipv4::{self, Ipv4Flags, Ipv4Packet, MutableIpv4Packet},
        ipv6::{Ipv6Packet, MutableIpv6Packet},
        tcp::{self, MutableTcpPacket, TcpOption, TcpOptionNumbers, TcpOptionPacket, TcpPacket},
        udp::{self, MutableUdpPacket, UdpPacket},
    },
    util::MacAddr,
};

pub use pnet::packet::tcp::TcpFlags;

pub type Mac = [u8; 6];

/// The MAC of Azure's virtual gateway, on every NIC (FACTS 4.1).
pub const FABRIC_MAC: Mac = [0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc];
/// Where Azure's probes come from.
pub const PROBE_V4: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);
pub const PROBE_V6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0x1234, 0x5678, 0x9abc);

/// Windows hosts start at 128.
const TTL: u8 = 128;

/// A TCP segment with its addresses.
#[derive(Clone, Debug)]
pub struct Segment {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub sequence: u32,
    pub acknowledgement: u32,
    /// Bits of [`TcpFlags`].
    pub flags: u8,
    pub window: u16,
    pub options: Vec<TcpOption>,
    pub payload: Vec<u8>,
}

impl Segment {
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// How far the segment moves the sequence number.
    pub fn length(&self) -> u32 {
        self.payload.len() as u32 + u32::from(self.has(TcpFlags::SYN)) + u32::from(self.has(TcpFlags::FIN))
    }

    /// The peer's timestamp value, if the option is there.
    pub fn timestamp(&self) -> Option<u32> {
        let option = self.options.iter().find(|option| option.number == TcpOptionNumbers::TIMESTAMPS)?;
        Some(u32::from_be_bytes(option.data.get(..4)?.try_into().ok()?))
    }

    /// The complete Ethernet frame.
    pub fn frame(&self, from: Mac, to: Mac) -> Vec<u8> {
        ip_frame(from, to, self.source.ip(), self.destination.ip(), IpNextHeaderProtocols::Tcp, &self.bytes())
    }

    fn bytes(&self) -> Vec<u8> {
        let options: usize = self.options.iter().map(TcpOptionPacket::packet_size).sum();
        let header = 20 + options.next_multiple_of(4);
        let mut bytes = vec![0; header + self.payload.len()];
        bytes[header..].copy_from_slice(&self.payload);
        if let Some(mut packet) = MutableTcpPacket::new(&mut bytes) {
            packet.set_source(self.source.port());
            packet.set_destination(self.destination.port());
            packet.set_sequence(self.sequence);
            packet.set_acknowledgement(self.acknowledgement);
            packet.set_data_offset((header / 4) as u8);
            packet.set_flags(self.flags);
            packet.set_window(self.window);
            packet.set_options(&self.options);
            let sum = match (self.source.ip(), self.destination.ip()) {
                (IpAddr::V4(from), IpAddr::V4(to)) => tcp::ipv4_checksum(&packet.to_immutable(), &from, &to),
                (IpAddr::V6(from), IpAddr::V6(to)) => tcp::ipv6_checksum(&packet.to_immutable(), &from, &to),
                _ => 0,
            };
            packet.set_checksum(sum);
        }
        bytes
    }
}

/// A UDP datagram with its addresses.
#[derive(Clone, Debug)]
pub struct Datagram {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub payload: Vec<u8>,
}

impl Datagram {
    /// The complete Ethernet frame.
    pub fn frame(&self, from: Mac, to: Mac) -> Vec<u8> {
        let mut bytes = vec![0; 8 + self.payload.len()];
        bytes[8..].copy_from_slice(&self.payload);
        if let Some(mut packet) = MutableUdpPacket::new(&mut bytes) {
            packet.set_source(self.source.port());
            packet.set_destination(self.destination.port());
            packet.set_length((8 + self.payload.len()) as u16);
            let sum = match (self.source.ip(), self.destination.ip()) {
                (IpAddr::V4(from), IpAddr::V4(to)) => udp::ipv4_checksum(&packet.to_immutable(), &from, &to),
                (IpAddr::V6(from), IpAddr::V6(to)) => udp::ipv6_checksum(&packet.to_immutable(), &from, &to),
                _ => 0,
            };
            packet.set_checksum(sum);
        }
        ip_frame(from, to, self.source.ip(), self.destination.ip(), IpNextHeaderProtocols::Udp, &bytes)
    }
}

/// An Ethernet frame around any IP payload. Addresses of mixed families give an empty frame.
pub fn ip_frame(
    from: Mac,
    to: Mac,
    source: IpAddr,
    destination: IpAddr,
    protocol: IpNextHeaderProtocol,
    payload: &[u8],
) -> Vec<u8> {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut bytes = vec![0; 20 + payload.len()];
            bytes[20..].copy_from_slice(payload);
            if let Some(mut packet) = MutableIpv4Packet::new(&mut bytes) {
                packet.set_version(4);
                packet.set_header_length(5);
                packet.set_total_length((20 + payload.len()) as u16);
                packet.set_flags(Ipv4Flags::DontFragment);
                packet.set_ttl(TTL);
                packet.set_next_level_protocol(protocol);
                packet.set_source(source);
                packet.set_destination(destination);
                let sum = ipv4::checksum(&packet.to_immutable());
                packet.set_checksum(sum);
            }
            ethernet(from, to, EtherTypes::Ipv4, &bytes)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let mut bytes = vec![0; 40 + payload.len()];
            bytes[40..].copy_from_slice(payload);
            if let Some(mut packet) = MutableIpv6Packet::new(&mut bytes) {
                packet.set_version(6);
                packet.set_payload_length(payload.len() as u16);
                // Neighbour discovery is ignored with any other hop limit (RFC 4861, 6.1).
                packet.set_hop_limit(if protocol == IpNextHeaderProtocols::Icmpv6 { 255 } else { TTL });
                packet.set_next_header(protocol);
                packet.set_source(source);
                packet.set_destination(destination);
            }
            ethernet(from, to, EtherTypes::Ipv6, &bytes)
        }
        _ => Vec::new(),
    }
}

/// An Ethernet frame.
pub fn ethernet(from: Mac, to: Mac, kind: EtherType, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 14 + payload.len()];
    bytes[14..].copy_from_slice(payload);
    if let Some(mut frame) = MutableEthernetPacket::new(&mut bytes) {
        frame.set_source(MacAddr::from(from));
        frame.set_destination(MacAddr::from(to));
        frame.set_ethertype(kind);
    }
    bytes
}

/// What a received frame is, as far as the fabric cares.
#[derive(Clone, Debug)]
pub enum Packet {
    ArpRequest {
        mac: Mac,
        sender: Ipv4Addr,
        target: Ipv4Addr,
    },
    NeighbourSolicitation {
        mac: Mac,
        sender: Ipv6Addr,
        target: Ipv6Addr,
    },
    Tcp(Segment),
    Udp(Datagram),
    /// An ICMP error; `quoted` is (source, destination) of the packet that it is about.
    IcmpError {
        sender: IpAddr,
        kind: u8,
        code: u8,
        quoted: (SocketAddr, SocketAddr),
    },
    Other,
}

/// Reads a frame; whatever is unknown or broken is [`Packet::Other`].
pub fn parse(frame: &[u8]) -> Packet {
    let parsed = EthernetPacket::new(frame).and_then(|frame| match frame.get_ethertype() {
        EtherTypes::Arp => arp(frame.payload()),
        EtherTypes::Ipv4 => inet(frame.payload()),
        EtherTypes::Ipv6 => inet6(frame.payload(), mac(frame.get_source())),
        _ => None,
    });
    parsed.unwrap_or(Packet::Other)
}

fn mac(mac: MacAddr) -> Mac {
    mac.octets()
}

fn arp(bytes: &[u8]) -> Option<Packet> {
    let arp = ArpPacket::new(bytes)?;
    (arp.get_operation() == ArpOperations::Request).then(|| Packet::ArpRequest {
        mac: mac(arp.get_sender_hw_addr()),
        sender: arp.get_sender_proto_addr(),
        target: arp.get_target_proto_addr(),
    })
}

fn inet(bytes: &[u8]) -> Option<Packet> {
    let packet = Ipv4Packet::new(bytes)?;
    if packet.get_header_length() < 5 || packet.get_fragment_offset() != 0 {
        return None;
    }
    let (from, to) = (IpAddr::V4(packet.get_source()), IpAddr::V4(packet.get_destination()));
    let payload = packet.payload();
    if packet.get_next_level_protocol() != IpNextHeaderProtocols::Icmp {
        return transport(from, to, packet.get_next_level_protocol(), payload);
    }
    let icmp = IcmpPacket::new(payload)?;
    let kind = icmp.get_icmp_type();
    if kind != IcmpTypes::DestinationUnreachable && kind != IcmpTypes::TimeExceeded {
        return None;
    }
    let inner = Ipv4Packet::new(payload.get(8..)?)?;
    let ends = (IpAddr::V4(inner.get_source()), IpAddr::V4(inner.get_destination()));
    let quoted = quoted(ends, payload.get(8 + usize::from(inner.get_header_length()) * 4..)?)?;
    Some(Packet::IcmpError { sender: from, kind: kind.0, code: icmp.get_icmp_code().0, quoted })
}

fn inet6(bytes: &[u8], source_mac: Mac) -> Option<Packet> {
    let packet = Ipv6Packet::new(bytes)?;
    let sender = packet.get_source();
    let (from, to) = (IpAddr::V6(sender), IpAddr::V6(packet.get_destination()));
    let payload = packet.payload();
    if packet.get_next_header() != IpNextHeaderProtocols::Icmpv6 {
        return transport(from, to, packet.get_next_header(), payload);
    }
    let icmp = Icmpv6Packet::new(payload)?;
    match icmp.get_icmpv6_type() {
        Icmpv6Types::NeighborSolicit => {
            let target = NeighborSolicitPacket::new(payload)?.get_target_addr();
            Some(Packet::NeighbourSolicitation { mac: source_mac, sender, target })
        }
        kind if kind.0 < 128 => {
            let inner = Ipv6Packet::new(payload.get(8..)?)?;
            let ends = (IpAddr::V6(inner.get_source()), IpAddr::V6(inner.get_destination()));
            let quoted = quoted(ends, payload.get(48..)?)?;
            Some(Packet::IcmpError { sender: from, kind: kind.0, code: icmp.get_icmpv6_code().0, quoted })
        }
        _ => None,
    }
}

fn transport(from: IpAddr, to: IpAddr, protocol: IpNextHeaderProtocol, bytes: &[u8]) -> Option<Packet> {
    if protocol == IpNextHeaderProtocols::Udp {
        let udp = UdpPacket::new(bytes)?;
        return Some(Packet::Udp(Datagram {
            source: SocketAddr::new(from, udp.get_source()),
            destination: SocketAddr::new(to, udp.get_destination()),
            payload: udp.payload().to_vec(),
        }));
    }
    if protocol != IpNextHeaderProtocols::Tcp {
        return None;
    }
    let tcp = TcpPacket::new(bytes)?;
    let header = usize::from(tcp.get_data_offset()) * 4;
    if header < 20 {
        return None;
    }
    Some(Packet::Tcp(Segment {
        source: SocketAddr::new(from, tcp.get_source()),
        destination: SocketAddr::new(to, tcp.get_destination()),
        sequence: tcp.get_sequence(),
        acknowledgement: tcp.get_acknowledgement(),
        flags: tcp.get_flags(),
        window: tcp.get_window(),
        options: tcp.get_options(),
        payload: bytes.get(header..)?.to_vec(),
    }))
}

fn quoted(ends: (IpAddr, IpAddr), transport: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let port = |at: usize| Some(u16::from_be_bytes(transport.get(at..at + 2)?.try_into().ok()?));
    Some((SocketAddr::new(ends.0, port(0)?), SocketAddr::new(ends.1, port(2)?)))
}
