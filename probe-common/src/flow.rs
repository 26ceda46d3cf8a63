//! Which flows pass, and what was seen of each, both ways, on each NIC.
//!
//! The kernel half runs [`look`] and [`enter`] over its LRU map, a replay over a table of its own. Nothing is judged
//! here: counts and times only, each of them right with two CPUs on one flow.

use crate::{
    bytes::Bytes,
    counters::Outcome,
    maps::{Address, V4_MAPPED},
    observation::{Direction, flags},
    parse::{self, Error, Fragment, Headers, Kind, protocol},
    word::Word,
};

/// How much of the traffic is followed; the value of `Settings::flows`.
pub mod mode {
    /// Nothing.
    pub const OFF: u32 = 0;
    /// TCP packets that open, answer or end a connection; UDP and ICMP echo.
    pub const CONTROL: u32 = 1;
    /// Every packet of TCP, too.
    pub const FULL: u32 = 2;
}

/// TCP flags that make a packet matter in [`mode::CONTROL`].
const CONTROL_FLAGS: u8 = flags::SYN | flags::FIN | flags::RST;

/// Packets of a way whose time is always taken without TCP's signs; after those, that of one in [`SAMPLE`].
const TIMED: u64 = 16;
const SAMPLE: u64 = 64;

/// What a packet does to its flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Sign {
    /// Nothing particular: TCP data, any UDP.
    #[default]
    None,
    /// Opens it: SYN, echo request.
    Open,
    /// Answers the opening: SYN-ACK, echo reply.
    Answer,
    /// FIN.
    Fin,
    /// Ends it: RST, or an ICMP error that says the destination cannot be reached.
    Reset,
}

impl Sign {
    #[inline(always)]
    const fn of_tcp(byte: u8) -> Self {
        if byte & flags::RST != 0 {
            Self::Reset
        } else if byte & flags::SYN != 0 {
            if byte & flags::ACK != 0 { Self::Answer } else { Self::Open }
        } else if byte & flags::FIN != 0 {
            Self::Fin
        } else {
            Self::None
        }
    }
}

/// One packet as a member of its flow, ends as its sender has them. Words and ports as loaded from the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Tuple {
    pub from: [u64; 2],
    pub to: [u64; 2],
    /// In network byte order; of ICMP echo the identifier, twice.
    pub from_port: u16,
    pub to_port: u16,
    pub protocol: u8,
    /// 4 or 6.
    pub family: u8,
    pub sign: Sign,
    /// 1 for an ICMP error about the flow: it makes no entry.
    pub quoted: u8,
}

/// A mapped IPv4 address as two words.
#[inline(always)]
const fn v4_words(address: u32) -> [u64; 2] {
    let [a, b, c, d] = address.to_ne_bytes();
    let [_, _, _, _, _, _, _, _, p0, p1, p2, p3] = V4_MAPPED;
    [0, u64::from_ne_bytes([p0, p1, p2, p3, a, b, c, d])]
}

/// An address as two words, as they are loaded.
#[inline(always)]
pub const fn words(address: &Address) -> [u64; 2] {
    let [a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7] = *address;
    [
        u64::from_ne_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
        u64::from_ne_bytes([b0, b1, b2, b3, b4, b5, b6, b7]),
    ]
}

/// What a first look makes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The tuple is filled.
    Tuple,
    /// Not of interest in this mode, or no protocol that has flows.
    Ignore(Outcome),
    /// To this UDP port (network byte order), whose payload starts there: a tunnel, perhaps.
    Udp { port: u16, payload: usize },
}

