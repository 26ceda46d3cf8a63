//! Byte access that both a BPF program and userspace can provide.

/// A packet, or the part of it that can be read.
///
/// Offsets count from the first byte of the frame. Implementations never read past the end: what is
/// not there is `None`, and the parser turns that into a counted reason.
pub trait Bytes {
    /// Length of the whole packet in bytes, which may be more than can be read.
    fn length(&self) -> usize;

    /// The `N` bytes that start at `offset`, or `None` when any of them is outside the packet.
    fn load<const N: usize>(&self, offset: usize) -> Option<[u8; N]>;

    /// The `N` native-endian words of 8 bytes that start at `offset`, or `None` when any byte of them is outside.
    #[inline(always)]
    fn words<const N: usize>(&self, offset: usize) -> Option<[u64; N]> {
        let mut words = [0; N];
        for (index, word) in words.iter_mut().enumerate() {
            *word = u64::from_ne_bytes(self.load::<8>(offset + index * 8)?);
        }
        Some(words)
    }

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
    fn length(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn load<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.get(offset..)?.first_chunk::<N>().copied()
    }
}

/// How many bytes from the start of a packet the kernel half copies and parses. Ethernet, two VLAN tags, IPv6 with
/// extension headers and a TCP header with all options fit, and so does an ICMP error with its quote.
pub const WINDOW: usize = 256;

/// The first [`WINDOW`] bytes of a packet.
#[derive(Clone, Copy)]
pub struct Window<'a> {
    /// The bytes; only the first `readable` are the packet's.
    pub bytes: &'a [u8; WINDOW],
    /// How many of them were copied.
    pub readable: usize,
    /// Length of the packet itself.
    pub length: usize,
}

impl Bytes for Window<'_> {
    #[inline(always)]
    fn length(&self) -> usize {
        self.length
    }

    #[inline(always)]
    fn load<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        // The first comparison is the bound that the BPF verifier needs for the read.
        if offset > WINDOW - N || offset + N > self.readable {
            return None;
        }
        // SAFETY: offset + N <= WINDOW by the comparison above, so the read stays inside the array; [u8; N] has
        // alignment 1.
        Some(unsafe { self.bytes.as_ptr().add(offset).cast::<[u8; N]>().read() })
    }
}

/// A packet inside a packet.
#[derive(Clone, Copy)]
pub struct Inner<'a, B: ?Sized> {
    pub bytes: &'a B,
    /// Where it starts.
    pub start: usize,
}

impl<B: Bytes + ?Sized> Bytes for Inner<'_, B> {
    #[inline(always)]
    fn length(&self) -> usize {
        self.bytes.length().saturating_sub(self.start)
    }

    #[inline(always)]
    fn load<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.bytes.load::<N>(self.start + offset)
    }
}
