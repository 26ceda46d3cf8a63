//! A packet with a source at one end, as much of it as an observation may carry: it outlives the buffer it was read from.

use probe_common::{
    bytes::Bytes,
    follow::{self, End, Place, Room, Table},
    maps::Peer,
    observation::{Direction, Observation, PAYLOAD, Role},
    parse::{self, Error, Headers, Kind, LinkLayer, OPTIONS},
};

use crate::capture::file::Frame;

/// One packet from or to a source, parsed.
#[derive(Clone, Copy, Debug)]
pub struct Sighting {
    pub place: Place,
    pub end: End,
    pub peer: Peer,
    pub headers: Headers,
    length: usize,
    options: Piece<OPTIONS>,
    payload: Piece<PAYLOAD>,
}

const _: () = assert!(size_of::<Sighting>() <= 512);

/// Some bytes of a packet.
#[derive(Clone, Copy, Debug)]
struct Piece<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Piece<N> {
    const EMPTY: Self = Self { bytes: [0; N], length: 0 };

    fn copy(packet: &[u8], offset: usize, length: usize) -> Self {
        let mut piece = Self::EMPTY;
        let from = packet.get(offset..).unwrap_or_default();
        for (into, byte) in piece.bytes.iter_mut().zip(from).take(length) {
            *into = *byte;
            piece.length += 1;
        }
        piece
    }
}

impl Sighting {
    /// Parses a packet of which `found` is known.
    pub fn parse(frame: &Frame<'_>, place: Place, found: (End, Peer)) -> Result<Self, Error> {
        Self::of(frame, frame.captured, frame.layer, place, found).map(|mut sighting| {
            frame.complete(&mut sighting.headers);
            sighting
        })
    }

    /// The same for a packet whose bytes are all there.
    pub fn whole(packet: &[u8], layer: LinkLayer, place: Place, found: (End, Peer)) -> Result<Self, Error> {
        Self::of(packet, packet, layer, place, found)
    }

    fn of<B: Bytes + ?Sized>(
        packet: &B,
        bytes: &[u8],
        layer: LinkLayer,
        place: Place,
        (end, peer): (End, Peer),
    ) -> Result<Self, Error> {
        let mut headers = Headers::default();
        parse::headers(packet, layer, &mut headers)?;
        let mut sighting = Self {
            place,
            end,
            peer,
            headers,
            length: packet.length(),
            options: Piece::EMPTY,
            payload: Piece::EMPTY,
        };
        let tcp = &headers.transport.tcp;
        if headers.transport.kind == Kind::Tcp {
            sighting.options = Piece::copy(bytes, tcp.options, tcp.payload.saturating_sub(tcp.options));
            sighting.payload = Piece::copy(bytes, tcp.payload, tcp.payload_length);
        }
        Ok(sighting)
    }

    /// Decides about it as the kernel half does, and makes the observation if one is due.
    pub fn decide<T: Table>(&self, table: &mut T) -> (follow::Decision, Option<Observation>) {
        let decision =
            follow::decide(table, &mut Room::default(), &self.place, self.end, self.peer, &self.headers);
        let nic = table.nic(self.place.device);
        (decision, decision.observe.map(|role| self.observe(nic, role)))
    }

    fn observe(&self, nic: u32, role: Role) -> Observation {
        let mut observation = Observation::EMPTY;
        follow::observe(&mut observation, &self.place, nic, role, self.peer, self.length, &self.headers);
        if role != Role::Reject {
            observation.options = self.options.bytes;
            observation.options_length = self.options.length as u8;
            observation.payload = self.payload.bytes;
            observation.captured = self.payload.length as u16;
        }
        observation
    }

    /// The direction that a packet without one has: a source's packet came in, one to it went out.
    pub const fn presumed(end: End) -> Direction {
        match end {
            End::From => Direction::Ingress,
            End::To => Direction::Egress,
        }
    }
}
