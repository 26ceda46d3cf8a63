//! Byte access that both a BPF program and userspace can provide.

/// A packet, or the part of it that can be read.
///
/// Offsets count from the first byte of the frame. Implementations never read past the end: what is
/// not there is `None`, and the parser turns that into a counted reason.
pub trait Bytes {
    /// The `N` bytes that start at `offset`, or `None` when any of them is outside the packet.
    fn load<const N: usize>(&self, offset: usize) -> Option<[u8; N]>;

    /// The byte at `offset`.
    #[inline(always)]
    fn u8(&self, offset: usize) -> Option<u8> {
        self.load::<1>(offset).map(|[byte]| byte)
    }

    /// The big-endian 16-bit number at `offset`.
    #[inline(always)]
    fn u16(&self, offset: usize) -> Option<u16> {
        self.load::<2>(offset).map(u16::from_be_bytes)
    }

    /// The big-endian 32-bit number at `offset`.
    #[inline(always)]
    fn u32(&self, offset: usize) -> Option<u32> {
        self.load::<4>(offset).map(u32::from_be_bytes)
    }
}

impl Bytes for [u8] {
    #[inline(always)]
    fn load<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.get(offset..)?.first_chunk::<N>().copied()
    }
}
