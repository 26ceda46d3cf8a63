//! Which flows pass, and what was seen of each, both ways, on each NIC.
//!
//! The kernel half runs [`look`] and [`enter`] over its LRU map, a replay over a table of its own. Nothing is judged
//! here: counts and times only, each of them right with two CPUs on one flow.

mod entry;
pub mod tunnel;
mod tuple;

pub use entry::{Flow, FlowKey, SharedFlow, SharedWay, Way};
pub use tunnel::{Inside, inside};
pub use tuple::{Seen, Sign, Tuple, look, words};

use crate::{counters::Outcome, observation::Direction, parse::protocol};

/// How much of the traffic is followed; the value of `Settings::flows`.
pub mod mode {
    /// Nothing.
    pub const OFF: u32 = 0;
    /// TCP packets that open, answer or end a connection; UDP and ICMP echo.
    pub const CONTROL: u32 = 1;
    /// Every packet of TCP, too.
    pub const FULL: u32 = 2;
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
