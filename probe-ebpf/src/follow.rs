//! What both hooks do with a packet: a cheap first look, and a full one for the few that have a source.

use aya_ebpf::{EbpfContext, check_bounds_signed, helpers::generated::bpf_ktime_get_boot_ns};
use aya_log_ebpf::{debug, warn};
use probe_common::{
    bytes::{Bytes, WINDOW, Window},
    counters::{Counters, Outcome, Program},
    flow::{self, Tuple},
    follow::{self, End, Place, Room, Table},
    maps::{Peer, Probe, ProbeKey},
    observation::{Direction, Observation, Role},
    parse::{self, ETHERTYPE_IPV4, ETHERTYPE_IPV6, Error, Headers, Link, LinkLayer},
};

use crate::{
    flows,
    maps::{COUNTERS, DEVICES, OBSERVATIONS, PROBES, SCRATCH},
    packet::{Direct, Packet},
    sources::{self, Found},
};

/// Looks at one packet and counts exactly one outcome for it. Never changes it.
#[inline(always)]
pub(crate) fn packet<C: Packet + EbpfContext>(
    context: &C,
    program: Program,
    direction: Direction,
    layer: LinkLayer,
) {
    let Some(counters) = COUNTERS.get_ptr_mut(program as u32) else { return };
    // SAFETY: a per-CPU value, and BPF programs on one CPU do not preempt each other on one hook; a rare torn count
    // from a nested hook is what per-CPU counters always risk.
    let counters = unsafe { &mut *counters };
    counters.seen += 1;
    let outcome = match first_look(context, layer) {
        Look::Ignore(outcome) => outcome,
        Look::Follow(end, peer) => full_look(context, counters, direction, layer, Found { end, peer }),
        Look::Deep => {
            full_look(context, counters, direction, layer, Found { end: End::From, peer: Peer::NONE })
        }
        Look::Track(tuple) => match scratch() {
            Some(scratch) => {
                flows::track(counters, &mut scratch.flow, &tuple, context.device(), 0, direction)
            }
            None => Outcome::FailedUnreadable,
        },
    };
    if let Some(count) = counters.outcomes.get_mut(outcome as usize) {
        *count += 1;
    }
}

enum Look {
    Ignore(Outcome),
    Follow(End, Peer),
    /// Nobody's probe: a packet of this flow.
    Track(Tuple),
    /// Nobody's probe, and its flow takes a full look.
    Deep,
}

/// Link layer, the two addresses and, with flows on, the transport header's flags, read directly where they lie: all that
/// a stranger's packet costs.
#[inline(always)]
fn first_look<C: Packet>(context: &C, layer: LinkLayer) -> Look {
    let (data, end) = context.linear();
    let direct = Direct { data, end };
    match addresses(&direct, layer) {
        Ok(look) => look,
        Err(Error::NotIp) => Look::Ignore(Outcome::IgnoredNotIp),
        // Not in the linear part, or really not there: a copy tells.
        Err(_) => second_look(context, layer),
    }
}

#[inline(always)]
fn second_look<C: Packet>(context: &C, layer: LinkLayer) -> Look {
    let Some(scratch) = scratch() else { return Look::Ignore(Outcome::FailedUnreadable) };
    let Some(window) = copy(context, &mut scratch.bytes) else {
        return Look::Ignore(Outcome::FailedUnreadable);
    };
    match addresses(&window, layer) {
        Ok(look) => look,
        Err(Error::TooDeep) if flows::are_on() => Look::Deep,
        Err(error) => Look::Ignore(error.outcome()),
    }
}

#[inline(always)]
fn addresses<B: Bytes>(bytes: &B, layer: LinkLayer) -> Result<Look, Error> {
    let mut link = Link::default();
    parse::link(bytes, layer, &mut link)?;
    let (Found { end, peer }, family) = match link.ethertype {
        ETHERTYPE_IPV4 => {
            let (from, to) = parse::v4_addresses(bytes, link.offset)?;
            (sources::v4(from, to), 4)
        }
        ETHERTYPE_IPV6 => {
            let (from, to) = parse::v6_addresses(bytes, link.offset)?;
            (sources::v6(from, to), 6)
        }
        _ => return Err(Error::NotIp),
    };
    if peer.is_some() {
        return Ok(Look::Follow(end, peer));
    }
    Ok(match flows::look(bytes, family, link.offset)? {
        flows::Look::Ignore(outcome) => Look::Ignore(outcome),
        flows::Look::Track(tuple) => Look::Track(tuple),
        flows::Look::Deep => Look::Deep,
    })
}

/// Everything that a full look needs and the BPF stack has no room for.
pub(crate) struct Scratch {
    bytes: [u8; WINDOW],
    headers: Headers,
    room: Room,
    found: Found,
    tuple: Tuple,
    flow: flow::Room,
}

#[inline(always)]
fn scratch() -> Option<&'static mut Scratch> {
    let scratch = SCRATCH.get_ptr_mut(0)?;
    // SAFETY: a zero-initialised per-CPU value, of a type for which zero is valid (integers, arrays and enums whose
    // first variant is 0); it is this CPU's until the program returns.
    Some(unsafe { &mut *scratch })
}

