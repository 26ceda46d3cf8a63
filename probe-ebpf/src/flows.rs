//! Packets that are nobody's probe, entered into the table of flows.

use aya_ebpf::{
    bindings::{BPF_ANY, BPF_NOEXIST},
    helpers::generated::bpf_ktime_get_boot_ns,
};
use probe_common::{
    bytes::{Bytes, Inner, Window},
    counters::{Counters, Outcome},
    flow::{self, FlowKey, Flows, Inserted, Room, Seen, SharedFlow, Sight, Tuple, mode, tunnel},
    maps::TUNNELS,
    observation::Direction,
    parse::{self, ETHERTYPE_IPV4, ETHERTYPE_IPV6, Error, Headers, Link, LinkLayer},
};

use crate::{
    maps::{DEVICES, FLOWS},
    settings::{each_of_eight, setting},
};

const _: () = assert!(TUNNELS == 8, "each_of_eight has eight turns");

const ENOMEM: i64 = -12;
const E2BIG: i64 = -7;
const EEXIST: i64 = -17;

/// What a first look at a stranger's packet says.
pub(crate) enum Look {
    Ignore(Outcome),
    /// Enter this.
    Track(Tuple),
    /// Options, extension headers, a quote or a tunnel: only whole headers tell.
    Deep,
}

/// Whether any flows are followed.
#[inline(always)]
pub(crate) fn are_on() -> bool {
    setting!(flows) != mode::OFF
}

/// A first look. Costs nothing while flows are off: the verifier knows the setting and takes the rest out.
#[inline(always)]
pub(crate) fn look<B: Bytes>(bytes: &B, family: u8, offset: usize) -> Result<Look, Error> {
    let mode = setting!(flows);
    if mode == mode::OFF {
        return Ok(Look::Ignore(Outcome::IgnoredForeign));
    }
    let mut tuple = Tuple::default();
    Ok(match flow::look(bytes, family, offset, mode, &mut tuple)? {
        Seen::Ignore(outcome) => Look::Ignore(outcome),
        Seen::Udp { port, .. } if kind(port) != 0 => Look::Deep,
        Seen::Tuple | Seen::Udp { .. } => Look::Track(tuple),
    })
}

/// What kind of tunnel goes to this port; 0 for none.
#[inline(always)]
fn kind(port: u16) -> u16 {
    each_of_eight!(setting!(tunnel_count), |index| {
        if setting!(tunnels[index].port) == port {
            return setting!(tunnels[index].kind);
        }
    });
    0
}

/// Place of a tunnel in the list, from 1; 0 when it is none of them.
#[inline(always)]
fn place(port: u16, vni: u32) -> u8 {
    each_of_eight!(setting!(tunnel_count), |index| {
        let wanted = setting!(tunnels[index].vni);
        if setting!(tunnels[index].port) == port && (wanted == tunnel::ANY || wanted == vni) {
            return index as u8 + 1;
        }
    });
    0
}

/// Enters a packet, if its device is one whose flows are followed.
#[inline(always)]
pub(crate) fn track(
    counters: &mut Counters,
    room: &mut Room,
    tuple: &Tuple,
    device: u32,
    tunnel: u8,
    direction: Direction,
) -> Outcome {
    let Some(entry) = DEVICES.get_ptr(device) else { return Outcome::IgnoredForeign };
    // SAFETY: a map value that the kernel keeps alive for the program's run; aligned words.
    let (nic, flows) = unsafe { ((*entry).nic, (*entry).flows) };
    if flows == 0 {
        return Outcome::IgnoredForeign;
    }
    // SAFETY: the helper takes nothing and returns a number.
    let clock = || unsafe { bpf_ktime_get_boot_ns() };
    flow::enter(&mut Table { counters }, room, tuple, Sight { nic, tunnel, direction }, clock)
}

/// Enters a packet whose whole headers are known; what a tunnel carries in its place.
#[inline(always)]
pub(crate) fn track_whole(
    counters: &mut Counters,
    room: &mut Room,
    tuple: &mut Tuple,
    window: &Window<'_>,
    headers: &Headers,
    device: u32,
    direction: Direction,
) -> Outcome {
    let mode = setting!(flows);
    let mut place = 0;
    match tuple.fill(headers, mode) {
        Seen::Ignore(outcome) => return outcome,
        Seen::Tuple => {}
        Seen::Udp { port, payload } => {
            let kind = kind(port);
            if kind == tunnel::DEVICE {
                return Outcome::IgnoredForeign;
            }
            if kind != 0 {
                match carried(window, kind, port, payload, mode, tuple) {
                    Ok(Carried::Ignore(outcome)) => return outcome,
                    Ok(Carried::Tuple(tunnel)) => place = tunnel,
                    Err(error) => return error.outcome(),
                }
            }
        }
    }
    track(counters, room, tuple, device, place, direction)
}

enum Carried {
    Ignore(Outcome),
    /// By the tunnel at this place of the list.
    Tuple(u8),
}

/// What a tunnel's packet carries.
#[inline(always)]
fn carried(
    window: &Window<'_>,
    kind: u16,
    port: u16,
    payload: usize,
    mode: u32,
    tuple: &mut Tuple,
) -> Result<Carried, Error> {
    let foreign = Ok(Carried::Ignore(Outcome::IgnoredForeign));
    let Some(inside) = flow::inside(window, kind, payload) else { return foreign };
    let place = place(port, inside.vni);
    if place == 0 {
        return foreign;
    }
    let bytes = Inner { bytes: window, start: inside.offset };
    let mut link = Link::default();
    parse::link(&bytes, if inside.ethernet { LinkLayer::Ethernet } else { LinkLayer::Raw }, &mut link)?;
    let family = match link.ethertype {
        ETHERTYPE_IPV4 => 4,
        ETHERTYPE_IPV6 => 6,
        _ => return Err(Error::NotIp),
    };
    Ok(match flow::look(&bytes, family, link.offset, mode, tuple)? {
        Seen::Ignore(outcome) => Carried::Ignore(outcome),
        Seen::Tuple | Seen::Udp { .. } => Carried::Tuple(place),
    })
}

/// `FLOWS` as the table of the shared code.
struct Table<'a> {
    counters: &'a mut Counters,
}

impl Flows for Table<'_> {
    #[inline(always)]
    fn get(&mut self, key: &FlowKey) -> Option<&SharedFlow> {
        let flow = FLOWS.get_ptr(key)?;
        // SAFETY: the entry stays valid for the program's run (RCU), and is only changed by atomic operations.
        Some(unsafe { &*flow })
    }

    #[inline(always)]
    fn insert(&mut self, key: &FlowKey, flow: &SharedFlow, replaces: bool) -> Inserted {
        let flags = if replaces { BPF_ANY } else { BPF_NOEXIST };
        match FLOWS.insert(key, flow, u64::from(flags)) {
            Ok(()) => {
                if !replaces {
                    self.counters.flows_inserted += 1;
                }
                Inserted::Yes
            }
            Err(error) => match i64::from(error) {
                EEXIST => Inserted::Exists,
                ENOMEM | E2BIG => Inserted::Full,
                _ => Inserted::Refused,
            },
        }
    }
}
