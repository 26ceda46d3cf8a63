//! Which addresses are sources.

use aya_ebpf::maps::lpm_trie::Key;
use probe_common::maps::{Address, LINEAR_SOURCES, Peer, Settings, map_v4};

use crate::maps::{SETTINGS, SOURCES};

/// Read-only data that userspace wrote before loading.
#[inline(always)]
fn settings() -> *const Settings {
    (&raw const SETTINGS).cast()
}

/// Reads one field so that the compiler keeps the read; the verifier knows the frozen map's value and prunes.
macro_rules! setting {
    ($($field:tt)*) => {
        // SAFETY: SETTINGS is initialised, never written by the programs, and indices are below the array lengths.
        unsafe { core::ptr::read_volatile(&raw const (*settings()).$($field)*) }
    };
}

/// The peer of an IPv4 address, in network byte order as loaded.
#[inline(always)]
pub(crate) fn v4(address: u32) -> Peer {
    if setting!(trie) != 0 {
        return trie(map_v4(address.to_ne_bytes()));
    }
    let count = setting!(count4) as usize;
    for index in 0..LINEAR_SOURCES {
        if index >= count {
            return Peer::NONE;
        }
        if address & setting!(sources4[index].mask) == setting!(sources4[index].address) {
            return setting!(sources4[index].peer);
        }
    }
    Peer::NONE
}

/// The peer of an IPv6 address.
#[inline(always)]
pub(crate) fn v6(address: Address) -> Peer {
    if setting!(trie) != 0 {
        return trie(address);
    }
    let [a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7] = address;
    let high = u64::from_ne_bytes([a0, a1, a2, a3, a4, a5, a6, a7]);
    let low = u64::from_ne_bytes([b0, b1, b2, b3, b4, b5, b6, b7]);
    let count = setting!(count6) as usize;
    for index in 0..LINEAR_SOURCES {
        if index >= count {
            return Peer::NONE;
        }
        if high & setting!(sources6[index].mask[0]) == setting!(sources6[index].address[0])
            && low & setting!(sources6[index].mask[1]) == setting!(sources6[index].address[1])
        {
            return setting!(sources6[index].peer);
        }
    }
    Peer::NONE
}

#[inline(always)]
fn trie(address: Address) -> Peer {
    match SOURCES.get(Key::new(128, address)) {
        Some(peer) => *peer,
        None => Peer::NONE,
    }
}
