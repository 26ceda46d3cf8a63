//! To which flow a packet belongs, and what it does to it.

use super::mode;
use crate::{
    bytes::Bytes,
    counters::Outcome,
    maps::{Address, V4_MAPPED},
    observation::flags,
    parse::{Error, Fragment, Headers, Kind, protocol},
};

/// TCP flags that make a packet matter in [`mode::CONTROL`].
const CONTROL_FLAGS: u8 = flags::SYN | flags::FIN | flags::RST;

/// What a packet does to its flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Sign {
    /// Nothing particular: TCP data, any UDP.
    #[default]
    None,
    /// Opens it: SYN, echo request.
    Open,
    /// Answers the opening: SYN-ACK, echo reply.
    Answer,
    /// FIN.
    Fin,
    /// Ends it: RST, or an ICMP error that says the destination cannot be reached.
    Reset,
}

impl Sign {
    #[inline(always)]
    const fn of_tcp(byte: u8) -> Self {
        if byte & flags::RST != 0 {
            Self::Reset
        } else if byte & flags::SYN != 0 {
            if byte & flags::ACK != 0 { Self::Answer } else { Self::Open }
        } else if byte & flags::FIN != 0 {
            Self::Fin
        } else {
            Self::None
        }
    }
}

/// One packet as a member of its flow, ends as its sender has them. Words and ports as loaded from the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Tuple {
    pub from: [u64; 2],
    pub to: [u64; 2],
    /// In network byte order; of ICMP echo the identifier, twice.
    pub from_port: u16,
    pub to_port: u16,
    pub protocol: u8,
    /// 4 or 6.
    pub family: u8,
    pub sign: Sign,
    /// 1 for an ICMP error about the flow: it makes no entry.
    pub quoted: u8,
}

/// A mapped IPv4 address as two words.
#[inline(always)]
const fn v4_words(address: u32) -> [u64; 2] {
    let [a, b, c, d] = address.to_ne_bytes();
    let [_, _, _, _, _, _, _, _, p0, p1, p2, p3] = V4_MAPPED;
    [0, u64::from_ne_bytes([p0, p1, p2, p3, a, b, c, d])]
}

/// An address as two words, as they are loaded.
#[inline(always)]
pub const fn words(address: &Address) -> [u64; 2] {
    let [a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7] = *address;
    [
        u64::from_ne_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
        u64::from_ne_bytes([b0, b1, b2, b3, b4, b5, b6, b7]),
    ]
}

/// What a first look makes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The tuple is filled.
    Tuple,
    /// Not of interest in this mode, or no protocol that has flows.
    Ignore(Outcome),
    /// To this UDP port (network byte order), whose payload starts there: a tunnel, perhaps.
    Udp { port: u16, payload: usize },
}