/// The IP packet at `offset`, by its fixed header and without a loop: fragments are told, and what has options,
/// extension headers or a quote is [`Error::TooDeep`], for [`Tuple::fill`] to do.
#[inline(always)]
pub fn look<B: Bytes + ?Sized>(
    bytes: &B,
    family: u8,
    offset: usize,
    mode: u32,
    into: &mut Tuple,
) -> Result<Seen, Error> {
    let (next, transport) = if family == 4 {
        let [first, _, _, _, _, _, f0, f1, _, next] = bytes.load::<10>(offset).ok_or(Error::TooDeep)?;
        if first != 0x45 {
            return Err(Error::TooDeep);
        }
        if u16::from_be_bytes([f0, f1]) & 0x1fff != 0 {
            return Ok(Seen::Ignore(Outcome::IgnoredFragment));
        }
        (next, offset + 20)
    } else {
        let [first, _, _, _, _, _, next, _] = bytes.load::<8>(offset).ok_or(Error::TooDeep)?;
        if first >> 4 != 6 {
            return Err(Error::TooDeep);
        }
        (next, offset + 40)
    };
    let ports;
    let sign;
    match (next, family) {
        (protocol::TCP, _) => {
            let [s0, s1, d0, d1, _, _, _, _, _, _, _, _, _, byte] =
                bytes.load::<14>(transport).ok_or(Error::TooDeep)?;
            if mode == mode::CONTROL && byte & CONTROL_FLAGS == 0 {
                return Ok(Seen::Ignore(Outcome::IgnoredForeign));
            }
            sign = Sign::of_tcp(byte);
            ports = [u16::from_ne_bytes([s0, s1]), u16::from_ne_bytes([d0, d1])];
        }
        (protocol::UDP, _) => {
            let [s0, s1, d0, d1, _, _, _, _] = bytes.load::<8>(transport).ok_or(Error::TooDeep)?;
            sign = Sign::None;
            ports = [u16::from_ne_bytes([s0, s1]), u16::from_ne_bytes([d0, d1])];
        }
        (protocol::ICMP, 4) | (protocol::ICMPV6, 6) => {
            let [kind, _, _, _, i0, i1, _, _] = bytes.load::<8>(transport).ok_or(Error::TooDeep)?;
            sign = match (echo(kind, family), unreachable(kind, family)) {
                (Sign::None, true) => return Err(Error::TooDeep),
                (Sign::None, false) => return Ok(Seen::Ignore(Outcome::IgnoredForeign)),
                (sign, _) => sign,
            };
            ports = [u16::from_ne_bytes([i0, i1]); 2];
        }
        // A header before the transport's, by the list of IANA that `parse` follows.
        (0 | 43 | 44 | 51 | 60 | 135, 6) => return Err(Error::TooDeep),
        _ => return Ok(Seen::Ignore(Outcome::IgnoredForeign)),
    }
    if family == 4 {
        let [both] = bytes.words::<1>(offset + 12).ok_or(Error::TooDeep)?;
        let [s0, s1, s2, s3, d0, d1, d2, d3] = both.to_ne_bytes();
        into.from = v4_words(u32::from_ne_bytes([s0, s1, s2, s3]));
        into.to = v4_words(u32::from_ne_bytes([d0, d1, d2, d3]));
    } else {
        let [s0, s1, d0, d1] = bytes.words::<4>(offset + 8).ok_or(Error::TooDeep)?;
        into.from = [s0, s1];
        into.to = [d0, d1];
    }
    let [from_port, to_port] = ports;
    into.from_port = from_port;
    into.to_port = to_port;
    into.protocol = next;
    into.family = family;
    into.sign = sign;
    into.quoted = 0;
    Ok(if next == protocol::UDP { Seen::Udp { port: to_port, payload: transport + 8 } } else { Seen::Tuple })
}

/// Echo request and reply (RFC 792, RFC 4443).
#[inline(always)]
const fn echo(icmp_type: u8, family: u8) -> Sign {
    match (icmp_type, family) {
        (8, 4) | (128, 6) => Sign::Open,
        (0, 4) | (129, 6) => Sign::Answer,
        _ => Sign::None,
    }
}

/// Destination unreachable.
#[inline(always)]
const fn unreachable(icmp_type: u8, family: u8) -> bool {
    matches!((icmp_type, family), (3, 4) | (1, 6))
}

