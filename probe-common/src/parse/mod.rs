//! The one packet parser. [`headers`] parses everything; a packet that is nobody's probe costs only the first look:
//! [`link()`] and its two addresses ([`v4_addresses`], [`v6_addresses`]).
//!
//! It runs in XDP, in TC and over captures. Loops are bounded for the BPF verifier, and the bounds hold everywhere:
//! the same bytes give the same result wherever they are parsed.

mod icmp;
mod link;
mod network;
mod tcp;

pub use icmp::Quote;
pub use link::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, Link, LinkLayer, TAG, link};
use network::network;
pub use network::{Fragment, Network, v4_addresses, v6_addresses};
pub use tcp::{OPTIONS, Options, Tcp};

use crate::{bytes::Bytes, counters::Outcome};

/// IANA protocol numbers.
pub mod protocol {
    pub const ICMP: u8 = 1;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    pub const ICMPV6: u8 = 58;
}

/// Why a packet could not be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Neither IPv4 nor IPv6.
    NotIp,
    /// A header is cut short, or a length in it is impossible.
    Malformed,
    /// More VLAN tags or extension headers than the parser follows, or headers beyond the readable window.
    TooDeep,
}

impl Error {
    /// The counter that this ends in.
    #[inline(always)]
    pub const fn outcome(self) -> Outcome {
        match self {
            Self::NotIp => Outcome::IgnoredNotIp,
            Self::Malformed => Outcome::FailedMalformed,
            Self::TooDeep => Outcome::FailedTooDeep,
        }
    }
}

/// What the IP header carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Anything else; the first, so that zeroed memory is the default.
    #[default]
    Other,
    Tcp,
    Udp,
    /// An ICMP or ICMPv6 echo request or reply: its identifier is both ports, its type is in `error`.
    Echo,
    /// An ICMP or ICMPv6 error.
    Error,
}

/// The transport header, parsed. Flat, and filled in place: the BPF stack has room for little.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transport {
    pub kind: Kind,
    /// Ports of TCP and UDP; the identifier of an echo.
    pub source_port: u16,
    pub destination_port: u16,
    pub tcp: Tcp,
    pub error: Quote,
}

/// A packet's headers, parsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    pub link: Link,
    pub network: Network,
    pub transport: Transport,
}

/// Parses everything into `into`, which starts out as `Headers::default()`. A later fragment has no transport header:
/// its `transport` stays [`Kind::Other`].
#[inline(always)]
pub fn headers<B: Bytes + ?Sized>(bytes: &B, layer: LinkLayer, into: &mut Headers) -> Result<(), Error> {
    link(bytes, layer, &mut into.link)?;
    network(bytes, into.link.ethertype, into.link.offset, &mut into.network)?;
    if matches!(into.network.fragment, Fragment::Later) {
        return Ok(());
    }
    transport(bytes, &into.network, &mut into.transport)
}

/// Reads `N` bytes or says why not.
#[inline(always)]
fn need<const N: usize, B: Bytes + ?Sized>(bytes: &B, offset: usize) -> Result<[u8; N], Error> {
    bytes.load::<N>(offset).ok_or_else(|| missing(bytes, offset + N))
}

/// Reads `N` words of 8 bytes or says why not.
#[inline(always)]
fn need_words<const N: usize, B: Bytes + ?Sized>(bytes: &B, offset: usize) -> Result<[u64; N], Error> {
    bytes.words::<N>(offset).ok_or_else(|| missing(bytes, offset + 8 * N))
}

/// Why bytes up to `end` are not there: past the packet's end, or past what can be read of it.
#[inline(always)]
fn missing<B: Bytes + ?Sized>(bytes: &B, end: usize) -> Error {
    if end > bytes.length() { Error::Malformed } else { Error::TooDeep }
}

/// The transport header behind `network`.
#[inline(always)]
fn transport<B: Bytes + ?Sized>(bytes: &B, network: &Network, into: &mut Transport) -> Result<(), Error> {
    match (network.protocol, network.family) {
        (protocol::TCP, _) => tcp::parse(bytes, network, into),
        (protocol::UDP, _) => {
            if network.end < network.transport + 8 {
                return Err(Error::Malformed);
            }
            let [s0, s1, d0, d1] = need::<4, B>(bytes, network.transport)?;
            into.kind = Kind::Udp;
            into.source_port = u16::from_be_bytes([s0, s1]);
            into.destination_port = u16::from_be_bytes([d0, d1]);
            Ok(())
        }
        (protocol::ICMP, 4) | (protocol::ICMPV6, 6) => icmp::parse(bytes, network, into),
        _ => Ok(()),
    }
}
