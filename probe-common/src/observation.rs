//! The one record that everything above the parser works on. A live ring and a stored capture both
//! end in observations.

use crate::{
    maps::Address,
    parse::{OPTIONS, Options},
};

/// Payload bytes carried along: enough for an HTTP status line, a TLS record header or a PROXY preface.
pub const PAYLOAD: usize = 128;

/// Where a packet was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Direction {
    /// Entering the host.
    Ingress = 0,
    /// Leaving the host.
    Egress = 1,
}

/// What a packet is to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Role {
    /// From the prober to the host (ingress).
    Probe = 0,
    /// From the host to the prober (egress).
    Reply = 1,
    /// An ICMP or ICMPv6 error to the prober that quotes its packet (egress). Ports and sequence are the
    /// quoted ones, turned to the prober's view: `peer_port` is the prober's.
    Reject = 2,
    /// A source's address leaving the host: the probe was forwarded (egress). `local` is where to.
    Forwarded = 3,
    /// A packet to a source entering the host: the answer to a forwarded probe (ingress). `local` is from where.
    Returned = 4,
}

/// TCP flags of [`Observation::flags`], as in the header's 14th byte.
pub mod flags {
    pub const FIN: u8 = 0x01;
    pub const SYN: u8 = 0x02;
    pub const RST: u8 = 0x04;
    pub const PSH: u8 = 0x08;
    pub const ACK: u8 = 0x10;
    pub const URG: u8 = 0x20;
    pub const ECE: u8 = 0x40;
    pub const CWR: u8 = 0x80;
}

/// One packet that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Observation {
    /// `CLOCK_BOOTTIME` in ns for a live packet; ns since the Unix epoch for a captured one.
    pub time_ns: u64,
    /// ifindex of the device it was seen on.
    pub device: u32,
    /// ifindex of the logical NIC.
    pub nic: u32,
    /// Length of the frame in bytes.
    pub length: u32,
    /// Bytes of TCP payload.
    pub payload_length: u32,
    pub sequence: u32,
    pub acknowledgement: u32,
    /// The prober's address.
    pub peer: Address,
    /// The other end's address: the address probed, or where a forwarded probe went.
    pub local: Address,
    pub peer_port: u16,
    pub local_port: u16,
    /// Which source matched.
    pub peer_id: u16,
    /// Raw TCP window.
    pub window: u16,
    /// VLAN tags, outer first; 0 for none (see `maps::Probe::vlan`).
    pub vlan: [u16; 2],
    /// Valid bytes in `payload`.
    pub captured: u16,
    pub source_mac: [u8; 6],
    pub destination_mac: [u8; 6],
    /// [`Direction`].
    pub direction: u8,
    /// [`Role`].
    pub role: u8,
    /// 4 or 6.
    pub family: u8,
    /// TCP flags, see [`flags`].
    pub flags: u8,
    /// Valid bytes in `options`.
    pub options_length: u8,
    /// Type of the ICMP or ICMPv6 error, for [`Role::Reject`].
    pub icmp_type: u8,
    /// Code of the ICMP or ICMPv6 error, for [`Role::Reject`].
    pub icmp_code: u8,
    pub pad: [u8; 3],
    /// The TCP options as they are in the header.
    pub options: [u8; OPTIONS],
    pub payload: [u8; PAYLOAD],
}

const _: () = assert!(size_of::<Observation>() == 272 && align_of::<Observation>() == 8);

impl Observation {
    /// All zero.
    pub const EMPTY: Self = Self {
        time_ns: 0,
        device: 0,
        nic: 0,
        length: 0,
        payload_length: 0,
        sequence: 0,
        acknowledgement: 0,
        peer: [0; 16],
        local: [0; 16],
        peer_port: 0,
        local_port: 0,
        peer_id: 0,
        window: 0,
        vlan: [0; 2],
        captured: 0,
        source_mac: [0; 6],
        destination_mac: [0; 6],
        direction: 0,
        role: 0,
        family: 0,
        flags: 0,
        options_length: 0,
        icmp_type: 0,
        icmp_code: 0,
        pad: [0; 3],
        options: [0; OPTIONS],
        payload: [0; PAYLOAD],
    };

    /// The role, if the byte is one.
    pub const fn role(&self) -> Option<Role> {
        match self.role {
            0 => Some(Role::Probe),
            1 => Some(Role::Reply),
            2 => Some(Role::Reject),
            3 => Some(Role::Forwarded),
            4 => Some(Role::Returned),
            _ => None,
        }
    }

    /// Whether every flag of `mask` is set.
    pub const fn has(&self, mask: u8) -> bool {
        self.flags & mask == mask
    }

    /// The payload bytes that were captured.
    pub fn payload(&self) -> &[u8] {
        self.payload.get(..usize::from(self.captured)).unwrap_or(&self.payload)
    }

    /// The TCP options.
    pub fn tcp_options(&self) -> Options {
        Options::parse(self.options.get(..usize::from(self.options_length)).unwrap_or(&self.options))
    }

    /// Reads an observation as the kernel half wrote it; `None` when the length is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != size_of::<Self>() {
            return None;
        }
        // SAFETY: the length was checked, the read is unaligned, and every bit pattern is a valid Observation
        // (integers and byte arrays only).
        Some(unsafe { core::ptr::read_unaligned(bytes.as_ptr().cast::<Self>()) })
    }
}