impl Tuple {
    /// From whole headers.
    #[inline(always)]
    pub fn fill(&mut self, headers: &Headers, mode: u32) -> Seen {
        let Headers { network, transport, .. } = headers;
        if matches!(network.fragment, Fragment::Later) {
            return Seen::Ignore(Outcome::IgnoredFragment);
        }
        self.from = words(&network.source);
        self.to = words(&network.destination);
        self.from_port = transport.source_port.to_be();
        self.to_port = transport.destination_port.to_be();
        self.protocol = network.protocol;
        self.family = network.family;
        self.sign = Sign::None;
        self.quoted = 0;
        match transport.kind {
            Kind::Tcp => {
                if mode == mode::CONTROL && transport.tcp.flags & CONTROL_FLAGS == 0 {
                    return Seen::Ignore(Outcome::IgnoredForeign);
                }
                self.sign = Sign::of_tcp(transport.tcp.flags);
                Seen::Tuple
            }
            Kind::Udp => Seen::Udp { port: self.to_port, payload: network.transport + 8 },
            Kind::Echo => {
                self.sign = echo(transport.error.icmp_type, network.family);
                Seen::Tuple
            }
            Kind::Error => {
                let quote = &transport.error;
                let ported = matches!(quote.network.protocol, protocol::TCP | protocol::UDP);
                // A too long packet (code 4, RFC 1191) was refused, its flow was not.
                if !ported
                    || quote.source_port == 0
                    || !unreachable(quote.icmp_type, network.family)
                    || (network.family == 4 && quote.icmp_code == 4)
                {
                    return Seen::Ignore(Outcome::IgnoredForeign);
                }
                // It speaks for the far end of what it quotes.
                self.from = words(&quote.network.destination);
                self.to = words(&quote.network.source);
                self.from_port = quote.destination_port.to_be();
                self.to_port = quote.source_port.to_be();
                self.protocol = quote.network.protocol;
                self.sign = Sign::Reset;
                self.quoted = 1;
                Seen::Tuple
            }
            Kind::Other => Seen::Ignore(Outcome::IgnoredForeign),
        }
    }
}

/// Key of `FLOWS`: a tuple in canonical order on one logical NIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct FlowKey {
    /// The two ends, the lower first (by their words as loaded, then their ports).
    pub addresses: [[u64; 2]; 2],
    /// In network byte order.
    pub ports: [u16; 2],
    /// ifindex of the logical NIC.
    pub nic: u32,
    pub protocol: u8,
    /// 4 or 6.
    pub family: u8,
    /// Place in `Settings::tunnels`, from 1, of the tunnel that carries it; 0 for none.
    pub tunnel: u8,
    pub pad: u8,
    pub rest: u32,
}

impl FlowKey {
    /// One end's address.
    pub fn address(&self, end: usize) -> Address {
        let [high, low] = self.addresses[end & 1].map(u64::to_ne_bytes);
        let mut address = [0; 16];
        address[..8].copy_from_slice(&high);
        address[8..].copy_from_slice(&low);
        address
    }

    /// One end's port.
    pub const fn port(&self, end: usize) -> u16 {
        u16::from_be(self.ports[end & 1])
    }
}

/// What went one way of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Way {
    /// `CLOCK_BOOTTIME` of the first and the last packet, ns; 0 for none. Of a long UDP flow one in 64 is timed.
    pub first_ns: u64,
    pub last_ns: u64,
    /// Packets that entered by the NIC.
    pub entered: u64,
    /// Packets that left by it.
    pub left: u64,
    /// How many of them had which [`Sign`].
    pub opened: u64,
    pub answered: u64,
    pub fin: u64,
    pub reset: u64,
}

/// Value of `FLOWS`: the two ways. The first is from the lower end to the upper one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Flow {
    pub ways: [Way; 2],
    /// How often the tuple was opened anew after its end.
    pub reopened: u64,
    /// Which way the first packet went.
    pub first_way: u64,
}

/// A [`Way`] that two CPUs may be at: the same layout, changed by atomic additions (Linux 5.10 has no other).
#[derive(Debug, Default)]
#[repr(C)]
pub struct SharedWay {
    first_ns: Word,
    last_ns: Word,
    entered: Word,
    left: Word,
    opened: Word,
    answered: Word,
    fin: Word,
    reset: Word,
}

/// A [`Flow`] that two CPUs may be at.
#[derive(Debug, Default)]
#[repr(C)]
pub struct SharedFlow {
    ways: [SharedWay; 2],
    reopened: Word,
    first_way: Word,
}

