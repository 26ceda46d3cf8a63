//! IPv4 (RFC 791) and IPv6 with extension headers (RFC 8200).

use super::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, Error, need};
use crate::{
    bytes::Bytes,
    maps::{Address, map_v4},
};

/// Extension headers followed before giving up: real packets have at most two or three.
const EXTENSIONS: usize = 6;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;
const MOBILITY: u8 = 135;

/// Which part of a datagram this is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fragment {
    /// A whole datagram.
    #[default]
    Whole,
    /// The first fragment: it has the transport header.
    First,
    /// A later one: it has none.
    Later,
}

/// The IP header, parsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// 4 or 6.
    pub family: u8,
    pub source: Address,
    pub destination: Address,
    /// Protocol of the transport header.
    pub protocol: u8,
    /// Where the transport header starts.
    pub transport: usize,
    /// Where the datagram ends by its own length, which may be before the frame does (padding).
    pub end: usize,
    pub fragment: Fragment,
}

/// The two addresses of an IPv4 header, in network byte order as loaded: all that a first look needs.
#[inline(always)]
pub fn v4_addresses<B: Bytes + ?Sized>(bytes: &B, offset: usize) -> Result<(u32, u32), Error> {
    let [s0, s1, s2, s3, d0, d1, d2, d3] = need::<8, B>(bytes, offset + 12)?;
    Ok((u32::from_ne_bytes([s0, s1, s2, s3]), u32::from_ne_bytes([d0, d1, d2, d3])))
}

/// The two addresses of an IPv6 header.
#[inline(always)]
pub fn v6_addresses<B: Bytes + ?Sized>(bytes: &B, offset: usize) -> Result<(Address, Address), Error> {
    Ok((need::<16, B>(bytes, offset + 8)?, need::<16, B>(bytes, offset + 24)?))
}

/// Parses the IP header at `offset`.
#[inline(always)]
pub(super) fn network<B: Bytes + ?Sized>(
    bytes: &B,
    ethertype: u16,
    offset: usize,
    into: &mut Network,
) -> Result<(), Error> {
    match ethertype {
        ETHERTYPE_IPV4 => v4(bytes, offset, false, into)?,
        ETHERTYPE_IPV6 => v6(bytes, offset, false, into)?,
        _ => return Err(Error::NotIp),
    }
    Ok(())
}

/// Parses an IP header that an ICMP error quotes: the packet it belongs to may be longer than what is left of it.
#[inline(always)]
pub(super) fn quoted<B: Bytes + ?Sized>(
    bytes: &B,
    family: u8,
    offset: usize,
    into: &mut Network,
) -> Result<(), Error> {
    if family == 4 { v4(bytes, offset, true, into) } else { v6(bytes, offset, true, into) }
}

#[inline(always)]
fn v4<B: Bytes + ?Sized>(bytes: &B, offset: usize, quoted: bool, into: &mut Network) -> Result<(), Error> {
    let header = need::<20, B>(bytes, offset)?;
    let length = usize::from(header[0] & 0x0f) * 4;
    if header[0] >> 4 != 4 || length < 20 {
        return Err(Error::Malformed);
    }
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    // 0: a GSO packet of more than 64 KiB has no length of its own (BIG TCP, Linux 6.3).
    let end = if total == 0 { bytes.length() } else { offset + total };
    if end < offset + length || (!quoted && end > bytes.length()) {
        return Err(Error::Malformed);
    }
    let fragment = u16::from_be_bytes([header[6], header[7]]);
    into.family = 4;
    into.source = map_v4([header[12], header[13], header[14], header[15]]);
    into.destination = map_v4([header[16], header[17], header[18], header[19]]);
    into.protocol = header[9];
    into.transport = offset + length;
    into.end = end;
    into.fragment = match (fragment & 0x1fff, fragment & 0x2000) {
        (0, 0) => Fragment::Whole,
        (0, _) => Fragment::First,
        _ => Fragment::Later,
    };
    Ok(())
}

#[inline(always)]
fn v6<B: Bytes + ?Sized>(bytes: &B, offset: usize, quoted: bool, into: &mut Network) -> Result<(), Error> {
    let [b0, _, _, _, l0, l1, next, _hops] = need::<8, B>(bytes, offset)?;
    if b0 >> 4 != 6 {
        return Err(Error::Malformed);
    }
    into.source = need::<16, B>(bytes, offset + 8)?;
    into.destination = need::<16, B>(bytes, offset + 24)?;
    let payload = usize::from(u16::from_be_bytes([l0, l1]));
    // 0: a jumbogram (RFC 2675) or a BIG TCP packet (Linux 5.19): the frame says how long it is.
    let end = if payload == 0 { bytes.length() } else { offset + 40 + payload };
    if !quoted && end > bytes.length() {
        return Err(Error::Malformed);
    }
    into.family = 6;
    into.end = end;
    into.fragment = Fragment::Whole;
    extensions(bytes, next, offset + 40, into)
}

/// Follows extension headers up to the transport header.
#[inline(always)]
fn extensions<B: Bytes + ?Sized>(
    bytes: &B,
    first: u8,
    offset: usize,
    into: &mut Network,
) -> Result<(), Error> {
    let mut next = first;
    let mut offset = offset;
    // One more turn than there may be extension headers: the last one finds the transport header.
    for _ in 0..=EXTENSIONS {
        into.protocol = next;
        offset = through_memory(&mut into.transport, offset);
        let [following, words, o0, o1] = match next {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS | MOBILITY | AUTHENTICATION | FRAGMENT => {
                need::<4, B>(bytes, offset)?
            }
            _ => return Ok(()),
        };
        offset += match next {
            FRAGMENT => {
                let field = u16::from_be_bytes([o0, o1]);
                if field & 0xfff8 != 0 {
                    into.fragment = Fragment::Later;
                    into.protocol = following;
                    return Ok(());
                }
                if field & 1 != 0 {
                    into.fragment = Fragment::First;
                }
                8
            }
            // RFC 4302: in 4-byte words, less two.
            AUTHENTICATION => usize::from(words) * 4 + 8,
            _ => usize::from(words) * 8 + 8,
        };
        if offset > into.end {
            return Err(Error::Malformed);
        }
        next = following;
    }
    Err(Error::TooDeep)
}

/// Passes a number through memory. In BPF that memory is a map's, and the verifier forgets what it knew of the number:
/// without that, every way through the extension headers is a state of its own, and there are thousands.
#[inline(always)]
fn through_memory(place: &mut usize, value: usize) -> usize {
    // SAFETY: a valid, aligned, exclusively borrowed place, written and read back.
    unsafe {
        core::ptr::from_mut(place).write_volatile(value);
        core::ptr::from_mut(place).read_volatile()
    }
}
