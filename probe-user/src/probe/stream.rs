//! The first bytes of one direction of a connection, put together from segments as they come.

/// Bytes kept: a PROXY header and a request line, or a few interim responses and a status line.
const KEPT: usize = 512;
/// Segments kept that came before their turn.
const EARLY: usize = 8;

/// The beginning of a byte stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// Sequence number of the first byte.
    base: Option<u32>,
    bytes: Vec<u8>,
    early: Vec<(usize, Vec<u8>)>,
    /// The packet had a byte here that was not captured.
    cut: Option<usize>,
}

impl Stream {
    /// A stream whose first byte has this sequence number.
    pub fn from(base: u32) -> Self {
        Self { base: Some(base), ..Self::default() }
    }

    /// Where the stream begins, when a packet before its first byte told.
    pub fn begins(&mut self, base: u32) {
        if self.base.is_none() {
            self.base = Some(base);
        }
    }

    /// Takes in a segment: what was captured of it, and how long it was. True when it holds a byte of this stream.
    pub fn push(&mut self, sequence: u32, captured: &[u8], length: u32) -> bool {
        let base = *self.base.get_or_insert(sequence);
        // RFC 9293, 3.4: sequence numbers compare modulo 2^32.
        let offset = sequence.wrapping_sub(base).cast_signed();
        let (offset, skipped) = match usize::try_from(offset) {
            Ok(offset) => (offset, 0),
            Err(_) => (0, offset.unsigned_abs() as usize),
        };
        let length = (length as usize).saturating_sub(skipped);
        if length == 0 {
            return false;
        }
        let captured = captured.get(skipped..).unwrap_or(&[]);
        if captured.len() < length && offset.saturating_add(captured.len()) < KEPT {
            let cut = offset + captured.len();
            self.cut = Some(self.cut.map_or(cut, |known| known.min(cut)));
        }
        if !captured.is_empty() && offset < KEPT {
            self.put(offset, captured);
            while let Some(index) = self.early.iter().position(|(at, _)| *at <= self.bytes.len()) {
                let (at, bytes) = self.early.swap_remove(index);
                self.put(at, &bytes);
            }
            // A retransmission may have brought what an earlier capture had cut off.
            if self.cut.is_some_and(|cut| cut < self.bytes.len()) {
                self.cut = None;
            }
        }
        true
    }

    fn put(&mut self, offset: usize, bytes: &[u8]) {
        if offset > self.bytes.len() {
            if self.early.len() < EARLY && !self.early.iter().any(|(at, _)| *at == offset) {
                self.early.push((offset, bytes.iter().copied().take(KEPT).collect()));
            }
            return;
        }
        let new = bytes.get(self.bytes.len() - offset..).unwrap_or(&[]);
        let room = KEPT - self.bytes.len();
        self.bytes.extend_from_slice(&new[..new.len().min(room)]);
    }

    /// Whether the byte of this sequence number was there already, or lies before the beginning.
    pub fn contains(&self, sequence: u32) -> bool {
        let offset = self.base.map(|base| sequence.wrapping_sub(base).cast_signed());
        offset.is_some_and(|offset| usize::try_from(offset).map_or(true, |at| at < self.bytes.len()))
    }

    /// What is there without a gap.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Nothing more will ever be known: the next byte was on the wire and not captured, or there is no more room.
    pub fn ends(&self) -> bool {
        self.bytes.len() >= KEPT || self.cut == Some(self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn segments_in_any_order_and_twice_give_the_stream() {
        let mut stream = Stream::from(u32::MAX - 1);
        assert!(stream.push(3, b"1.1 200 OK", 10));
        assert_eq!(stream.bytes(), b"");
        assert!(stream.push(u32::MAX - 1, b"HTTP/", 5));
        assert!(stream.push(u32::MAX - 1, b"HTTP/", 5));
        assert_eq!(stream.bytes(), b"HTTP/1.1 200 OK");
        assert!(!stream.ends());
    }

    #[test]
    fn what_lies_before_the_beginning_is_not_of_this_stream() {
        let mut stream = Stream::from(1000);
        assert!(!stream.push(900, b"the last answer", 15));
        assert!(stream.push(990, b"0123456789HT", 12));
        assert_eq!(stream.bytes(), b"HT");
    }

    #[test]
    fn a_byte_that_was_not_captured_ends_it() {
        let mut stream = Stream::from(0);
        assert!(stream.push(0, b"HTT", 80));
        assert!(stream.ends());
        stream.push(0, b"HTTP/1.1", 8);
        assert!(!stream.ends());
        assert_eq!(stream.bytes(), b"HTTP/1.1");
    }

    proptest! {
        #[test]
        fn any_dealing_of_a_text_gives_a_beginning_of_it(
            text in prop::collection::vec(any::<u8>(), 1..700),
            base in any::<u32>(),
            cuts in prop::collection::vec((0usize..700, 1usize..200, 0usize..200), 0..40),
        ) {
            let mut stream = Stream::from(base);
            for (at, length, seen) in cuts {
                let at = at.min(text.len() - 1);
                let end = (at + length).min(text.len());
                let captured = &text[at..(at + seen).clamp(at, end)];
                stream.push(base.wrapping_add(at as u32), captured, (end - at) as u32);
            }
            prop_assert!(text.starts_with(stream.bytes()));
        }

        #[test]
        fn nothing_panics(
            base in any::<Option<u32>>(),
            segments in prop::collection::vec((any::<u32>(), prop::collection::vec(any::<u8>(), 0..128), any::<u32>()), 0..30),
        ) {
            let mut stream = base.map_or_else(Stream::default, Stream::from);
            for (sequence, captured, length) in segments {
                stream.push(sequence, &captured, length);
                prop_assert!(stream.bytes().len() <= KEPT);
            }
        }
    }
}
