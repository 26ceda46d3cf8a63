//! Stored captures: pcap and pcapng, plain or gzipped, read as a stream in constant memory.
//!
//! Written by hand, not on pcap-parser 0.17: that wants a whole block in its buffer, however large it claims to be, builds
//! a list of options for every pcapng packet, and does not say where in a file it found damage.

mod error;
mod input;
mod interface;
mod link;
mod order;
mod pcap;
mod pcapng;
pub mod write;

use std::{
    fmt,
    io::{self, Cursor, Read},
    ops::Range,
};

pub use error::{Damage, Fault, FileError, FileErrorKind};
use flate2::read::MultiGzDecoder;
use input::Input;
pub use interface::Interface;
pub use link::{Frame, LinkType};
pub use order::Order;
use pcap::Pcap;
use pcapng::Pcapng;
use probe_common::observation::Direction;

/// Where a packet is in the window, and what its record says.
struct Record {
    time_ns: Option<u64>,
    interface: u32,
    direction: Option<Direction>,
    original: u32,
    data: Range<usize>,
    /// Of the whole record.
    size: usize,
}

/// One captured packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// ns since the Unix epoch. A packet without a time has that of the one before.
    pub time_ns: u64,
    /// The interface it is of, and its number in its section.
    pub interface: &'a Interface,
    pub number: u32,
    /// Counts sections up: with a new one, interface numbers mean others.
    pub section: u32,
    pub link: LinkType,
    /// As its record says; the link layer may say it, too.
    pub direction: Option<Direction>,
    /// Length on the wire.
    pub length: usize,
    /// What was captured of it.
    pub captured: &'a [u8],
}

#[derive(Debug)]
enum Format {
    Pcap(Pcap, Interface),
    Pcapng(Pcapng),
}

/// Reads one capture from its beginning to its end, or to where it is damaged.
pub struct Reader {
    file: String,
    compressed: bool,
    input: Input,
    format: Format,
    /// Bytes of the record that was handed out last.
    pending: usize,
    last_ns: u64,
    untimed: u64,
    /// Packets of an unsupported link type, and the first such type.
    unsupported: Option<(u32, u64)>,
    done: bool,
    damage: Option<Damage>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("file", &self.file).field("input", &self.input).finish_non_exhaustive()
    }
}

impl Reader {
    /// Begins to read. `file` is its name in messages.
    pub fn open(file: impl Into<String>, source: Box<dyn Read>) -> Result<Self, FileError> {
        let file = file.into();
        match Self::begin(source) {
            Ok((compressed, input, format)) => Ok(Self {
                file,
                compressed,
                input,
                format,
                pending: 0,
                last_ns: 0,
                untimed: 0,
                unsupported: None,
                done: false,
                damage: None,
            }),
            Err(kind) => Err(FileError { file, kind }),
        }
    }

    fn begin(mut source: Box<dyn Read>) -> Result<(bool, Input, Format), FileErrorKind> {
        let mut head = Vec::with_capacity(4);
        source.by_ref().take(4).read_to_end(&mut head)?;
        let compressed = head.starts_with(&[0x1f, 0x8b]);
        let whole: Box<dyn Read> = Box::new(Cursor::new(head).chain(source));
        let mut input = Input::new(if compressed { Box::new(MultiGzDecoder::new(whole)) } else { whole });
        input.fill(4);
        let Some(magic) = input.bytes().first_chunk().copied() else {
            let have = input.bytes().to_vec();
            return Err(match input.take_error() {
                Some(error) => FileErrorKind::Read(error),
                None if have.is_empty() => FileErrorKind::Empty,
                None => FileErrorKind::NotACapture(have),
            });
        };
        let format = if pcap::is(magic) {
            Pcap::open(&mut input).map(|(file, interface)| Format::Pcap(file, interface))
        } else if pcapng::is(magic) {
            Pcapng::open(&mut input).map(Format::Pcapng)
        } else {
            Err(stranger(magic))
        };
        match (format, input.take_error()) {
            (Ok(format), _) => Ok((compressed, input, format)),
            (Err(_), Some(error)) => Err(FileErrorKind::Read(error)),
            (Err(kind), None) => Err(kind),
        }
    }

    pub fn file(&self) -> &str {
        &self.file
    }

