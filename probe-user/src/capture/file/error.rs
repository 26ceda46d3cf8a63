//! What can be wrong with a capture file.

use std::{fmt, io};

use thiserror::Error;

/// A file that cannot be read at all.
#[derive(Debug, Error)]
#[error("{file}: {kind}")]
pub struct FileError {
    pub file: String,
    pub kind: FileErrorKind,
}

#[derive(Debug, Error)]
pub enum FileErrorKind {
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error(
        "is empty: not even a file header is in it (was the capture stopped, or still buffered? tcpdump -U)"
    )]
    Empty,
    #[error("is not a capture: it begins with {}, and neither pcap, pcapng nor gzip does", hex(.0))]
    NotACapture(Vec<u8>),
    #[error("is compressed with {0}; only gzip is read: decompress it first")]
    Compressed(&'static str),
    #[error("is a pcap of the modified kind (Kuznetsov); convert it with `editcap -F pcap IN OUT`")]
    ModifiedPcap,
    #[error("ends at byte {at}, inside its file header of {size} bytes")]
    HeaderCut { at: u64, size: usize },
    #[error("is of version {major}.{minor}, at byte {at}; only {known} is known")]
    Version { major: u16, minor: u16, at: u64, known: &'static str },
    #[error(
        "holds frames of link type {0}, which is not supported; capture Ethernet, raw IP or LINUX_SLL2 (`tcpdump -i any -y LINUX_SLL2`)"
    )]
    LinkType(u32),
    #[error("is damaged at byte {offset}, in its first section: {fault}")]
    Damaged { offset: u64, fault: Fault },
}

fn hex(bytes: &[u8]) -> String {
    let all: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    all.join(" ")
}

/// Where a file stops making sense. Everything before was read.
#[derive(Debug)]
pub struct Damage {
    pub file: String,
    /// Where the damaged record or block begins.
    pub offset: u64,
    /// `offset` counts bytes of what the compressed file holds.
    pub compressed: bool,
    pub fault: Fault,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = if self.compressed { " of its decompressed content" } else { "" };
        write!(f, "{} is damaged at byte {}{of}: {}", self.file, self.offset, self.fault)
    }
}

/// What is wrong with a record or block.
#[derive(Debug, Error)]
pub enum Fault {
    #[error("the file ends {have} bytes into {what} of {size} bytes")]
    Cut { what: &'static str, have: u64, size: u64 },
    #[error("{0}")]
    Read(io::Error),
    #[error("{what} claims {claimed} bytes, and {most} is the most it may have")]
    TooLong { what: &'static str, claimed: u64, most: u64 },
    #[error("a block claims a length of {0} bytes, which no block can have")]
    BlockLength(u32),
    #[error("a block's two lengths differ, {head} at its head and {tail} at its end")]
    BlockTail { head: u32, tail: u32 },
    #[error("a section begins with byte-order magic {0:08x}, which is none")]
    ByteOrder(u32),
    #[error("a section is of version {0}.{1}, and only 1.0 is known")]
    SectionVersion(u16, u16),
    #[error("a block of type {kind} has {have} bytes, too few for its fields")]
    BlockShort { kind: u32, have: usize },
    #[error("a packet is of interface {0}, which no block describes")]
    NoInterface(u32),
    #[error("more than {0} interfaces are described")]
    Interfaces(usize),
}
