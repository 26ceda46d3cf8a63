//! A toy of the platform's services at 168.63.129.16: a wire server that answers every request with an empty 200, a DNS
//! server that returns every query as its answer, and a DHCP server that returns every request as its reply. Enough for
//! a VM's own traffic to be real.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::wire::{Datagram, PROBE_V4, Segment, TcpFlags};

/// Wire server, host plug-in, Network Watcher (FACTS 4.2).
const HTTP: [u16; 3] = [80, 32526, 8037];
const DNS: u16 = 53;
const DHCP_SERVER: u16 = 67;
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
/// Our initial sequence number: no state is kept between segments.
const SEQUENCE: u32 = 9000;

/// The answer to a segment that the VM sent.
pub(super) fn tcp(segment: &Segment) -> Option<Segment> {
    let port = segment.destination.port();
    if !(HTTP.contains(&port) || port == DNS) || segment.has(TcpFlags::RST) {
        return None;
    }
    let answer = |flags, sequence, payload: &[u8]| Segment {
        source: segment.destination,
        destination: segment.source,
        sequence,
        acknowledgement: segment.sequence.wrapping_add(segment.length()),
        flags,
        window: 65535,
        options: Vec::new(),
        payload: payload.to_vec(),
    };
    if segment.has(TcpFlags::SYN) {
        return Some(answer(TcpFlags::SYN | TcpFlags::ACK, SEQUENCE, &[]));
    }
    if !segment.payload.is_empty() {
        let flags = TcpFlags::PSH | TcpFlags::ACK | TcpFlags::FIN;
        // A DNS message over TCP has its length in front (RFC 1035, 4.2.2).
        let payload = if port == DNS { dns(&segment.payload, 2) } else { ANSWER.to_vec() };
        return Some(answer(flags, SEQUENCE + 1, &payload));
    }
    segment.has(TcpFlags::FIN).then(|| answer(TcpFlags::ACK, segment.acknowledgement, &[]))
}

/// The answer to a datagram.
pub(super) fn udp(datagram: &Datagram) -> Option<Datagram> {
    if is_dhcp(datagram) {
        return Some(dhcp(datagram));
    }
    (datagram.destination.port() == DNS).then(|| Datagram {
        source: datagram.destination,
        destination: datagram.source,
        payload: dns(&datagram.payload, 0),
    })
}

/// Whether it is for a DHCP server, the platform's or any.
pub(super) fn is_dhcp(datagram: &Datagram) -> bool {
    datagram.destination.port() == DHCP_SERVER
}

fn dns(query: &[u8], start: usize) -> Vec<u8> {
    let mut payload = query.to_vec();
    // QR: this is a response (RFC 1035, 4.1.1).
    if let Some(flags) = payload.get_mut(start + 2) {
        *flags |= 0x80;
    }
    payload
}

fn dhcp(request: &Datagram) -> Datagram {
    let mut payload = request.payload.clone();
    // BOOTREPLY (RFC 2131, 2).
    if let Some(operation) = payload.first_mut() {
        *operation = 2;
    }
    let client = request.source.ip();
    // A client without an address hears broadcasts only.
    let to = if client.is_unspecified() { IpAddr::V4(Ipv4Addr::BROADCAST) } else { client };
    Datagram {
        source: SocketAddr::new(IpAddr::V4(PROBE_V4), DHCP_SERVER),
        destination: SocketAddr::new(to, request.source.port()),
        payload,
    }
}
