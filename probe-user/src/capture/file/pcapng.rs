//! Blocks of sections (draft-ietf-opsawg-pcapng): interfaces are described as they come, in either byte order.

use std::ops::Range;

use probe_common::observation::Direction;

use super::{
    Record,
    error::{Fault, FileErrorKind},
    input::{Input, MOST},
    interface::{Interface, Options},
    order::Order,
    pcap,
};

/// Block types.
mod block {
    pub(super) const SECTION: u32 = 0x0a0d_0d0a;
    pub(super) const INTERFACE: u32 = 1;
    /// The obsolete packet block.
    pub(super) const PACKET: u32 = 2;
    pub(super) const SIMPLE: u32 = 3;
    pub(super) const STATISTICS: u32 = 5;
    pub(super) const ENHANCED: u32 = 6;
}

const ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Type and length.
const HEAD: usize = 8;
/// The length again, at the end.
const TAIL: usize = 4;
/// The fixed part of a section header.
const SECTION: usize = 24;
/// No host has more devices that anybody captures on.
const INTERFACES: usize = 4096;

const FLAGS: u16 = 2;
/// Options of an interface statistics block.
const IFDROP: u16 = 5;
const OSDROP: u16 = 7;

#[derive(Debug)]
pub(super) struct Pcapng {
    order: Order,
    interfaces: Vec<Interface>,
    /// The snap length of the first interface, which simple packets have.
    snap_length: u32,
    /// Sections seen: interfaces are numbered anew in each.
    section: u32,
    /// Where the block begins that was looked at last.
    at: u64,
}

/// Whether a file that begins so is of this format.
pub(super) fn is(bytes: [u8; 4]) -> bool {
    bytes == block::SECTION.to_be_bytes()
}

impl Pcapng {
    /// Reads the first section header.
    pub(super) fn open(input: &mut Input) -> Result<Self, FileErrorKind> {
        let mut file =
            Self { order: Order::Little, interfaces: Vec::new(), snap_length: 0, section: 0, at: 0 };
        file.begin_section(input).map_err(|fault| match fault {
            Fault::Cut { have, size, .. } => FileErrorKind::HeaderCut { at: have, size: size as usize },
            Fault::SectionVersion(major, minor) => {
                FileErrorKind::Version { major, minor, at: 12, known: "1.0" }
            }
            fault => FileErrorKind::Damaged { offset: 0, fault },
        })?;
        Ok(file)
    }

    pub(super) fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    pub(super) const fn section(&self) -> u32 {
        self.section
    }

    pub(super) const fn at(&self) -> u64 {
        self.at
    }

    /// The next packet; `None` at the end. Other blocks are taken in, or skipped, on the way.
    #[inline]
    pub(super) fn next(&mut self, input: &mut Input) -> Result<Option<Record>, Fault> {
        loop {
            self.at = input.offset();
            if !input.fill(HEAD) {
                let have = input.bytes().len() as u64;
                let cut = Fault::Cut { what: "a block's head", have, size: HEAD as u64 };
                return if have == 0 { Ok(None) } else { Err(cut) };
            }
            let bytes = input.bytes();
            let (Some(kind), Some(total)) = (self.order.u32(bytes, 0), self.order.u32(bytes, 4)) else {
                return Ok(None);
            };
            match kind {
                block::ENHANCED | block::PACKET | block::SIMPLE => {
                    let size = whole(self.order, kind, total, input)?;
                    return self.packet(kind, size, input.bytes()).map(Some);
                }
                block::SECTION => self.begin_section(input)?,
                block::INTERFACE => {
                    let size = whole(self.order, kind, total, input)?;
                    self.describe(size, input.bytes())?;
                    input.consume(size);
                }
                block::STATISTICS => {
                    let size = whole(self.order, kind, total, input)?;
                    self.count(size, input.bytes());
                    input.consume(size);
                }
                _ => skip(self.order, total, 0, input)?,
            }
        }
    }

    /// Takes in a section header block.
    fn begin_section(&mut self, input: &mut Input) -> Result<(), Fault> {
        if !input.fill(SECTION) {
            let have = input.bytes().len() as u64;
            return Err(Fault::Cut { what: "a section header", have, size: SECTION as u64 });
        }
        let bytes = input.bytes();
        let magic = Order::Little.u32(bytes, HEAD).unwrap_or(0);
        let order = match magic {
            ORDER_MAGIC => Order::Little,
            magic if magic == ORDER_MAGIC.swap_bytes() => Order::Big,
            other => return Err(Fault::ByteOrder(other)),
        };
        let number = |at| order.u16(bytes, at).unwrap_or(0);
        // 1.2 was written for a while and means 1.0.
        if !matches!((number(12), number(14)), (1, 0 | 2)) {
            return Err(Fault::SectionVersion(number(12), number(14)));
        }
        let total = order.u32(bytes, 4).unwrap_or(0);
        if (total as usize) < SECTION + TAIL {
            return Err(Fault::BlockLength(total));
        }
        skip(order, total, SECTION, input)?;
        self.order = order;
        self.interfaces.clear();
        self.section = self.section.wrapping_add(1);
        Ok(())
    }

