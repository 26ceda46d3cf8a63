//! Keys and values of the maps. Both halves compile this file, so layouts agree by construction.

/// How many sources the programs compare one by one, per address family. A longer list goes into the
/// `SOURCES` trie instead, which costs a lookup per packet.
pub const LINEAR_SOURCES: usize = 8;

/// How many tunnels the programs look into.
pub const TUNNELS: usize = 8;

/// An address as the maps store it: IPv6, or IPv4 mapped into `::ffff:0:0/96`.
pub type Address = [u8; 16];

/// The bytes in front of a mapped IPv4 address.
pub const V4_MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// Maps an IPv4 address.
#[inline(always)]
pub const fn map_v4(v4: [u8; 4]) -> Address {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, v4[0], v4[1], v4[2], v4[3]]
}

/// One IPv4 source in the linear list. `address` and `mask` are in network byte order as loaded from
/// the packet by `u32::from_ne_bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Source4 {
    pub address: u32,
    pub mask: u32,
    pub peer: Peer,
}

/// One IPv6 source in the linear list, as two native-endian halves of the network-order bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Source6 {
    pub address: [u64; 2],
    pub mask: [u64; 2],
    pub peer: Peer,
    pub pad: u32,
}

/// Who a source is: its peer id, and whether it is one address or a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Peer {
    /// Several spellings of one prober share an id. Ids start at 1.
    pub id: u16,
    /// 1 when the source is a prefix: then the address itself is part of every key.
    pub prefix: u16,
}

impl Peer {
    /// Not a source.
    pub const NONE: Self = Self { id: 0, prefix: 0 };

    /// Whether this is a source at all. A plain value, since the BPF verifier refuses to copy the undefined half
    /// of an empty `Option`.
    #[inline(always)]
    pub const fn is_some(self) -> bool {
        self.id != 0
    }
}

/// A tunnel whose inner flows are followed where its packets pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Tunnel {
    /// UDP destination port, in network byte order.
    pub port: u16,
    /// See [`crate::flow::tunnel`].
    pub kind: u16,
    /// Network identifier, or [`crate::flow::tunnel::ANY`].
    pub vni: u32,
}

/// Static settings of the programs, written once into read-only data before loading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Settings {
    pub sources4: [Source4; LINEAR_SOURCES],
    pub sources6: [Source6; LINEAR_SOURCES],
    /// Entries used in `sources4`.
    pub count4: u32,
    /// Entries used in `sources6`.
    pub count6: u32,
    /// 1 when the lists did not fit and the `SOURCES` trie holds them all.
    pub trie: u32,
    /// See [`crate::flow::mode`].
    pub flows: u32,
    pub tunnels: [Tunnel; TUNNELS],
    /// Entries used in `tunnels`.
    pub tunnel_count: u32,
    pub pad: u32,
}

impl Settings {
    /// No source at all.
    pub const EMPTY: Self = Self {
        sources4: [Source4 { address: 0, mask: 0, peer: Peer { id: 0, prefix: 0 } }; LINEAR_SOURCES],
        sources6: [Source6 { address: [0; 2], mask: [0; 2], peer: Peer { id: 0, prefix: 0 }, pad: 0 };
            LINEAR_SOURCES],
        count4: 0,
        count6: 0,
        trie: 0,
        flows: 0,
        tunnels: [Tunnel { port: 0, kind: 0, vni: 0 }; TUNNELS],
        tunnel_count: 0,
        pad: 0,
    };
}

/// Key of `PROBES`: one probe connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct ProbeKey {
    /// The address probed.
    pub local: Address,
    /// The prober's address when its source is a prefix, else zero: an id has several spellings.
    pub peer_address: Address,
    pub local_port: u16,
    pub peer_port: u16,
    pub peer_id: u16,
    pub pad: u16,
}

/// Value of `PROBES`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Probe {
    /// `CLOCK_BOOTTIME` of the first SYN, ns.
    pub first_seen_ns: u64,
    /// Logical NIC that the SYN entered by.
    pub nic: u32,
    /// Device that the SYN entered by.
    pub device: u32,
    /// Initial sequence number of the SYN.
    pub sequence: u32,
    /// VLAN tags of the SYN, outer first, 0 for none (the TCI's low 12 bits plus 0x1000 when present).
    pub vlan: [u16; 2],
    /// Destination MAC of the SYN (ours).
    pub destination_mac: [u8; 6],
    /// Source MAC of the SYN (the gateway's).
    pub source_mac: [u8; 6],
    /// Data segments observed from the prober.
    pub data_in: u8,
    /// Data segments observed to the prober.
    pub data_out: u8,
    /// 1 when the handshake's ACK was observed.
    pub acked: u8,
    /// Healing state; 0 while healing is off.
    pub heal: u8,
}

/// Value of `DEVICES`, keyed by ifindex: which logical NIC a device belongs to. A device that is not in
/// the map is its own NIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Device {
    /// ifindex of the logical NIC.
    pub nic: u32,
    /// 1 when flows are followed here: on a judged NIC itself, since its members' packets pass it too.
    pub flows: u32,
}

#[cfg(feature = "user")]
mod user {
    use super::{Device, Peer, Probe, ProbeKey, Settings};

    // SAFETY: `repr(C)` with explicit padding (checked by the size assertions below); every bit pattern is valid.
    unsafe impl aya::Pod for Settings {}
    // SAFETY: as above.
    unsafe impl aya::Pod for ProbeKey {}
    // SAFETY: as above.
    unsafe impl aya::Pod for Probe {}
    // SAFETY: as above.
    unsafe impl aya::Pod for Device {}
    // SAFETY: as above.
    unsafe impl aya::Pod for Peer {}
}

const _: () = {
    assert!(size_of::<Source4>() == 12);
    assert!(size_of::<Source6>() == 40);
    assert!(size_of::<Settings>() == LINEAR_SOURCES * (12 + 40) + TUNNELS * 8 + 24);
    assert!(size_of::<ProbeKey>() == 40);
    assert!(size_of::<Probe>() == 40);
};
