//! A toy of the platform's services at 168.63.129.16: a wire server that answers every request with an empty 200, and
//! a DNS server that returns every query as its answer. Enough for a VM's own traffic to be real.

use std::net::SocketAddr;

use super::wire::{Datagram, Segment, TcpFlags};

const PORTS: [u16; 2] = [80, 32526];
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
/// Our initial sequence number: no state is kept between segments.
const SEQUENCE: u32 = 9000;

/// The answer to a segment that the VM sent.
pub(super) fn tcp(segment: &Segment) -> Option<Segment> {
    if !PORTS.contains(&segment.destination.port()) || segment.has(TcpFlags::RST) {
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
        return Some(answer(flags, SEQUENCE + 1, ANSWER));
    }
    segment.has(TcpFlags::FIN).then(|| answer(TcpFlags::ACK, segment.acknowledgement, &[]))
}

/// The answer to a datagram.
pub(super) fn udp(datagram: &Datagram) -> Option<Datagram> {
    let answers = |end: SocketAddr| end.port() == 53;
    if !answers(datagram.destination) {
        return None;
    }
    let mut payload = datagram.payload.clone();
    // QR: this is a response (RFC 1035, 4.1.1).
    if let Some(flags) = payload.get_mut(2) {
        *flags |= 0x80;
    }
    Some(Datagram { source: datagram.destination, destination: datagram.source, payload })
}
