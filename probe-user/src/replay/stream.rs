//! One capture as a stream of sightings in order of time.

use std::collections::VecDeque;

use probe_common::{counters::Outcome, follow::Place, parse::Error};

use super::{
    names::{NameError, Namer, Nics},
    sighting::Sighting,
    sources::Matcher,
    tally::Tally,
};
use crate::capture::file::{Frame, LinkType, Packet, Reader};

/// Packets of one capture stand out of order: each processor writes into a ring of its own, and dumpcap hands over each
/// interface's packets in batches, every 250 ms (`CAP_READ_TIMEOUT` of its dumpcap.c). Sightings are put into order within
/// this time,
const DISORDER_NS: u64 = 1_000_000_000;
/// and within this many of them, some 2 MB.
const WAITING: usize = 4096;

/// A capture that is being read.
#[derive(Debug)]
pub(super) struct Stream {
    reader: Reader,
    namer: Namer,
    /// Sightings that an earlier packet may still overtake, in order.
    waiting: VecDeque<Sighting>,
    ended: bool,
    /// Times of the earliest and the latest packet of any kind.
    span_ns: Option<(u64, u64)>,
    /// Sightings whose headers the snap length cut off.
    cut: u64,
    /// It is a capture of all devices.
    everywhere: bool,
    /// More NICs than are kept apart: it was read up to there.
    overflow: Option<NameError>,
}

impl Stream {
    pub(super) fn new(reader: Reader, given: Option<String>) -> Self {
        let namer = Namer::new(reader.file(), given);
        Self {
            reader,
            namer,
            waiting: VecDeque::new(),
            ended: false,
            span_ns: None,
            cut: 0,
            everywhere: false,
            overflow: None,
        }
    }

    pub(super) const fn reader(&self) -> &Reader {
        &self.reader
    }

    pub(super) const fn span_ns(&self) -> Option<(u64, u64)> {
        self.span_ns
    }

    pub(super) const fn cut(&self) -> u64 {
        self.cut
    }

    pub(super) const fn is_everywhere(&self) -> bool {
        self.everywhere
    }

    pub(super) const fn overflow(&self) -> Option<&NameError> {
        self.overflow.as_ref()
    }

    /// The time of the next sighting; `None` at the end. Call [`Stream::fill`] first.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.waiting.front().map(|sighting| sighting.place.time_ns)
    }

    pub(super) fn pop(&mut self) -> Option<Sighting> {
        self.waiting.pop_front()
    }

    fn is_ready(&self) -> bool {
        let newest = self.span_ns.map_or(0, |(_, newest)| newest);
        self.ended
            || self.waiting.len() >= WAITING
            || self.next_ns().is_some_and(|first| newest.saturating_sub(first) >= DISORDER_NS)
    }

    /// Reads on until the next sighting is certain, or the file ends.
    pub(super) fn fill(
        &mut self,
        matcher: &Matcher,
        nics: &mut Nics,
        tally: &mut Tally,
    ) -> Result<(), NameError> {
        while !self.is_ready() {
            let Some(packet) = self.reader.next() else {
                self.ended = true;
                self.namer.idle(self.reader.interfaces(), nics)?;
                break;
            };
            if packet.time_ns > 0 {
                let (first, last) = self.span_ns.unwrap_or((packet.time_ns, packet.time_ns));
                self.span_ns = Some((first.min(packet.time_ns), last.max(packet.time_ns)));
            }
            self.everywhere |= matches!(packet.link, LinkType::Cooked | LinkType::Cooked2);
            let (frame, unwrapped) = Frame::new(packet.link, packet.captured, packet.length);
            let nic = match self.namer.nic(&packet, frame.ifindex, nics) {
                Ok(nic) => nic,
                Err(error @ NameError::TooMany(_)) => {
                    self.overflow = Some(error);
                    self.ended = true;
                    break;
                }
                Err(error) => return Err(error),
            };
            tally.counters.seen += 1;
            match sight(matcher, &packet, &frame, unwrapped, nic) {
                Ok(Some(sighting)) => {
                    let later = |known: &&Sighting| known.place.time_ns > sighting.place.time_ns;
                    let behind = self.waiting.iter().rev().take_while(later).count();
                    self.waiting.insert(self.waiting.len() - behind, sighting);
                }
                Ok(None) => tally.count(Outcome::IgnoredForeign),
                Err(error) => {
                    self.cut += u64::from(error == Error::TooDeep && packet.captured.len() < packet.length);
                    tally.count(error.outcome());
                }
            }
        }
        Ok(())
    }
}

/// What a packet is, if one of its ends is a source.
#[inline]
fn sight(
    matcher: &Matcher,
    packet: &Packet<'_>,
    frame: &Frame<'_>,
    unwrapped: Result<(), Error>,
    nic: u32,
) -> Result<Option<Sighting>, Error> {
    unwrapped?;
    let Some(found) = matcher.find(frame, frame.layer)? else { return Ok(None) };
    let direction = frame.direction.or(packet.direction).unwrap_or(Sighting::presumed(found.0));
    Sighting::parse(frame, Place { time_ns: packet.time_ns, device: nic, direction }, found).map(Some)
}
