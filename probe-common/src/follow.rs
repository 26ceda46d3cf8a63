//! What a packet from or to a source is: part of a probe, platform traffic, or a forwarded probe.
//!
//! The kernel half runs this over its map, a replay over a table of its own, so both decide alike. The rule: a
//! packet belongs to a probe only if the *source is the TCP client*, that is, its SYN came in.

use crate::{
    counters::Outcome,
    maps::{Address, Peer, Probe, ProbeKey},
    observation::{Direction, Observation, Role, flags},
    parse::{Fragment, Headers, Kind, Transport, protocol},
};

/// Data segments observed one way before the other side speaks; the rest are followed silently. A status line that is sent
/// byte by byte is told within 13.
pub const DATA_SEGMENTS: u8 = 16;

/// Ports of the platform's services at the source: wire server, host plugin, Network Watcher, DNS
/// (<https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16>).
const PLATFORM_PORTS: [u16; 4] = [80, 32526, 8037, 53];

/// The table of probe connections.
pub trait Table {
    /// Runs `change` on the entry, if there is one.
    fn update<R>(&mut self, key: &ProbeKey, change: impl FnOnce(&mut Probe) -> R) -> Option<R>;

    /// Puts an entry in, in the place of the one there unless it is `new`; false when it does not fit.
    fn insert(&mut self, key: &ProbeKey, probe: &Probe, new: bool) -> bool;

    /// The logical NIC of a device.
    fn nic(&self, device: u32) -> u32;
}

/// Where and when a packet was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub time_ns: u64,
    pub device: u32,
    pub direction: Direction,
}

/// Which end of the packet is the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The packet's source address is a probe source.
    From,
    /// Its destination address is one.
    To,
}

/// What to do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    pub outcome: Outcome,
    /// The observation to make, if it matters.
    pub observe: Option<Role>,
}

impl Decision {
    #[inline(always)]
    const fn ignore(outcome: Outcome) -> Self {
        Self { outcome, observe: None }
    }

    #[inline(always)]
    const fn follow(observe: Option<Role>) -> Self {
        Self { outcome: Outcome::Followed, observe }
    }
}

/// Room for what a decision builds: the BPF half keeps it off its small stack.
#[derive(Clone, Copy, Debug, Default)]
pub struct Room {
    key: ProbeKey,
    probe: Probe,
}

impl Room {
    /// The key of the connection between `peer` and `local`.
    #[inline(always)]
    fn key(&mut self, peer: Peer, peer_end: (&Address, u16), local_end: (&Address, u16)) -> &ProbeKey {
        self.key.local = *local_end.0;
        // An exact source is known by its id alone, whichever of its spellings this packet has.
        self.key.peer_address = if peer.prefix == 0 { [0; 16] } else { *peer_end.0 };
        self.key.local_port = local_end.1;
        self.key.peer_port = peer_end.1;
        self.key.peer_id = peer.id;
        self.key.pad = 0;
        &self.key
    }
}

/// Decides about one packet that has a source at one `end`.
#[inline(always)]
pub fn decide<T: Table>(
    table: &mut T,
    room: &mut Room,
    place: &Place,
    end: End,
    peer: Peer,
    headers: &Headers,
) -> Decision {
    let transport = &headers.transport;
    // Its ports are in the first fragment.
    if matches!(headers.network.fragment, Fragment::Later) {
        return Decision::ignore(Outcome::IgnoredFragment);
    }
    match (place.direction, end) {
        (Direction::Ingress, End::From) => match transport.kind {
            Kind::Tcp => inbound(table, room, place, peer, headers),
            Kind::Udp => Decision::ignore(Outcome::IgnoredPlatform),
            Kind::Echo | Kind::Error | Kind::Other => Decision::ignore(Outcome::IgnoredOtherProtocol),
        },
        (Direction::Egress, End::To) => match transport.kind {
            Kind::Tcp => outbound(table, room, peer, headers),
            Kind::Udp => Decision::ignore(Outcome::IgnoredPlatform),
            Kind::Error => reject(table, room, peer, transport),
            Kind::Echo | Kind::Other => Decision::ignore(Outcome::IgnoredOtherProtocol),
        },
        (Direction::Egress, End::From) => behind(Role::Forwarded, transport),
        (Direction::Ingress, End::To) => behind(Role::Returned, transport),
    }
}

#[inline(always)]
fn inbound<T: Table>(
    table: &mut T,
    room: &mut Room,
    place: &Place,
    peer: Peer,
    headers: &Headers,
) -> Decision {
    let Headers { link, network, transport } = headers;
    let tcp = &transport.tcp;
    room.key(
        peer,
        (&network.source, transport.source_port),
        (&network.destination, transport.destination_port),
    );
    if tcp.flags & (flags::SYN | flags::ACK) == flags::SYN {
        let sequence = tcp.sequence;
        // A retransmission keeps its entry: the first SYN is the probe.
        let known = table.update(&room.key, |probe| probe.sequence == sequence);
        if known == Some(true) {
            return Decision::follow(Some(Role::Probe));
        }
        room.probe = Probe {
            first_seen_ns: place.time_ns,
            nic: table.nic(place.device),
            device: place.device,
            sequence,
            vlan: link.vlan,
            destination_mac: link.destination_mac,
            source_mac: link.source_mac,
            data_in: 0,
            data_out: 0,
            acked: 0,
            heal: 0,
        };
        if !table.insert(&room.key, &room.probe, known.is_none()) {
            return Decision { outcome: Outcome::FailedMapFull, observe: Some(Role::Probe) };
        }
        return Decision::follow(Some(Role::Probe));
    }
    let matters = table.update(&room.key, |probe| {
        if tcp.flags & (flags::RST | flags::FIN) != 0 {
            return true;
        }
        if tcp.payload_length > 0 {
            // A new request: its answer is as interesting as the first.
            probe.data_out = 0;
            return once_more(&mut probe.data_in);
        }
        let first = probe.acked == 0;
        probe.acked = 1;
        first
    });
    match matters {
        Some(true) => Decision::follow(Some(Role::Probe)),
        Some(false) => Decision::follow(None),
        None => {
            let answers_our_syn = tcp.flags & (flags::SYN | flags::ACK) == flags::SYN | flags::ACK;
            stranger(transport.source_port, answers_our_syn)
        }
    }
}