/// The IP packet at `offset`, by its fixed header and without a loop: fragments are told, and what has options,
/// extension headers or a quote is [`Error::TooDeep`], for [`Tuple::fill`] to do.
#[inline(always)]
pub fn look<B: Bytes + ?Sized>(
    bytes: &B,
    family: u8,
    offset: usize,
    mode: u32,
    into: &mut Tuple,
) -> Result<Seen, Error> {
    let (next, transport) = if family == 4 {
        let [first, _, _, _, _, _, f0, f1, _, next] = bytes.load::<10>(offset).ok_or(Error::TooDeep)?;
        if first != 0x45 {
            return Err(Error::TooDeep);
        }
        if u16::from_be_bytes([f0, f1]) & 0x1fff != 0 {
            return Ok(Seen::Ignore(Outcome::IgnoredFragment));
        }
        (next, offset + 20)
    } else {
        let [first, _, _, _, _, _, next, _] = bytes.load::<8>(offset).ok_or(Error::TooDeep)?;
        if first >> 4 != 6 {
            return Err(Error::TooDeep);
        }
        (next, offset + 40)
    };
    let ports;
    let sign;
    match (next, family) {
        (protocol::TCP, _) => {
            let [s0, s1, d0, d1, _, _, _, _, _, _, _, _, _, byte] =
                bytes.load::<14>(transport).ok_or(Error::TooDeep)?;
            if mode == mode::CONTROL && byte & CONTROL_FLAGS == 0 {
                return Ok(Seen::Ignore(Outcome::IgnoredForeign));
            }
            sign = Sign::of_tcp(byte);
            ports = [u16::from_ne_bytes([s0, s1]), u16::from_ne_bytes([d0, d1])];
        }
        (protocol::UDP, _) => {
            let [s0, s1, d0, d1, _, _, _, _] = bytes.load::<8>(transport).ok_or(Error::TooDeep)?;
            sign = Sign::None;
            ports = [u16::from_ne_bytes([s0, s1]), u16::from_ne_bytes([d0, d1])];
        }
        (protocol::ICMP, 4) | (protocol::ICMPV6, 6) => {
            let [kind, _, _, _, i0, i1, _, _] = bytes.load::<8>(transport).ok_or(Error::TooDeep)?;
            sign = match (echo(kind, family), unreachable(kind, family)) {
                (Sign::None, true) => return Err(Error::TooDeep),
                (Sign::None, false) => return Ok(Seen::Ignore(Outcome::IgnoredForeign)),
                (sign, _) => sign,
            };
            ports = [u16::from_ne_bytes([i0, i1]); 2];
        }
        // A header before the transport's, by the list of IANA that `parse` follows.
        (0 | 43 | 44 | 51 | 60 | 135, 6) => return Err(Error::TooDeep),
        _ => return Ok(Seen::Ignore(Outcome::IgnoredForeign)),
    }
    if family == 4 {
        let [both] = bytes.words::<1>(offset + 12).ok_or(Error::TooDeep)?;
        let [s0, s1, s2, s3, d0, d1, d2, d3] = both.to_ne_bytes();
        into.from = v4_words(u32::from_ne_bytes([s0, s1, s2, s3]));
        into.to = v4_words(u32::from_ne_bytes([d0, d1, d2, d3]));
    } else {
        let [s0, s1, d0, d1] = bytes.words::<4>(offset + 8).ok_or(Error::TooDeep)?;
        into.from = [s0, s1];
        into.to = [d0, d1];
    }
    let [from_port, to_port] = ports;
    into.from_port = from_port;
    into.to_port = to_port;
    into.protocol = next;
    into.family = family;
    into.sign = sign;
    into.quoted = 0;
    Ok(if next == protocol::UDP { Seen::Udp { port: to_port, payload: transport + 8 } } else { Seen::Tuple })
}

/// Echo request and reply (RFC 792, RFC 4443).
#[inline(always)]
const fn echo(icmp_type: u8, family: u8) -> Sign {
    match (icmp_type, family) {
        (8, 4) | (128, 6) => Sign::Open,
        (0, 4) | (129, 6) => Sign::Answer,
        _ => Sign::None,
    }
}

/// Destination unreachable.
#[inline(always)]
const fn unreachable(icmp_type: u8, family: u8) -> bool {
    matches!((icmp_type, family), (3, 4) | (1, 6))
}

impl Tuple {
    /// From whole headers.
    #[inline(always)]
    pub fn fill(&mut self, headers: &Headers, mode: u32) -> Seen {
        let Headers { network, transport, .. } = headers;
        if matches!(network.fragment, Fragment::Later) {
            return Seen::Ignore(Outcome::IgnoredFragment);
        }
        self.from = words(&network.source);
        self.to = words(&network.destination);
        self.from_port = transport.source_port.to_be();
        self.to_port = transport.destination_port.to_be();
        self.protocol = network.protocol;
        self.family = network.family;
        self.sign = Sign::None;
        self.quoted = 0;
        match transport.kind {
            Kind::Tcp => {
                if mode == mode::CONTROL && transport.tcp.flags & CONTROL_FLAGS == 0 {
                    return Seen::Ignore(Outcome::IgnoredForeign);
                }
                self.sign = Sign::of_tcp(transport.tcp.flags);
                Seen::Tuple
            }
            Kind::Udp => Seen::Udp { port: self.to_port, payload: network.transport + 8 },
            Kind::Echo => {
                self.sign = echo(transport.error.icmp_type, network.family);
                Seen::Tuple
            }
            Kind::Error => {
                let quote = &transport.error;
                let ported = matches!(quote.network.protocol, protocol::TCP | protocol::UDP);
                // A too long packet (code 4, RFC 1191) was refused, its flow was not.
                if !ported
                    || quote.source_port == 0
                    || !unreachable(quote.icmp_type, network.family)
                    || (network.family == 4 && quote.icmp_code == 4)
                {
                    return Seen::Ignore(Outcome::IgnoredForeign);
                }
                // It speaks for the far end of what it quotes.
                self.from = words(&quote.network.destination);
                self.to = words(&quote.network.source);
                self.from_port = quote.destination_port.to_be();
                self.to_port = quote.source_port.to_be();
                self.protocol = quote.network.protocol;
                self.sign = Sign::Reset;
                self.quoted = 1;
                Seen::Tuple
            }
            Kind::Other => Seen::Ignore(Outcome::IgnoredForeign),
        }
    }
}
