//! Writes captures, for whoever makes traffic: tests, the bench.

use std::io::{self, Write};

use super::order::Order;

impl Order {
    fn p16(self, number: u16) -> [u8; 2] {
        if self == Self::Little { number.to_le_bytes() } else { number.to_be_bytes() }
    }

    fn p32(self, number: u32) -> [u8; 4] {
        if self == Self::Little { number.to_le_bytes() } else { number.to_be_bytes() }
    }

    fn p64(self, number: u64) -> [u8; 8] {
        if self == Self::Little { number.to_le_bytes() } else { number.to_be_bytes() }
    }
}

/// A classic capture.
#[derive(Debug)]
pub struct PcapWriter<W> {
    out: W,
    order: Order,
    nanoseconds: bool,
}

impl<W: Write> PcapWriter<W> {
    /// Writes the file header.
    pub fn new(mut out: W, order: Order, nanoseconds: bool, link: u32) -> io::Result<Self> {
        out.write_all(&order.p32(if nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }))?;
        out.write_all(&order.p16(2))?;
        out.write_all(&order.p16(4))?;
        out.write_all(&[0; 8])?;
        out.write_all(&order.p32(262_144))?;
        out.write_all(&order.p32(link))?;
        Ok(Self { out, order, nanoseconds })
    }

    /// A packet that was `length` bytes long.
    pub fn packet(&mut self, time_ns: u64, captured: &[u8], length: usize) -> io::Result<()> {
        let (seconds, rest) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
        let fraction = if self.nanoseconds { rest } else { rest / 1000 };
        for number in [seconds as u32, fraction as u32, captured.len() as u32, length as u32] {
            self.out.write_all(&self.order.p32(number))?;
        }
        self.out.write_all(captured)
    }

    pub fn into_inner(self) -> W {
        self.out
    }
}

/// A capture of blocks.
#[derive(Debug)]
pub struct PcapngWriter<W> {
    out: W,
    order: Order,
}

impl<W: Write> PcapngWriter<W> {
    /// Begins with a section.
    pub fn new(out: W, order: Order) -> io::Result<Self> {
        let mut writer = Self { out, order };
        writer.section(order)?;
        Ok(writer)
    }

    /// A new section: interfaces are numbered anew.
    pub fn section(&mut self, order: Order) -> io::Result<()> {
        self.order = order;
        let mut body = order.p32(0x1a2b_3c4d).to_vec();
        body.extend(order.p16(1));
        body.extend(order.p16(0));
        body.extend([0xff; 8]);
        self.block(0x0a0d_0d0a, &body)
    }

    /// An interface with options, each a code and a value.
    pub fn interface(&mut self, link: u16, snap: u32, options: &[(u16, &[u8])]) -> io::Result<()> {
        let mut body = self.order.p16(link).to_vec();
        body.extend([0; 2]);
        body.extend(self.order.p32(snap));
        body.extend(self.options(options));
        self.block(1, &body)
    }

    /// An interface with a name, that counts nanoseconds.
    pub fn named(&mut self, link: u16, name: &str) -> io::Result<()> {
        self.interface(link, 0, &[(2, name.as_bytes()), (9, &[9])])
    }

    /// An enhanced packet block; `flags` 1 for inbound, 2 for outbound.
    pub fn packet(
        &mut self,
        interface: u32,
        ticks: u64,
        captured: &[u8],
        length: usize,
        flags: Option<u32>,
    ) -> io::Result<()> {
        let mut body = self.order.p32(interface).to_vec();
        body.extend(self.times(ticks, captured, length));
        body.extend(self.flags(flags));
        self.block(6, &body)
    }

    /// An obsolete packet block.
    pub fn obsolete(
        &mut self,
        interface: u16,
        ticks: u64,
        captured: &[u8],
        length: usize,
        flags: Option<u32>,
    ) -> io::Result<()> {
        let mut body = self.order.p16(interface).to_vec();
        body.extend([0; 2]);
        body.extend(self.times(ticks, captured, length));
        body.extend(self.flags(flags));
        self.block(2, &body)
    }

    /// A simple packet block.
    pub fn simple(&mut self, captured: &[u8], length: usize) -> io::Result<()> {
        let mut body = self.order.p32(length as u32).to_vec();
        body.extend(padded(captured));
        self.block(3, &body)
    }

    /// Statistics of an interface that lost packets.
    pub fn statistics(&mut self, interface: u32, dropped: u64) -> io::Result<()> {
        let mut body = self.order.p32(interface).to_vec();
        body.extend([0; 8]);
        body.extend(self.options(&[(5, &self.order.p64(dropped))]));
        self.block(5, &body)
    }

    /// A block of any type.
    pub fn block(&mut self, kind: u32, body: &[u8]) -> io::Result<()> {
        let body = padded(body);
        let total = self.order.p32(body.len() as u32 + 12);
        self.out.write_all(&self.order.p32(kind))?;
        self.out.write_all(&total)?;
        self.out.write_all(&body)?;
        self.out.write_all(&total)
    }

    pub fn into_inner(self) -> W {
        self.out
    }

    fn times(&self, ticks: u64, captured: &[u8], length: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [(ticks >> 32) as u32, ticks as u32, captured.len() as u32, length as u32] {
            bytes.extend(self.order.p32(number));
        }
        bytes.extend(padded(captured));
        bytes
    }

    fn flags(&self, flags: Option<u32>) -> Vec<u8> {
        flags.map_or_else(Vec::new, |flags| self.options(&[(2, &self.order.p32(flags))]))
    }

    fn options(&self, options: &[(u16, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (code, value) in options.iter().chain([&(0, [].as_slice())]) {
            bytes.extend(self.order.p16(*code));
            bytes.extend(self.order.p16(value.len() as u16));
            bytes.extend(padded(value));
        }
        bytes
    }
}

/// To a multiple of four bytes.
fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}
