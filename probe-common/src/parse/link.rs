//! Ethernet, 802.1Q and 802.1ad tags, and devices without a link-layer header.

use super::{Error, need};
use crate::bytes::Bytes;

pub const ETHERTYPE_IPV4: u16 = 0x0800;
pub const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_QINQ: u16 = 0x88a8;
/// Set in a stored tag so that VLAN 0 (a priority tag) differs from no tag.
const TAG_PRESENT: u16 = 0x1000;

/// What a device puts in front of the IP header. The device says so; the bytes are never guessed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkLayer {
    /// A 14-byte Ethernet header.
    Ethernet,
    /// Nothing (tun, ipip, wireguard).
    Raw,
}

/// The link layer, parsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Where the next header starts.
    pub offset: usize,
    pub ethertype: u16,
    /// VLAN tags, outer first: VLAN id with bit 12 set, 0 for none.
    pub vlan: [u16; 2],
    pub destination_mac: [u8; 6],
    pub source_mac: [u8; 6],
}

impl Link {
    /// Adds a tag that hardware or the kernel took out of the frame: it was the outermost.
    #[inline(always)]
    pub fn push_outer_tag(&mut self, tci: u16) {
        self.vlan = [tci & 0x0fff | TAG_PRESENT, self.vlan[0]];
    }
}

/// Parses the link layer, up to two VLAN tags included (IEEE 802.1Q, 802.1ad).
#[inline(always)]
pub fn link<B: Bytes + ?Sized>(bytes: &B, layer: LinkLayer, into: &mut Link) -> Result<(), Error> {
    match layer {
        LinkLayer::Ethernet => ethernet(bytes, into),
        LinkLayer::Raw => raw(bytes, into),
    }
}

#[inline(always)]
fn raw<B: Bytes + ?Sized>(bytes: &B, into: &mut Link) -> Result<(), Error> {
    // Two bytes: a bound of one would reach the BPF verifier as `data >= data_end`, which proves nothing to it.
    let [first, _] = need::<2, B>(bytes, 0)?;
    into.offset = 0;
    into.ethertype = match first >> 4 {
        4 => ETHERTYPE_IPV4,
        6 => ETHERTYPE_IPV6,
        _ => return Err(Error::NotIp),
    };
    Ok(())
}

#[inline(always)]
fn ethernet<B: Bytes + ?Sized>(bytes: &B, into: &mut Link) -> Result<(), Error> {
    let header = need::<14, B>(bytes, 0)?;
    let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = header;
    into.destination_mac = [d0, d1, d2, d3, d4, d5];
    into.source_mac = [s0, s1, s2, s3, s4, s5];
    into.offset = 14;
    into.ethertype = u16::from_be_bytes([t0, t1]);
    // Written out, not looped: the verifier sees constant offsets.
    if is_tag(into.ethertype) {
        let [c0, c1, t0, t1] = need::<4, B>(bytes, 14)?;
        into.vlan[0] = u16::from_be_bytes([c0, c1]) & 0x0fff | TAG_PRESENT;
        into.ethertype = u16::from_be_bytes([t0, t1]);
        into.offset = 18;
        if is_tag(into.ethertype) {
            let [c0, c1, t0, t1] = need::<4, B>(bytes, 18)?;
            into.vlan[1] = u16::from_be_bytes([c0, c1]) & 0x0fff | TAG_PRESENT;
            into.ethertype = u16::from_be_bytes([t0, t1]);
            into.offset = 22;
            if is_tag(into.ethertype) {
                return Err(Error::TooDeep);
            }
        }
    }
    Ok(())
}

#[inline(always)]
const fn is_tag(ethertype: u16) -> bool {
    ethertype == ETHERTYPE_VLAN || ethertype == ETHERTYPE_QINQ
}
