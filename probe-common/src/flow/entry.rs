//! What the table holds: key and value, the value also as the programs change it.

use super::Sign;
use crate::{maps::Address, observation::Direction, word::Word};

/// Packets of a way whose time is always taken without TCP's signs; after those, that of one in [`SAMPLE`].
const TIMED: u64 = 16;
const SAMPLE: u64 = 64;

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
    pub(super) reopened: Word,
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
    pub(super) const fn way(&self, second: bool) -> &SharedWay {
        let [first, other] = &self.ways;
        if second { other } else { first }
    }

    /// Makes an entry of it that says nothing yet.
    #[inline(always)]
    pub(super) fn begin(&self, reopened: u64, second: bool) {
        let [first, other] = &self.ways;
        first.begin();
        other.begin();
        self.reopened.store(reopened);
        self.first_way.store(u64::from(second));
    }

    /// Whether a SYN on this tuple begins another flow.
    #[inline(always)]
    pub(super) fn has_ended(&self) -> bool {
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
    pub(super) fn note(&self, sign: Sign, direction: Direction, clock: impl Fn() -> u64) {
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
