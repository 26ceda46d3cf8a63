//! Which addresses are sources.

use aya_ebpf::maps::lpm_trie::Key;
use probe_common::{
    follow::End,
    maps::{Address, LINEAR_SOURCES, Peer, map_v4},
};

use crate::{
    maps::SOURCES,
    settings::{each_of_eight, setting},
};

/// Which end of a packet is a source, and which one; `Peer::NONE` when neither is.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub(crate) end: End,
    pub(crate) peer: Peer,
}

const _: () = assert!(LINEAR_SOURCES == 8, "each_of_eight has eight turns");

/// The source among the ends of an IPv4 packet, addresses in network byte order as loaded.
#[inline(always)]
pub(crate) fn v4(from: u32, to: u32) -> Found {
    if setting!(trie) != 0 {
        return either(trie(map_v4(from.to_ne_bytes())), || trie(map_v4(to.to_ne_bytes())));
    }
    let mut behind = Peer::NONE;
    each_of_eight!(setting!(count4), |index| {
        let mask = setting!(sources4[index].mask);
        let address = setting!(sources4[index].address);
        if from & mask == address {
            return Found { end: End::From, peer: setting!(sources4[index].peer) };
        }
        if to & mask == address && !behind.is_some() {
            behind = setting!(sources4[index].peer);
        }
    });
    Found { end: End::To, peer: behind }
}

/// The source among the ends of an IPv6 packet, addresses as halves as loaded.
#[inline(always)]
pub(crate) fn v6(from: [u64; 2], to: [u64; 2]) -> Found {
    if setting!(trie) != 0 {
        return either(trie(whole(from)), || trie(whole(to)));
    }
    let mut behind = Peer::NONE;
    each_of_eight!(setting!(count6), |index| {
        let low_mask = setting!(sources6[index].mask[1]);
        let low_address = setting!(sources6[index].address[1]);
        let high_mask = setting!(sources6[index].mask[0]);
        let high_address = setting!(sources6[index].address[0]);
        if from[1] & low_mask == low_address && from[0] & high_mask == high_address {
            return Found { end: End::From, peer: setting!(sources6[index].peer) };
        }
        if to[1] & low_mask == low_address && to[0] & high_mask == high_address && !behind.is_some() {
            behind = setting!(sources6[index].peer);
        }
    });
    Found { end: End::To, peer: behind }
}

#[inline(always)]
fn either(from: Peer, to: impl FnOnce() -> Peer) -> Found {
    if from.is_some() { Found { end: End::From, peer: from } } else { Found { end: End::To, peer: to() } }
}

/// An address from its halves as loaded.
#[inline(always)]
fn whole([high, low]: [u64; 2]) -> Address {
    let ([a0, a1, a2, a3, a4, a5, a6, a7], [b0, b1, b2, b3, b4, b5, b6, b7]) =
        (high.to_ne_bytes(), low.to_ne_bytes());
    [a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7]
}

#[inline(always)]
fn trie(address: Address) -> Peer {
    match SOURCES.get(Key::new(128, address)) {
        Some(peer) => *peer,
        None => Peer::NONE,
    }
}
