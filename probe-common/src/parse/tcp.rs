//! TCP (RFC 9293).

use super::{Error, Kind, Network, Transport, need};
use crate::bytes::Bytes;

/// Longest that TCP options can be: a header of 60 bytes less the fixed 20.
pub const OPTIONS: usize = 40;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const TIMESTAMPS: u8 = 8;

/// The options that tell one prober from another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Bytes.
    pub mss: Option<u16>,
    /// Shift count.
    pub window_scale: Option<u8>,
    pub sack_permitted: bool,
    pub timestamps: bool,
}

impl Options {
    /// Reads options up to a damaged one: Linux ignores the rest from there, too (net/ipv4/tcp_input.c,
    /// `tcp_parse_options`). The kernel half only carries the bytes: a loop over them costs the verifier a million
    /// states, and nothing there depends on them.
    pub fn parse(mut bytes: &[u8]) -> Self {
        let mut options = Self::default();
        loop {
            match bytes {
                [] | [END, ..] => return options,
                [NOP, rest @ ..] => bytes = rest,
                [kind, length, ..] => {
                    let length = usize::from(*length);
                    let Some(data) = bytes.get(2..length) else { return options };
                    match (*kind, data) {
                        (MSS, [high, low]) => options.mss = Some(u16::from_be_bytes([*high, *low])),
                        (WINDOW_SCALE, [shift]) => options.window_scale = Some(*shift),
                        (SACK_PERMITTED, []) => options.sack_permitted = true,
                        (TIMESTAMPS, [_, _, _, _, _, _, _, _]) => options.timestamps = true,
                        _ => {}
                    }
                    bytes = &bytes[length..];
                }
                [_] => return options,
            }
        }
    }
}

/// The TCP header, parsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    pub sequence: u32,
    pub acknowledgement: u32,
    /// The header's 14th byte, see `observation::flags`.
    pub flags: u8,
    /// Raw, not scaled.
    pub window: u16,
    /// Where the options start; they end at `payload`.
    pub options: usize,
    /// Where the payload starts.
    pub payload: usize,
    /// Bytes of payload by the IP length (a GSO packet: all its segments).
    pub payload_length: usize,
}

#[inline(always)]
pub(super) fn parse<B: Bytes + ?Sized>(
    bytes: &B,
    network: &Network,
    into: &mut Transport,
) -> Result<(), Error> {
    let start = network.transport;
    let header = need::<16, B>(bytes, start)?;
    let length = usize::from(header[12] >> 4) * 4;
    if length < 20 || start + length > network.end {
        return Err(Error::Malformed);
    }
    into.kind = Kind::Tcp;
    into.source_port = u16::from_be_bytes([header[0], header[1]]);
    into.destination_port = u16::from_be_bytes([header[2], header[3]]);
    let tcp = &mut into.tcp;
    tcp.sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    tcp.acknowledgement = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    tcp.flags = header[13];
    tcp.window = u16::from_be_bytes([header[14], header[15]]);
    tcp.options = start + 20;
    tcp.payload = start + length;
    tcp.payload_length = network.end - (start + length);
    Ok(())
}