#[inline(always)]
fn outbound<T: Table>(table: &mut T, room: &mut Room, peer: Peer, headers: &Headers) -> Decision {
    let Headers { network, transport, .. } = headers;
    let tcp = &transport.tcp;
    // A SYN of our own: the VM is the client, whatever connection had this tuple before.
    if tcp.flags & (flags::SYN | flags::ACK) == flags::SYN {
        return Decision::ignore(Outcome::IgnoredPlatform);
    }
    let key = room.key(
        peer,
        (&network.destination, transport.destination_port),
        (&network.source, transport.source_port),
    );
    let matters = table.update(key, |probe| {
        if tcp.flags & (flags::SYN | flags::RST | flags::FIN) != 0 {
            return true;
        }
        if tcp.payload_length > 0 {
            probe.data_in = 0;
            return once_more(&mut probe.data_out);
        }
        false
    });
    match matters {
        Some(true) => Decision::follow(Some(Role::Reply)),
        Some(false) => Decision::follow(None),
        None => stranger(transport.destination_port, false),
    }
}

/// TCP with a source on a connection whose SYN was not seen.
#[inline(always)]
fn stranger(source_port: u16, answers_our_syn: bool) -> Decision {
    let [a, b, c, d] = PLATFORM_PORTS;
    let platform = source_port == a || source_port == b || source_port == c || source_port == d;
    Decision::ignore(if platform || answers_our_syn {
        Outcome::IgnoredPlatform
    } else {
        Outcome::IgnoredUnknownConnection
    })
}

/// An ICMP error to a source: about a probe if it quotes one.
#[inline(always)]
fn reject<T: Table>(table: &mut T, room: &mut Room, peer: Peer, transport: &Transport) -> Decision {
    let quote = &transport.error;
    if quote.network.protocol != protocol::TCP {
        return Decision::ignore(Outcome::IgnoredOtherProtocol);
    }
    let key = room.key(
        peer,
        (&quote.network.source, quote.source_port),
        (&quote.network.destination, quote.destination_port),
    );
    match table.update(key, |_| ()) {
        Some(()) => Decision::follow(Some(Role::Reject)),
        None => Decision::ignore(Outcome::IgnoredUnknownConnection),
    }
}

/// A source on the far side of us: only what opens, answers or ends a connection matters.
#[inline(always)]
fn behind(role: Role, transport: &Transport) -> Decision {
    if transport.kind != Kind::Tcp {
        return Decision::ignore(Outcome::IgnoredOtherProtocol);
    }
    let control = transport.tcp.flags & (flags::SYN | flags::RST | flags::FIN) != 0;
    Decision::follow(if control { Some(role) } else { None })
}

/// Counts up to [`DATA_SEGMENTS`]; true for each of those.
#[inline(always)]
fn once_more(count: &mut u8) -> bool {
    let more = *count < DATA_SEGMENTS;
    if more {
        *count += 1;
    }
    more
}

/// Where bytes of a packet are that an observation carries: offset and length. Lengths are what the packet has; the
/// observation takes what it has room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    pub options: (usize, usize),
    pub payload: (usize, usize),
}

/// Fills everything of an all-zero observation but the bytes it carries; says where those are.
#[inline(always)]
pub fn observe(
    into: &mut Observation,
    place: &Place,
    nic: u32,
    role: Role,
    peer: Peer,
    length: usize,
    headers: &Headers,
) -> Pieces {
    let Headers { link, network, transport } = headers;
    into.time_ns = place.time_ns;
    into.device = place.device;
    into.nic = nic;
    into.length = length as u32;
    into.peer_id = peer.id;
    into.vlan = link.vlan;
    into.source_mac = link.source_mac;
    into.destination_mac = link.destination_mac;
    into.direction = place.direction as u8;
    into.role = role as u8;
    into.family = network.family;
    if role == Role::Reject {
        // The prober sent what is quoted.
        let quote = &transport.error;
        into.peer = quote.network.source;
        into.local = quote.network.destination;
        into.peer_port = quote.source_port;
        into.local_port = quote.destination_port;
        into.sequence = quote.sequence;
        into.icmp_type = quote.icmp_type;
        into.icmp_code = quote.icmp_code;
        return Pieces::default();
    }
    if matches!(role, Role::Probe | Role::Forwarded) {
        into.peer = network.source;
        into.local = network.destination;
        into.peer_port = transport.source_port;
        into.local_port = transport.destination_port;
    } else {
        into.peer = network.destination;
        into.local = network.source;
        into.peer_port = transport.destination_port;
        into.local_port = transport.source_port;
    }
    let tcp = &transport.tcp;
    into.sequence = tcp.sequence;
    into.acknowledgement = tcp.acknowledgement;
    into.flags = tcp.flags;
    into.window = tcp.window;
    into.payload_length = tcp.payload_length as u32;
    Pieces { options: (tcp.options, tcp.payload - tcp.options), payload: (tcp.payload, tcp.payload_length) }
}
