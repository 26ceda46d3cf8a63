//! Tunnels whose inner flows are followed where their packets pass. The kinds are the value of
//! [`crate::maps::Tunnel::kind`].

use crate::{bytes::Bytes, parse};

/// RFC 7348.
pub const VXLAN: u16 = 1;
/// RFC 8926.
pub const GENEVE: u16 = 2;
/// A device of this host carries it: its flows are seen there, and here nothing is.
pub const DEVICE: u16 = 3;
/// Any network identifier.
pub const ANY: u32 = u32::MAX;

/// What a tunnel's payload holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    /// Where the inner frame, or packet, starts.
    pub offset: usize,
    /// Whether an Ethernet header comes first.
    pub ethernet: bool,
    pub vni: u32,
}

/// The header of VXLAN (RFC 7348, 5) or GENEVE (RFC 8926, 3.4) at `offset`; `None` when it is none of that kind or
/// holds neither Ethernet nor IP.
#[inline(always)]
pub fn inside<B: Bytes + ?Sized>(bytes: &B, kind: u16, offset: usize) -> Option<Inside> {
    let [first, _, p0, p1, v0, v1, v2, _] = bytes.load::<8>(offset)?;
    let vni = u32::from_be_bytes([0, v0, v1, v2]);
    if kind == VXLAN {
        // The I flag says that the identifier is valid.
        return if first & 0x08 == 0 {
            None
        } else {
            Some(Inside { offset: offset + 8, ethernet: true, vni })
        };
    }
    if first >> 6 != 0 {
        return None;
    }
    let ethernet = match u16::from_be_bytes([p0, p1]) {
        0x6558 => true,
        parse::ETHERTYPE_IPV4 | parse::ETHERTYPE_IPV6 => false,
        _ => return None,
    };
    Some(Inside { offset: offset + 8 + usize::from(first & 0x3f) * 4, ethernet, vni })
}