/// Copies the packet's first bytes to where they are contiguous.
#[inline(always)]
fn copy<'a, C: Packet>(context: &C, into: &'a mut [u8; WINDOW]) -> Option<Window<'a>> {
    let length = context.length();
    let mut readable = length;
    if readable > WINDOW {
        readable = WINDOW;
    }
    if readable == 0 || !context.copy(0, into.as_mut_ptr(), readable) {
        return None;
    }
    Some(Window { bytes: into, readable, length })
}

#[inline(always)]
fn full_look<C: Packet + EbpfContext>(
    context: &C,
    counters: &mut Counters,
    direction: Direction,
    layer: LinkLayer,
    found: Found,
) -> Outcome {
    let Some(Scratch { bytes, headers, room, found: place, tuple, flow }) = scratch() else {
        return Outcome::FailedUnreadable;
    };
    // Passed through a map's memory, so that the verifier forgets which source it is. It knows each from the frozen
    // SETTINGS, and would go through all that follows once for each: with eight, more steps than it grants.
    // SAFETY: a valid, aligned, exclusively borrowed place, written and read back.
    let Found { end, peer } = unsafe {
        core::ptr::from_mut(place).write_volatile(found);
        core::ptr::from_mut(place).read_volatile()
    };
    let Some(window) = copy(context, bytes) else { return Outcome::FailedUnreadable };
    // SAFETY: all-zero is a valid Headers, and it is its default. Zeroed in place: the stack has no room for one.
    unsafe { core::ptr::from_mut(headers).write_bytes(0, 1) };
    if let Err(error) = parse::headers(&window, layer, headers) {
        return error.outcome();
    }
    if !peer.is_some() {
        return flows::track_whole(counters, flow, tuple, &window, headers, context.device(), direction);
    }
    let mut length = window.length;
    if let Some(tci) = context.stripped_tag() {
        if let Err(error) = headers.link.push_outer_tag(tci) {
            return error.outcome();
        }
        length += parse::TAG;
    }
    // SAFETY: the helper takes nothing and returns a number.
    let time_ns = unsafe { bpf_ktime_get_boot_ns() };
    let place = Place { time_ns, device: context.device(), direction };
    let decision = follow::decide(&mut Probes { counters }, room, &place, end, peer, headers);
    if matches!(decision.outcome, Outcome::FailedMapFull) {
        warn!(context, "PROBES takes no new entry");
    }
    if let Some(role) = decision.observe {
        observe(context, counters, &place, role, peer, length, headers);
    }
    decision.outcome
}

/// Puts an observation into the ring; a full ring is counted, and the packet goes on.
#[inline(always)]
fn observe<C: Packet + EbpfContext>(
    context: &C,
    counters: &mut Counters,
    place: &Place,
    role: Role,
    peer: Peer,
    length: usize,
    headers: &Headers,
) {
    let Some(mut entry) = OBSERVATIONS.reserve::<Observation>(0) else {
        counters.ring_lost += 1;
        debug!(context, "the ring is full");
        return;
    };
    // SAFETY: the reserved bytes are ours until submitted, and all-zero is a valid Observation. Zeroed in place:
    // an EMPTY on the stack would not fit there.
    let into = unsafe {
        entry.as_mut_ptr().write_bytes(0, 1);
        &mut *entry.as_mut_ptr()
    };
    let nic = nic(place.device);
    let pieces = follow::observe(into, place, nic, role, peer, length, headers);
    let copied = piece(context, pieces.options, &mut into.options);
    into.options_length = copied as u8;
    let copied = piece(context, pieces.payload, &mut into.payload);
    into.captured = copied as u16;
    entry.submit(0);
    counters.observed += 1;
}

/// Copies a piece of the packet as far as there is room. Returns how much.
#[inline(always)]
fn piece<C: Packet, const N: usize>(
    context: &C,
    (offset, length): (usize, usize),
    into: &mut [u8; N],
) -> usize {
    let mut length = length;
    if length > N {
        length = N;
    }
    // As inline assembly, on the very register that the helper gets: the compiler would rather test the operands of
    // the subtraction, which tells the verifier nothing about their difference.
    if check_bounds_signed(length as i64, 1, N as i64) && context.copy(offset, into.as_mut_ptr(), length) {
        length
    } else {
        0
    }
}

#[inline(always)]
fn nic(device: u32) -> u32 {
    match DEVICES.get_ptr(device) {
        // SAFETY: a map value that the kernel keeps alive for the program's run; one aligned word.
        Some(entry) => unsafe { (*entry).nic },
        None => device,
    }
}

/// `PROBES` as the table of the shared decisions.
struct Probes<'a> {
    counters: &'a mut Counters,
}

impl Table for Probes<'_> {
    #[inline(always)]
    fn update<R>(&mut self, key: &ProbeKey, change: impl FnOnce(&mut Probe) -> R) -> Option<R> {
        let probe = PROBES.get_ptr_mut(key)?;
        // SAFETY: the entry stays valid for the program's run (RCU); its counters are bytes, so two CPUs on one
        // connection can at worst observe one segment more.
        Some(change(unsafe { &mut *probe }))
    }

    #[inline(always)]
    fn insert(&mut self, key: &ProbeKey, probe: &Probe, new: bool) -> bool {
        let fits = PROBES.insert(key, probe, 0).is_ok();
        if fits && new {
            self.counters.inserted += 1;
        }
        fits
    }

    #[inline(always)]
    fn nic(&self, device: u32) -> u32 {
        nic(device)
    }
}