    fn describe(&mut self, size: usize, bytes: &[u8]) -> Result<(), Fault> {
        let body = body(size, bytes);
        let short = Fault::BlockShort { kind: block::INTERFACE, have: size };
        let interface = Interface::parse(self.order, body).ok_or(short)?;
        if self.interfaces.len() >= INTERFACES {
            return Err(Fault::Interfaces(INTERFACES));
        }
        if self.interfaces.is_empty() {
            self.snap_length = self.order.u32(body, 4).unwrap_or(0);
        }
        self.interfaces.push(interface);
        Ok(())
    }

    /// Takes in the statistics of an interface: they count up, so the last ones stand.
    fn count(&mut self, size: usize, bytes: &[u8]) {
        let body = body(size, bytes);
        let id = self.order.u32(body, 0).map_or(usize::MAX, |id| id as usize);
        let Some(interface) = self.interfaces.get_mut(id) else { return };
        let options = Options::new(self.order, body.get(12..).unwrap_or_default());
        let drops = options.filter(|(kind, _)| matches!(*kind, IFDROP | OSDROP));
        interface.dropped = drops
            .filter_map(|(_, value)| self.order.u64(value, 0))
            .filter(|count| *count != u64::MAX)
            .fold(0, u64::saturating_add);
    }

    #[inline]
    fn packet(&self, kind: u32, size: usize, bytes: &[u8]) -> Result<Record, Fault> {
        let order = self.order;
        let short = || Fault::BlockShort { kind, have: size };
        let field = |at| order.u32(bytes, at).ok_or_else(short);
        // Where the data begins, within the block.
        let (interface, ticks, captured, original, start) = match kind {
            block::ENHANCED => (field(8)?, order.high_low(bytes, 12), field(20)?, field(24)?, HEAD + 20),
            block::PACKET => {
                let id = order.u16(bytes, 8).ok_or_else(short)?;
                (u32::from(id), order.high_low(bytes, 12), field(20)?, field(24)?, HEAD + 20)
            }
            _ => {
                let original = field(8)?;
                let snap = if self.snap_length == 0 { u32::MAX } else { self.snap_length };
                let room = size.saturating_sub(HEAD + 4 + TAIL) as u32;
                (0, None, original.min(snap).min(room), original, HEAD + 4)
            }
        };
        let known = self.interfaces.get(interface as usize).ok_or(Fault::NoInterface(interface))?;
        if captured > pcap::MOST {
            let (claimed, most) = (u64::from(captured), u64::from(pcap::MOST));
            return Err(Fault::TooLong { what: "a packet", claimed, most });
        }
        let end = start + captured as usize;
        if end + TAIL > size {
            let (claimed, most) = (u64::from(captured), size.saturating_sub(start + TAIL) as u64);
            return Err(Fault::TooLong { what: "a packet in its block", claimed, most });
        }
        let options = end.next_multiple_of(4)..size - TAIL;
        Ok(Record {
            time_ns: ticks.map(|ticks| known.clock.ns(ticks)),
            interface,
            direction: if options.len() >= 8 { direction(order, bytes.get(options)) } else { None },
            original,
            data: Range { start, end },
            size,
        })
    }
}

/// The two low bits of the flags option, the same in enhanced and obsolete packet blocks.
fn direction(order: Order, options: Option<&[u8]>) -> Option<Direction> {
    let (_, flags) = Options::new(order, options?).find(|(kind, _)| *kind == FLAGS)?;
    match order.u32(flags, 0)? & 3 {
        1 => Some(Direction::Ingress),
        2 => Some(Direction::Egress),
        _ => None,
    }
}

/// What is between a block's head and its tail.
fn body(size: usize, bytes: &[u8]) -> &[u8] {
    bytes.get(HEAD..size - TAIL).unwrap_or_default()
}

fn check(total: u32) -> Result<usize, Fault> {
    let size = total as usize;
    if size < HEAD + TAIL || !size.is_multiple_of(4) { Err(Fault::BlockLength(total)) } else { Ok(size) }
}

/// Brings a whole block into memory. Returns its size.
#[inline]
fn whole(order: Order, kind: u32, total: u32, input: &mut Input) -> Result<usize, Fault> {
    let size = check(total)?;
    if size > MOST {
        let what = if kind == block::INTERFACE { "an interface block" } else { "a packet block" };
        return Err(Fault::TooLong { what, claimed: size as u64, most: MOST as u64 });
    }
    if !input.fill(size) {
        return Err(Fault::Cut { what: "a block", have: input.bytes().len() as u64, size: size as u64 });
    }
    let tail = order.u32(input.bytes(), size - TAIL).unwrap_or(0);
    if tail == total { Ok(size) } else { Err(Fault::BlockTail { head: total, tail }) }
}

/// Passes over a block of any size, whose first `looked` bytes are in memory.
fn skip(order: Order, total: u32, looked: usize, input: &mut Input) -> Result<(), Fault> {
    let size = check(total)?;
    let cut = |have: u64| Fault::Cut { what: "a block", have, size: size as u64 };
    input.consume(looked);
    let rest = (size - TAIL).saturating_sub(looked) as u64;
    let skipped = input.skip(rest);
    if skipped < rest || !input.fill(TAIL) {
        return Err(cut(looked as u64
            + skipped
            + if skipped < rest { 0 } else { input.bytes().len() as u64 }));
    }
    let tail = order.u32(input.bytes(), 0).unwrap_or(0);
    if tail != total {
        return Err(Fault::BlockTail { head: total, tail });
    }
    input.consume(TAIL);
    Ok(())
}
