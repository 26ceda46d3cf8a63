//! The classic format: a file header, then records (draft-ietf-opsawg-pcap).

use super::{
    Record,
    error::{Fault, FileErrorKind},
    input::Input,
    interface::Interface,
    link::LinkType,
    order::Order,
};

const HEADER: usize = 24;
const RECORD: usize = 16;

/// libpcap's `MAXIMUM_SNAPLEN`: no packet is longer, except on a few devices that carry no IP.
pub(super) const MOST: u32 = 262_144;

#[derive(Debug)]
pub(super) struct Pcap {
    order: Order,
    /// ns that a unit of the fraction is.
    unit: u64,
}

/// The byte order and unit that a magic number stands for.
fn magic(bytes: [u8; 4]) -> Option<(Order, u64)> {
    match bytes {
        [0xd4, 0xc3, 0xb2, 0xa1] => Some((Order::Little, 1000)),
        [0xa1, 0xb2, 0xc3, 0xd4] => Some((Order::Big, 1000)),
        [0x4d, 0x3c, 0xb2, 0xa1] => Some((Order::Little, 1)),
        [0xa1, 0xb2, 0x3c, 0x4d] => Some((Order::Big, 1)),
        _ => None,
    }
}

/// Whether a file that begins so is of this format.
pub(super) fn is(bytes: [u8; 4]) -> bool {
    magic(bytes).is_some()
}

impl Pcap {
    /// Reads the file header.
    pub(super) fn open(input: &mut Input) -> Result<(Self, Interface), FileErrorKind> {
        let cut = |have: usize| FileErrorKind::HeaderCut { at: have as u64, size: HEADER };
        input.fill(HEADER);
        let header = input.bytes();
        let have = header.len().min(HEADER);
        let (order, unit) = header.first_chunk().and_then(|bytes| magic(*bytes)).ok_or_else(|| cut(have))?;
        let parsed = (order.u16(header, 4), order.u16(header, 6), order.u32(header, 20));
        let (Some(major), Some(minor), Some(network)) = parsed else { return Err(cut(have)) };
        if (major, minor) != (2, 4) {
            return Err(FileErrorKind::Version { major, minor, at: 4, known: "2.4" });
        }
        // The high bits tell about frame check sequences, which follow the packet and disturb nobody.
        let code = network & 0x03ff_ffff;
        let link = LinkType::from_code(code).ok_or(FileErrorKind::LinkType(code))?;
        input.consume(HEADER);
        Ok((Self { order, unit }, Interface { link: Some(link), code, ..Interface::default() }))
    }

    /// The next record; `None` at the end.
    #[inline]
    pub(super) fn next(&self, input: &mut Input) -> Result<Option<Record>, Fault> {
        if !input.fill(RECORD) {
            let have = input.bytes().len() as u64;
            let cut = Fault::Cut { what: "a record header", have, size: RECORD as u64 };
            return if have == 0 { Ok(None) } else { Err(cut) };
        }
        let order = self.order;
        let fields = |bytes: &[u8]| {
            Some((order.u32(bytes, 0)?, order.u32(bytes, 4)?, order.u32(bytes, 8)?, order.u32(bytes, 12)?))
        };
        let Some((seconds, fraction, captured, original)) = fields(input.bytes()) else { return Ok(None) };
        if captured > MOST {
            let claimed = u64::from(captured);
            return Err(Fault::TooLong { what: "a packet", claimed, most: u64::from(MOST) });
        }
        let size = RECORD + captured as usize;
        if !input.fill(size) {
            let have = input.bytes().len() as u64;
            return Err(Fault::Cut { what: "a packet record", have, size: size as u64 });
        }
        Ok(Some(Record {
            time_ns: Some(u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.unit),
            interface: 0,
            direction: None,
            original,
            data: RECORD..size,
            size,
        }))
    }
}