    /// The interfaces of the current section.
    pub fn interfaces(&self) -> &[Interface] {
        match &self.format {
            Format::Pcap(_, interface) => std::slice::from_ref(interface),
            Format::Pcapng(file) => file.interfaces(),
        }
    }

    const fn section(&self) -> u32 {
        match &self.format {
            Format::Pcap(..) => 1,
            Format::Pcapng(file) => file.section(),
        }
    }

    /// Where the file stops making sense; known once [`Reader::next`] gave `None`.
    pub const fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    /// Packets whose record has no time.
    pub const fn untimed(&self) -> u64 {
        self.untimed
    }

    /// The first link type that is not supported, and how many packets were left out for that reason.
    pub const fn unsupported(&self) -> Option<(u32, u64)> {
        self.unsupported
    }

    /// Packets that the capture itself lost, as the last statistics of the current section's interfaces say.
    pub fn dropped(&self) -> u64 {
        self.interfaces().iter().map(|interface| interface.dropped).fold(0, u64::saturating_add)
    }

    /// The next packet; `None` at the end, or where the file is damaged.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend its buffer")]
    #[inline]
    pub fn next(&mut self) -> Option<Packet<'_>> {
        self.input.consume(self.pending);
        self.pending = 0;
        let (record, link) = loop {
            if self.done {
                return None;
            }
            let next = match &mut self.format {
                Format::Pcap(file, _) => file.next(&mut self.input),
                Format::Pcapng(file) => file.next(&mut self.input),
            };
            let record = match next {
                Ok(Some(record)) => record,
                Ok(None) => {
                    self.end(None);
                    return None;
                }
                Err(fault) => {
                    self.end(Some(fault));
                    return None;
                }
            };
            let interface = self.interfaces().get(record.interface as usize);
            match interface.map(|interface| (interface.link, interface.code)) {
                Some((Some(link), _)) => break (record, link),
                Some((None, code)) => {
                    self.unsupported.get_or_insert((code, 0)).1 += 1;
                    self.input.consume(record.size);
                }
                None => self.input.consume(record.size),
            }
        };
        self.pending = record.size;
        match record.time_ns {
            Some(time_ns) => self.last_ns = time_ns,
            None => self.untimed += 1,
        }
        Some(Packet {
            time_ns: self.last_ns,
            interface: self.interfaces().get(record.interface as usize)?,
            number: record.interface,
            section: self.section(),
            link,
            direction: record.direction,
            length: record.original as usize,
            captured: self.input.bytes().get(record.data).unwrap_or_default(),
        })
    }

    #[cold]
    fn end(&mut self, fault: Option<Fault>) {
        self.done = true;
        let at = match &self.format {
            Format::Pcap(..) => self.input.offset(),
            Format::Pcapng(file) => file.at(),
        };
        // What stopped the reading is the reason for whatever is cut.
        let fault = match (fault, self.input.take_error()) {
            (Some(Fault::Cut { .. }) | None, Some(error)) => Some(Fault::Read(error)),
            (fault, _) => fault,
        };
        self.damage = fault.map(|fault| Damage {
            file: self.file.clone(),
            offset: at,
            compressed: self.compressed,
            fault,
        });
    }
}

/// What a file is that begins with the magic number of neither format.
fn stranger(magic: [u8; 4]) -> FileErrorKind {
    match magic {
        [0x34, 0xcd, 0xb2, 0xa1] | [0xa1, 0xb2, 0xcd, 0x34] => FileErrorKind::ModifiedPcap,
        [0x28, 0xb5, 0x2f, 0xfd] => FileErrorKind::Compressed("zstd"),
        [0x04, 0x22, 0x4d, 0x18] => FileErrorKind::Compressed("lz4"),
        [0xfd, b'7', b'z', b'X'] => FileErrorKind::Compressed("xz"),
        [b'B', b'Z', b'h', _] => FileErrorKind::Compressed("bzip2"),
        other => FileErrorKind::NotACapture(other.to_vec()),
    }
}

/// Opens a file, `-` for standard input.
pub fn source(file: &str) -> io::Result<Box<dyn Read>> {
    if file == "-" { Ok(Box::new(io::stdin())) } else { Ok(Box::new(std::fs::File::open(file)?)) }
}

#[cfg(test)]
mod tests;