impl SharedFlow {
    /// What it says now.
    pub fn read(&self) -> Flow {
        let [first, second] = &self.ways;
        Flow {
            ways: [first.read(), second.read()],
            reopened: self.reopened.load(),
            first_way: self.first_way.load(),
        }
    }

    #[inline(always)]
    const fn way(&self, second: bool) -> &SharedWay {
        let [first, other] = &self.ways;
        if second { other } else { first }
    }

    /// Makes an entry of it that says nothing yet.
    #[inline(always)]
    fn begin(&self, reopened: u64, second: bool) {
        let [first, other] = &self.ways;
        first.begin();
        other.begin();
        self.reopened.store(reopened);
        self.first_way.store(u64::from(second));
    }

    /// Whether a SYN on this tuple begins another flow.
    #[inline(always)]
    fn has_ended(&self) -> bool {
        let [a, b] = &self.ways;
        a.reset.load() | b.reset.load() != 0 || (a.fin.load() != 0 && b.fin.load() != 0)
    }
}

impl SharedWay {
    fn read(&self) -> Way {
        Way {
            first_ns: self.first_ns.load(),
            last_ns: self.last_ns.load(),
            entered: self.entered.load(),
            left: self.left.load(),
            opened: self.opened.load(),
            answered: self.answered.load(),
            fin: self.fin.load(),
            reset: self.reset.load(),
        }
    }

    #[inline(always)]
    fn begin(&self) {
        self.first_ns.store(0);
        self.last_ns.store(0);
        for count in [&self.entered, &self.left, &self.opened, &self.answered, &self.fin, &self.reset] {
            count.store(0);
        }
    }

    /// Counts a packet.
    #[inline(always)]
    fn note(&self, sign: Sign, direction: Direction, clock: impl Fn() -> u64) {
        let count = match direction {
            Direction::Ingress => &self.entered,
            Direction::Egress => &self.left,
        };
        let before = count.load();
        if !matches!(sign, Sign::None) || before < TIMED || before % SAMPLE == 0 {
            let now = clock();
            if self.first_ns.load() == 0 {
                self.first_ns.store(now);
            }
            self.last_ns.store(now);
        }
        count.add_one();
        match sign {
            Sign::None => {}
            Sign::Open => self.opened.add_one(),
            Sign::Answer => self.answered.add_one(),
            Sign::Fin => self.fin.add_one(),
            Sign::Reset => self.reset.add_one(),
        }
    }
}

/// The table of flows.
pub trait Flows {
    /// The entry, if there is one. Others may be at it.
    fn get(&mut self, key: &FlowKey) -> Option<&SharedFlow>;

    /// Puts an entry in: only if there is none, unless it `replaces` one.
    fn insert(&mut self, key: &FlowKey, flow: &SharedFlow, replaces: bool) -> Inserted;
}

/// What became of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    Yes,
    /// Another CPU was first.
    Exists,
    /// No memory, or no place.
    Full,
    Refused,
}

/// Where a packet was seen.
#[derive(Clone, Copy, Debug)]
pub struct Sight {
    /// ifindex of the logical NIC.
    pub nic: u32,
    /// Place of its tunnel in `Settings::tunnels`, from 1; 0 for none.
    pub tunnel: u8,
    pub direction: Direction,
}

/// Room for what an entry is built of: the BPF half keeps it off its small stack.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Room {
    key: FlowKey,
    flow: SharedFlow,
}

