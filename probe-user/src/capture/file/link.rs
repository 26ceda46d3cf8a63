//! What stands in front of the IP header, by link type (<https://www.tcpdump.org/linktypes.html>).

use probe_common::{
    bytes::Bytes,
    observation::Direction,
    parse::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, Error, Headers, LinkLayer},
};

/// Bit of a stored VLAN tag, see [`probe_common::parse::Link`].
const TAG_PRESENT: u16 = 0x1000;
const VLAN: [u16; 2] = [0x8100, 0x88a8];

/// The link types that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    Ethernet,
    /// Nothing in front: raw IP of either version.
    Raw,
    /// `LINUX_SLL`: tells the direction, not the device.
    Cooked,
    /// `LINUX_SLL2`: tells both.
    Cooked2,
    /// BSD loopback: an address family in four bytes.
    Loopback,
}

impl LinkType {
    pub const fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            1 => Self::Ethernet,
            // 12 and 14 are what raw IP is numbered as on some systems; 228 and 229 are one version alone.
            12 | 14 | 101 | 228 | 229 => Self::Raw,
            113 => Self::Cooked,
            276 => Self::Cooked2,
            0 | 108 => Self::Loopback,
            _ => return None,
        })
    }

    const fn header(self) -> usize {
        match self {
            Self::Ethernet | Self::Raw => 0,
            Self::Cooked => 16,
            Self::Cooked2 => 20,
            Self::Loopback => 4,
        }
    }
}

/// A packet as the parser takes it: what was captured of it, and how long it was.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    pub layer: LinkLayer,
    pub captured: &'a [u8],
    pub length: usize,
    /// From a cooked header.
    pub direction: Option<Direction>,
    /// The device, from a version 2 cooked header.
    pub ifindex: Option<u32>,
    vlan: [u16; 2],
    source_mac: [u8; 6],
}

impl Bytes for Frame<'_> {
    #[inline(always)]
    fn length(&self) -> usize {
        self.length
    }

    #[inline(always)]
    fn load<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.captured.load(offset)
    }
}

impl<'a> Frame<'a> {
    /// Takes apart what `link` puts in front of a packet of `length` bytes. An error still tells where it was seen.
    #[inline]
    pub fn new(link: LinkType, captured: &'a [u8], length: usize) -> (Self, Result<(), Error>) {
        let length = length.max(captured.len());
        let layer = if link == LinkType::Ethernet { LinkLayer::Ethernet } else { LinkLayer::Raw };
        let mut frame = Self {
            layer,
            captured,
            length,
            direction: None,
            ifindex: None,
            vlan: [0; 2],
            source_mac: [0; 6],
        };
        let done = match link {
            LinkType::Ethernet | LinkType::Raw => Ok(()),
            LinkType::Cooked | LinkType::Cooked2 | LinkType::Loopback => frame.unwrap(link),
        };
        (frame, done)
    }

    fn unwrap(&mut self, link: LinkType) -> Result<(), Error> {
        let size = link.header();
        let cut = if size > self.length { Error::Malformed } else { Error::TooDeep };
        let (header, packet) = self.captured.split_at_checked(size).ok_or(cut)?;
        self.captured = packet;
        self.length -= size;
        let protocol = match link {
            LinkType::Cooked => {
                self.direction = header.u16(0).map(direction);
                self.source_mac = address(header.u16(4), header.load(6));
                header.u16(14)
            }
            LinkType::Cooked2 => {
                self.ifindex = header.u32(4);
                self.direction = header.u8(10).map(|kind| direction(u16::from(kind)));
                self.source_mac = address(header.u8(11).map(u16::from), header.load(12));
                header.u16(0)
            }
            _ => return Ok(()),
        };
        self.untag(protocol.unwrap_or(0))
    }

    /// libpcap puts a tag that the kernel took out behind the cooked header, where Ethernet has it.
    fn untag(&mut self, protocol: u16) -> Result<(), Error> {
        let mut protocol = protocol;
        for at in 0..=self.vlan.len() {
            match protocol {
                ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => return Ok(()),
                tag if VLAN.contains(&tag) => {
                    let slot = self.vlan.get_mut(at).ok_or(Error::TooDeep)?;
                    let cut = if self.length < 4 { Error::Malformed } else { Error::TooDeep };
                    let (tag, packet) = self.captured.split_at_checked(4).ok_or(cut)?;
                    *slot = tag.u16(0).unwrap_or(0) & 0x0fff | TAG_PRESENT;
                    protocol = tag.u16(2).unwrap_or(0);
                    self.captured = packet;
                    self.length -= 4;
                }
                _ => return Err(Error::NotIp),
            }
        }
        Err(Error::TooDeep)
    }

    /// Adds to parsed headers what a cooked header said.
    pub fn complete(&self, headers: &mut Headers) {
        if self.layer == LinkLayer::Raw {
            headers.link.vlan = self.vlan;
            headers.link.source_mac = self.source_mac;
        }
    }
}

/// Packet types of `linux/if_packet.h`: only 4 is outgoing; broadcasts and frames for others came in.
const fn direction(packet_type: u16) -> Direction {
    if packet_type == 4 { Direction::Egress } else { Direction::Ingress }
}

fn address(length: Option<u16>, bytes: Option<[u8; 6]>) -> [u8; 6] {
    bytes.filter(|_| length == Some(6)).unwrap_or_default()
}
