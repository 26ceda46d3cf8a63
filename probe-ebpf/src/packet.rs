//! One view of a packet for XDP and TC.

use aya_ebpf::{
    EbpfContext,
    helpers::generated::{bpf_skb_load_bytes, bpf_xdp_get_buff_len, bpf_xdp_load_bytes},
    programs::{TcContext, XdpContext},
};
use probe_common::bytes::Bytes;

/// A packet as a hook sees it.
pub(crate) trait Packet {
    /// First and last-plus-one address of the bytes that can be read directly.
    fn linear(&self) -> (usize, usize);

    /// Length of the whole packet.
    fn length(&self) -> usize;

    /// Copies `length` bytes from `offset`, wherever they are; false when they are not there.
    fn copy(&self, offset: usize, into: *mut u8, length: usize) -> bool;

    /// ifindex of the device.
    fn device(&self) -> u32;

    /// The VLAN tag that was taken out of the frame, if one was.
    fn stripped_tag(&self) -> Option<u16>;
}

impl Packet for XdpContext {
    #[inline(always)]
    fn linear(&self) -> (usize, usize) {
        (self.data(), self.data_end())
    }

    #[inline(always)]
    fn length(&self) -> usize {
        // SAFETY: the helper only reads the context that the kernel passed in (Linux 5.18, as xdp.frags is).
        unsafe { bpf_xdp_get_buff_len(self.ctx) as usize }
    }

    #[inline(always)]
    fn copy(&self, offset: usize, into: *mut u8, length: usize) -> bool {
        // SAFETY: `into` has room for `length` bytes, which the verifier checks once more.
        unsafe { bpf_xdp_load_bytes(self.ctx, offset as u32, into.cast(), length as u32) == 0 }
    }

    #[inline(always)]
    fn device(&self) -> u32 {
        self.ingress_ifindex() as u32
    }

    #[inline(always)]
    fn stripped_tag(&self) -> Option<u16> {
        None
    }
}

impl Packet for TcContext {
    #[inline(always)]
    fn linear(&self) -> (usize, usize) {
        (self.data(), self.data_end())
    }

    #[inline(always)]
    fn length(&self) -> usize {
        self.len() as usize
    }

    #[inline(always)]
    fn copy(&self, offset: usize, into: *mut u8, length: usize) -> bool {
        // SAFETY: `into` has room for `length` bytes, which the verifier checks once more.
        unsafe { bpf_skb_load_bytes(self.as_ptr(), offset as u32, into.cast(), length as u32) == 0 }
    }

    #[inline(always)]
    fn device(&self) -> u32 {
        // SAFETY: reading a field of the context that the kernel passed in.
        unsafe { (*self.skb.skb).ifindex }
    }

    #[inline(always)]
    fn stripped_tag(&self) -> Option<u16> {
        // SAFETY: as above.
        let (present, tci) = unsafe { ((*self.skb.skb).vlan_present, (*self.skb.skb).vlan_tci) };
        if present == 0 { None } else { Some(tci as u16) }
    }
}

/// The bytes that can be read without a helper: enough for the first look at every packet.
pub(crate) struct Direct {
    pub(crate) data: usize,
    pub(crate) end: usize,
}

impl Bytes for Direct {
    #[inline(always)]
    fn length(&self) -> usize {
        // Not known here, and not needed: what cannot be read directly is looked at again through a copy.
        usize::MAX
    }

    #[inline(always)]
    fn load<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        let start = self.data + offset;
        if start + N > self.end {
            return None;
        }
        // SAFETY: the comparison above is the verifier's own bound; [u8; N] has alignment 1.
        Some(unsafe { (start as *const [u8; N]).read() })
    }

    #[inline(always)]
    fn words<const N: usize>(&self, offset: usize) -> Option<[u64; N]> {
        let start = self.data + offset;
        if start + 8 * N > self.end {
            return None;
        }
        let mut words = [0; N];
        for (index, into) in words.iter_mut().enumerate() {
            // SAFETY: the comparison above covers all words; it is the verifier's own bound.
            *into = unsafe { word(start + 8 * index) };
        }
        Some(words)
    }
}

#[inline(always)]
/// One load of 8 bytes from a packet. The compiler would load byte by byte, since it must not assume alignment; the
/// kernel's verifier lets packets be read unaligned where the CPU can (x86-64, arm64).
///
/// # Safety
///
/// The 8 bytes at `address` must be readable.
unsafe fn word(address: usize) -> u64 {
    let word;
    // SAFETY: reads what the caller says is readable; assembly, so Rust's alignment rules do not apply.
    unsafe {
        core::arch::asm!(
            "{word} = *(u64 *)({address} + 0)",
            word = out(reg) word,
            address = in(reg) address,
            options(pure, readonly, nostack)
        );
    }
    word
}