/// Enters a packet. The clock is asked only if the time is needed.
#[inline(always)]
pub fn enter<T: Flows>(
    table: &mut T,
    room: &mut Room,
    tuple: &Tuple,
    sight: Sight,
    clock: impl Fn() -> u64,
) -> Outcome {
    let Room { key, flow } = room;
    let Sight { nic, tunnel, direction } = sight;
    let second = canonical(tuple, key);
    key.nic = nic;
    key.protocol = tuple.protocol;
    key.family = tuple.family;
    key.tunnel = tunnel;
    let opens = tuple.protocol == protocol::TCP && matches!(tuple.sign, Sign::Open);
    let mut reopened = 0;
    let mut replaces = false;
    match table.get(key) {
        Some(there) if opens && there.has_ended() => {
            reopened = there.reopened.load() + 1;
            replaces = true;
        }
        Some(there) => {
            there.way(second).note(tuple.sign, direction, clock);
            return Outcome::Tracked;
        }
        None if tuple.quoted != 0 => return Outcome::IgnoredForeign,
        None => {}
    }
    flow.begin(reopened, second);
    flow.way(second).note(tuple.sign, direction, &clock);
    match table.insert(key, flow, replaces) {
        Inserted::Yes => Outcome::Tracked,
        Inserted::Exists => {
            if let Some(there) = table.get(key) {
                there.way(second).note(tuple.sign, direction, clock);
            }
            Outcome::Tracked
        }
        Inserted::Full => Outcome::FailedFlowsFull,
        Inserted::Refused => Outcome::FailedFlowsRefused,
    }
}

/// Puts the ends into `key`, the lower first; true when the packet goes from the upper to the lower.
#[inline(always)]
fn canonical(tuple: &Tuple, key: &mut FlowKey) -> bool {
    let Tuple { from, to, from_port, to_port, .. } = tuple;
    let second = if from[1] != to[1] {
        from[1] > to[1]
    } else if from[0] != to[0] {
        from[0] > to[0]
    } else {
        from_port > to_port
    };
    if second {
        key.addresses = [*to, *from];
        key.ports = [*to_port, *from_port];
    } else {
        key.addresses = [*from, *to];
        key.ports = [*from_port, *to_port];
    }
    second
}

/// Kinds of tunnel; the value of [`crate::maps::Tunnel::kind`].
pub mod tunnel {
    /// RFC 7348.
    pub const VXLAN: u16 = 1;
    /// RFC 8926.
    pub const GENEVE: u16 = 2;
    /// A device of this host carries it: its flows are seen there, and here nothing is.
    pub const DEVICE: u16 = 3;
    /// Any network identifier.
    pub const ANY: u32 = u32::MAX;
}

/// What a tunnel's payload holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    /// Where the inner frame, or packet, starts.
    pub offset: usize,
    /// Whether an Ethernet header comes first.
    pub ethernet: bool,
    pub vni: u32,
}

/// The header of VXLAN (RFC 7348, 5) or GENEVE (RFC 8926, 3.4) at `offset`; `None` when it is none of that kind or
/// holds neither Ethernet nor IP.
#[inline(always)]
pub fn inside<B: Bytes + ?Sized>(bytes: &B, kind: u16, offset: usize) -> Option<Inside> {
    let [first, _, p0, p1, v0, v1, v2, _] = bytes.load::<8>(offset)?;
    let vni = u32::from_be_bytes([0, v0, v1, v2]);
    if kind == tunnel::VXLAN {
        // The I flag says that the identifier is valid.
        return if first & 0x08 == 0 {
            None
        } else {
            Some(Inside { offset: offset + 8, ethernet: true, vni })
        };
    }
    if first >> 6 != 0 {
        return None;
    }
    let ethernet = match u16::from_be_bytes([p0, p1]) {
        0x6558 => true,
        parse::ETHERTYPE_IPV4 | parse::ETHERTYPE_IPV6 => false,
        _ => return None,
    };
    Some(Inside { offset: offset + 8 + usize::from(first & 0x3f) * 4, ethernet, vni })
}

#[cfg(feature = "user")]
mod user {
    use super::{Flow, FlowKey};

    // SAFETY: `repr(C)` with explicit padding (checked by the size assertions below); every bit pattern is valid.
    unsafe impl aya::Pod for FlowKey {}
    // SAFETY: as above.
    unsafe impl aya::Pod for Flow {}
}

const _: () = {
    assert!(size_of::<FlowKey>() == 48);
    assert!(size_of::<Way>() == 64);
    assert!(size_of::<Flow>() == 144);
    assert!(size_of::<SharedWay>() == size_of::<Way>());
    assert!(size_of::<SharedFlow>() == size_of::<Flow>());
};
