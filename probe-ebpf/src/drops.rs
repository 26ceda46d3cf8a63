//! Packets that the kernel throws away: raw tracepoint `kfree_skb`, for every skb of the machine.
//!
//! Nothing can be read directly here, and an skb may be at any stage. Its network header is what stays in place from
//! the driver to the socket, so everything is read from there.

use core::ffi::c_void;

use aya_ebpf::{
    helpers::{bpf_probe_read_kernel, generated},
    macros::raw_tracepoint,
    programs::RawTracePointContext,
};
use probe_common::{
    bytes::{WINDOW, Window},
    counters::{Counters, Outcome, Program},
    drops::{self, Dropped, Layout},
    parse::{self, ETHERTYPE_IPV4, ETHERTYPE_IPV6, Headers, LinkLayer},
};

use crate::{
    maps::{COUNTERS, DROP_SCRATCH, LAYOUT, OBSERVATIONS},
    sources::{self, Found},
};

/// Reads one field so that the compiler keeps the read; the verifier knows the frozen map's value.
macro_rules! layout {
    ($field:ident) => {
        // SAFETY: LAYOUT is initialised and never written by the programs.
        unsafe { core::ptr::read_volatile(&raw const (*(&raw const LAYOUT).cast::<Layout>()).$field) } as usize
    };
}

#[raw_tracepoint(tracepoint = "kfree_skb")]
fn nvaprobe_drop(context: RawTracePointContext) -> i32 {
    let Some(counters) = COUNTERS.get_ptr_mut(Program::Drops as u32) else { return 0 };
    // SAFETY: a per-CPU value, and the kernel does not nest one tracepoint program on a CPU
    // (kernel/trace/bpf_trace.c `__bpf_trace_run`).
    let counters = unsafe { &mut *counters };
    counters.seen += 1;
    let outcome = dropped(&context, counters).unwrap_or(Outcome::FailedUnreadable);
    if let Some(count) = counters.outcomes.get_mut(outcome as usize) {
        *count += 1;
    }
    0
}

/// Everything that the BPF stack has no room for. The bytes come first: the compiler reads them by a pointer that it
/// made before the last comparison of the offset, so the verifier takes some reads for longer than they can be. What
/// follows is room for that.
#[repr(C)]
pub(crate) struct Scratch {
    bytes: [u8; WINDOW],
    headers: Headers,
    found: Found,
}

/// The outcome; `None` for what could not be read.
#[inline(always)]
fn dropped(context: &RawTracePointContext, counters: &mut Counters) -> Option<Outcome> {
    let skb: usize = context.arg(0);
    let fields: u64 = read(skb + layout!(skb_protocol))?;
    let protocol = u16::from_be(fields as u16);
    if protocol != ETHERTYPE_IPV4 && protocol != ETHERTYPE_IPV6 {
        return Some(Outcome::IgnoredNotIp);
    }
    let network = network_header(skb, (fields >> layout!(skb_network_shift)) as u16)?;
    let found = if protocol == ETHERTYPE_IPV4 {
        let [from, to]: [u32; 2] = read(network + 12)?;
        sources::v4(from, to)
    } else {
        let [from, to]: [[u64; 2]; 2] = read(network + 8)?;
        sources::v6(from, to)
    };
    if !found.peer.is_some() {
        return Some(Outcome::IgnoredForeign);
    }
    of_a_source(context, counters, skb, network, found)
}

/// Where the IP header is.
#[inline(always)]
fn network_header(skb: usize, offset: u16) -> Option<usize> {
    // Not set yet: between the driver and `__netif_receive_skb_core`, where `data` is behind the link-layer header.
    if offset == 0 {
        return read(skb + layout!(skb_data));
    }
    Some(read::<usize>(skb + layout!(skb_head))? + usize::from(offset))
}

