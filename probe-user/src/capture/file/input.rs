//! A stream with a window on it: contiguous bytes, known offsets, bounded memory.

use std::io::{self, Read};

/// Bytes of the window: some packets of the greatest size, and still inside a processor's second-level cache.
const WINDOW: usize = 512 * 1024;

/// The most that [`Input::fill`] can be asked for.
pub(super) const MOST: usize = WINDOW;

/// A byte source and the part of it that is in memory.
pub(super) struct Input {
    source: Box<dyn Read>,
    window: Box<[u8]>,
    start: usize,
    end: usize,
    /// Offset of `start` in the stream.
    offset: u64,
    ended: bool,
    error: Option<io::Error>,
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input")
            .field("offset", &self.offset)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl Input {
    pub(super) fn new(source: Box<dyn Read>) -> Self {
        Self {
            source,
            window: vec![0; WINDOW].into_boxed_slice(),
            start: 0,
            end: 0,
            offset: 0,
            ended: false,
            error: None,
        }
    }

    /// Offset of the next byte that was not consumed.
    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }

    /// What is in memory and was not consumed.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        self.window.get(self.start..self.end).unwrap_or_default()
    }

    /// Whether `need` bytes are there, after reading what is missing. False at the end of the stream.
    #[inline]
    pub(super) fn fill(&mut self, need: usize) -> bool {
        self.end - self.start >= need || self.read(need)
    }

    #[cold]
    fn read(&mut self, need: usize) -> bool {
        if need > WINDOW {
            return false;
        }
        self.window.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < need && !self.ended {
            let free = self.window.get_mut(self.end..).unwrap_or_default();
            match self.source.read(free) {
                Ok(0) => self.ended = true,
                Ok(count) => self.end += count.min(free.len()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.ended = true;
                    self.error = Some(error);
                }
            }
        }
        self.end >= need
    }

    /// Goes on by `count` bytes that are in memory.
    #[inline]
    pub(super) fn consume(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        self.start += count;
        self.offset += count as u64;
    }

    /// Goes on by any number of bytes. Returns how many there were.
    pub(super) fn skip(&mut self, count: u64) -> u64 {
        let mut left = count;
        while left > 0 {
            let step = left.min(WINDOW as u64) as usize;
            self.fill(step);
            let step = step.min(self.end - self.start);
            if step == 0 {
                break;
            }
            self.consume(step);
            left -= step as u64;
        }
        count - left
    }

    /// Why the stream ended, if not by its end.
    pub(super) fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a few bytes at a time, then fails.
    struct Trickle(u8);

    impl Read for Trickle {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if self.0 == 10 {
                return Err(io::Error::other("gone"));
            }
            if self.0 == 5 {
                self.0 += 1;
                return Err(io::Error::from(io::ErrorKind::Interrupted));
            }
            into[0] = self.0;
            self.0 += 1;
            Ok(1)
        }
    }

    #[test]
    fn short_reads_are_joined_and_an_error_ends_the_stream() {
        let mut input = Input::new(Box::new(Trickle(0)));
        assert!(input.fill(4));
        assert_eq!(input.bytes(), [0, 1, 2, 3]);
        input.consume(2);
        assert!(input.fill(6));
        assert_eq!((input.bytes(), input.offset()), ([2, 3, 4, 6, 7, 8].as_slice(), 2));
        assert!(!input.fill(8));
        assert_eq!(input.bytes().len(), 7);
        assert_eq!(input.take_error().map(|error| error.to_string()), Some("gone".to_owned()));
    }

    #[test]
    fn skipping_goes_beyond_the_window_and_stops_at_the_end() {
        let size = 3 * WINDOW + 17;
        let mut input = Input::new(Box::new(io::Cursor::new(vec![7; size])));
        assert_eq!(input.skip(2 * WINDOW as u64 + 5), 2 * WINDOW as u64 + 5);
        assert_eq!(input.skip(u64::MAX), (WINDOW + 12) as u64);
        assert_eq!(input.offset(), size as u64);
        assert!(!input.fill(MOST + 1));
    }
}
