//! Numbers in the byte order of whoever wrote the file.

/// The byte order of a file or section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Little,
    Big,
}

impl Order {
    /// The number at `at`; `None` past the end.
    #[inline]
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self == Self::Little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    }

    #[inline]
    pub(super) fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self == Self::Little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }

    /// Two words of 32 bits, the high one first in either byte order.
    #[inline]
    pub(super) fn high_low(self, bytes: &[u8], at: usize) -> Option<u64> {
        Some(u64::from(self.u32(bytes, at)?) << 32 | u64::from(self.u32(bytes, at + 4)?))
    }

    pub(super) fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self == Self::Little { u64::from_le_bytes(bytes) } else { u64::from_be_bytes(bytes) })
    }
}