#[inline(always)]
fn of_a_source(
    context: &RawTracePointContext,
    counters: &mut Counters,
    skb: usize,
    network: usize,
    found: Found,
) -> Option<Outcome> {
    let device: usize = read(skb + layout!(skb_dev))?;
    let net = namespace(context, skb, device)?;
    let inode: u32 = read(net + layout!(net_inum))?;
    if inode as usize != layout!(namespace) {
        return Some(Outcome::IgnoredOtherNamespace);
    }
    let scratch = DROP_SCRATCH.get_ptr_mut(0)?;
    // SAFETY: a zero-initialised per-CPU value, of a type for which zero is valid, and the tracepoint does not nest.
    let Scratch { bytes, headers, found: place } = unsafe { &mut *scratch };
    // Passed through a map's memory, so that the verifier forgets which source it is: see `follow::full_look`.
    // SAFETY: a valid, aligned, exclusively borrowed place, written and read back.
    let Found { end, peer } = unsafe {
        core::ptr::from_mut(place).write_volatile(found);
        core::ptr::from_mut(place).read_volatile()
    };
    // What is there from the IP header on, and how much of it in the linear part: TCP pulls `data` behind its header,
    // the device layer pushes it before the link layer's.
    let data: usize = read(skb + layout!(skb_data))?;
    let length: u32 = read(skb + layout!(skb_len))?;
    let elsewhere: u32 = read(skb + layout!(skb_data_len))?;
    let length = (data + length as usize).wrapping_sub(network) as u32 as usize;
    let mut readable = length.saturating_sub(elsewhere as usize);
    if readable > WINDOW {
        readable = WINDOW;
    }
    // As much as there may be, a constant for the verifier: behind the linear part lies `skb_shared_info`, which is
    // longer than the window, so the read stays in the same allocation.
    copy(network, bytes)?;
    let window = Window { bytes, readable, length };
    // SAFETY: all-zero is a valid Headers, and it is its default. Zeroed in place: the stack has no room for one.
    unsafe { core::ptr::from_mut(headers).write_bytes(0, 1) };
    if let Err(error) = parse::headers(&window, LinkLayer::Raw, headers) {
        return Some(error.outcome());
    }
    let outcome = drops::classify(headers);
    if !matches!(outcome, Outcome::Followed) {
        return Some(outcome);
    }
    let ifindex: u32 = if device == 0 { 0 } else { read(device + layout!(device_ifindex))? };
    let ingress: u32 = read(skb + layout!(skb_iif))?;
    let Some(mut entry) = OBSERVATIONS.reserve::<Dropped>(0) else {
        counters.ring_lost += 1;
        return Some(outcome);
    };
    // SAFETY: the reserved bytes are ours until submitted, and all-zero is a valid Dropped.
    let into = unsafe {
        entry.as_mut_ptr().write_bytes(0, 1);
        &mut *entry.as_mut_ptr()
    };
    drops::describe(headers, end, into);
    // SAFETY: the helper takes nothing and returns a number.
    into.time_ns = unsafe { generated::bpf_ktime_get_boot_ns() };
    into.reason = context.arg(2);
    into.device = ifindex;
    into.ingress = ingress;
    into.length = length as u32;
    into.peer_id = peer.id;
    entry.submit(0);
    counters.observed += 1;
    Some(outcome)
}

/// The packet's network namespace, by whatever still knows it. The device first: a packet that crossed into another
/// namespace may still belong to a socket of the one it left.
#[inline(always)]
fn namespace(context: &RawTracePointContext, skb: usize, device: usize) -> Option<usize> {
    if device != 0 {
        return read(device + layout!(device_net));
    }
    // Before it has a way out, a packet of this host has its socket only.
    let sock: usize = read(skb + layout!(skb_sk))?;
    if sock != 0 {
        return read(sock + layout!(sock_net));
    }
    // TCP takes the device away, and says which socket dropped the packet.
    if layout!(receiver) != 0 {
        let sock: usize = context.arg(3);
        if sock != 0 {
            return read(sock + layout!(sock_net));
        }
    }
    // The route that brought it here; the low bits say who owns it (include/linux/skbuff.h `SKB_DST_PTRMASK`).
    let route = read::<usize>(skb + layout!(skb_refdst))? & !7;
    if route == 0 {
        return None;
    }
    let device: usize = read(route + layout!(dst_dev))?;
    if device == 0 { None } else { read(device + layout!(device_net)) }
}

/// Reads kernel memory. A bad address is an error of the helper, never a fault.
#[inline(always)]
fn read<T: Copy>(address: usize) -> Option<T> {
    // SAFETY: the helper checks the address, and every T read here is made of integers.
    unsafe { bpf_probe_read_kernel(address as *const T) }.ok()
}

#[inline(always)]
fn copy(address: usize, into: &mut [u8; WINDOW]) -> Option<()> {
    // SAFETY: `into` has room for the whole window, which the verifier checks once more.
    let result = unsafe {
        generated::bpf_probe_read_kernel(into.as_mut_ptr().cast(), WINDOW as u32, address as *const c_void)
    };
    if result == 0 { Some(()) } else { None }
}
