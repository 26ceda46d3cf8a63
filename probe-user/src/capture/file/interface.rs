//! What a file says about the device that packets were captured on.

use super::{link::LinkType, order::Order};

/// The longest name kept; Linux's are 15 bytes, Windows' some 50.
const NAME: usize = 64;

/// Options of an interface description block (draft-ietf-opsawg-pcapng, 4.2).
mod option {
    pub(super) const END: u16 = 0;
    pub(super) const NAME: u16 = 2;
    pub(super) const TSRESOL: u16 = 9;
    pub(super) const TSOFFSET: u16 = 14;
}

/// An interface of a file; of a pcap file, the only one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// `if_name`.
    pub name: Option<String>,
    /// `None` for one that is not supported.
    pub link: Option<LinkType>,
    /// The number of the link type.
    pub code: u32,
    /// Packets that the capture lost, as its last statistics say.
    pub dropped: u64,
    pub(super) clock: Clock,
}

/// How an interface counts time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clock {
    /// Units of a second; 0 when they are too fine for any number.
    units: u128,
    /// Seconds to add.
    offset: i64,
}

impl Default for Clock {
    fn default() -> Self {
        Self { units: 1_000_000, offset: 0 }
    }
}

impl Clock {
    fn with_resolution(self, resolution: u8) -> Self {
        let exponent = u32::from(resolution & 0x7f);
        let base: u128 = if resolution & 0x80 == 0 { 10 } else { 2 };
        Self { units: base.checked_pow(exponent).unwrap_or(0), ..self }
    }

    /// ns since the Unix epoch.
    #[inline]
    pub(super) fn ns(self, ticks: u64) -> u64 {
        let since = match self.units {
            1_000_000 => ticks.saturating_mul(1000),
            1_000_000_000 => ticks,
            0 => 0,
            units => u64::try_from(u128::from(ticks) * 1_000_000_000 / units).unwrap_or(u64::MAX),
        };
        match self.offset {
            0 => since,
            seconds => {
                let shift = seconds.unsigned_abs().saturating_mul(1_000_000_000);
                if seconds < 0 { since.saturating_sub(shift) } else { since.saturating_add(shift) }
            }
        }
    }
}

impl Interface {
    /// Reads the body of an interface description block.
    pub(super) fn parse(order: Order, body: &[u8]) -> Option<Self> {
        let code = u32::from(order.u16(body, 0)?);
        let mut interface = Self { link: LinkType::from_code(code), code, ..Self::default() };
        for (kind, value) in Options::new(order, body.get(8..)?) {
            match (kind, value) {
                (option::NAME, name) => interface.name = self::name(name),
                (option::TSRESOL, [resolution]) => {
                    interface.clock = interface.clock.with_resolution(*resolution);
                }
                (option::TSOFFSET, value) => {
                    if let Some(offset) = order.u64(value, 0) {
                        interface.clock.offset = offset as i64;
                    }
                }
                _ => {}
            }
        }
        Some(interface)
    }
}

/// A name without what a terminal would act on; `None` when nothing is left.
fn name(bytes: &[u8]) -> Option<String> {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(bytes);
    let name: String = text.trim().chars().filter(|c| !c.is_control()).take(NAME).collect();
    (!name.is_empty()).then_some(name)
}

/// The options of a block. Ends at the first one that is cut.
pub(super) struct Options<'a> {
    order: Order,
    bytes: &'a [u8],
}

impl<'a> Options<'a> {
    pub(super) const fn new(order: Order, bytes: &'a [u8]) -> Self {
        Self { order, bytes }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let kind = self.order.u16(self.bytes, 0)?;
        let length = usize::from(self.order.u16(self.bytes, 2)?);
        if kind == option::END {
            return None;
        }
        let value = self.bytes.get(4..4 + length)?;
        self.bytes = self.bytes.get(4 + length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_count_in_any_unit() {
        let of = |resolution| Clock::default().with_resolution(resolution);
        assert_eq!(Clock::default().ns(1_500_000), 1_500_000_000);
        assert_eq!(of(9).ns(7), 7);
        assert_eq!(of(3).ns(7), 7_000_000);
        assert_eq!(of(0).ns(7), 7_000_000_000);
        assert_eq!(of(12).ns(7_000), 7);
        assert_eq!(of(0x8a).ns(512), 500_000_000);
        assert_eq!(of(0xbf).ns(u64::MAX), 1_999_999_999);
        // 10^127 units a second: no time that fits is a nanosecond.
        assert_eq!(of(127).ns(u64::MAX), 0);
        assert_eq!(of(0).ns(u64::MAX), u64::MAX);
    }

    #[test]
    fn offsets_go_both_ways_and_never_wrap() {
        let clock = |offset| Clock { offset, ..Clock::default() };
        assert_eq!(clock(2).ns(1_000_000), 3_000_000_000);
        assert_eq!(clock(-2).ns(3_000_000), 1_000_000_000);
        assert_eq!(clock(-2).ns(1_000_000), 0);
        assert_eq!(clock(i64::MIN).ns(1_000_000), 0);
        assert_eq!(clock(i64::MAX).ns(1_000_000), u64::MAX);
    }

    #[test]
    fn names_are_cleaned() {
        assert_eq!(name(b"eth0"), Some("eth0".to_owned()));
        assert_eq!(name(b"eth0\0\0junk"), Some("eth0".to_owned()));
        assert_eq!(name(b"\x1b[31m\r\n"), Some("[31m".to_owned()));
        assert_eq!(name(b" \0"), None);
        assert_eq!(name(&[b'x'; 500]).map(|name| name.len()), Some(NAME));
    }
}
