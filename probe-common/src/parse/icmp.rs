//! ICMP (RFC 792) and ICMPv6 (RFC 4443) errors with the TCP tuple they quote.

use super::{Error, Fragment, Kind, Network, Transport, need, network, protocol};
use crate::bytes::Bytes;

/// The packet that an ICMP error is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quote {
    pub icmp_type: u8,
    pub icmp_code: u8,
    /// The quoted packet's IP header.
    pub network: Network,
    /// 0 when the quote is a later fragment or neither TCP nor UDP.
    pub source_port: u16,
    pub destination_port: u16,
    /// TCP sequence number; 0 when not TCP.
    pub sequence: u32,
}

#[inline(always)]
pub(super) fn parse<B: Bytes + ?Sized>(
    bytes: &B,
    outer: &Network,
    into: &mut Transport,
) -> Result<(), Error> {
    let start = outer.transport;
    if outer.end < start + 4 {
        return Err(Error::Malformed);
    }
    let [icmp_type, icmp_code] = need::<2, B>(bytes, start)?;
    let is_error = if outer.family == 4 {
        // Destination unreachable, source quench, redirect, time exceeded, parameter problem.
        matches!(icmp_type, 3 | 4 | 5 | 11 | 12)
    } else {
        // RFC 4443, 2.1: errors have the high bit clear.
        icmp_type < 128
    };
    if !is_error {
        // Echo reply and request.
        if matches!((icmp_type, outer.family), (0 | 8, 4) | (128 | 129, 6)) {
            if outer.end < start + 8 {
                return Err(Error::Malformed);
            }
            let [i0, i1] = need::<2, B>(bytes, start + 4)?;
            into.kind = Kind::Echo;
            into.source_port = u16::from_be_bytes([i0, i1]);
            into.destination_port = into.source_port;
            into.error.icmp_type = icmp_type;
        }
        return Ok(());
    }
    into.kind = Kind::Error;
    let quote = &mut into.error;
    quote.icmp_type = icmp_type;
    quote.icmp_code = icmp_code;
    network::quoted(bytes, outer.family, start + 8, &mut quote.network)?;
    let ported = matches!(quote.network.protocol, protocol::TCP | protocol::UDP);
    if ported && !matches!(quote.network.fragment, Fragment::Later) {
        // Both protocols have at least the 8 bytes that RFC 792 asks to quote. They end with the error, whatever
        // padding the frame has behind it.
        if quote.network.transport + 8 > outer.end {
            return Err(Error::Malformed);
        }
        let [s0, s1, d0, d1, q0, q1, q2, q3] = need::<8, B>(bytes, quote.network.transport)?;
        quote.source_port = u16::from_be_bytes([s0, s1]);
        quote.destination_port = u16::from_be_bytes([d0, d1]);
        if quote.network.protocol == protocol::TCP {
            quote.sequence = u32::from_be_bytes([q0, q1, q2, q3]);
        }
    }
    Ok(())
}
