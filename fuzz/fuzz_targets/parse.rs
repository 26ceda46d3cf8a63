//! Packets by themselves: every link type, the parser, and the decisions over a table.
#![no_main]

use libfuzzer_sys::fuzz_target;
use probe_common::{follow::Place, observation::Direction};
use probe_user::{
    capture::file::{Frame, LinkType},
    replay::{sighting::Sighting, sources::Matcher, table::Connections},
    source::{Profile, collect},
};

const LINKS: [LinkType; 5] =
    [LinkType::Ethernet, LinkType::Raw, LinkType::Cooked, LinkType::Cooked2, LinkType::Loopback];

fuzz_target!(|data: &[u8]| {
    let sources = collect(Profile::AzureLb, false, &[]).expect("the profile has sources");
    let matcher = Matcher::new(&sources);
    let mut table = Connections::default();
    let mut rest = data;
    // Several packets over one table: what, how long, how much of that was captured, and the bytes.
    while let Some(([what, length], more)) = rest.split_first_chunk() {
        let (bytes, more) = more.split_at(usize::from(*length).min(more.len()));
        rest = more;
        let link = LINKS[usize::from(what & 7) % LINKS.len()];
        let longer = usize::from(what >> 4) * 100;
        let (frame, unwrapped) = Frame::new(link, bytes, bytes.len() + longer);
        let Ok(Some(found)) = unwrapped.and_then(|()| matcher.find(&frame, frame.layer)) else { continue };
        let direction = if what & 8 == 0 { Direction::Ingress } else { Direction::Egress };
        let place = Place { time_ns: 1, device: 1, direction: frame.direction.unwrap_or(direction) };
        let Ok(sighting) = Sighting::parse(&frame, place, found) else { continue };
        let (decision, observation) = sighting.decide(&mut table);
        assert_eq!(decision.observe.is_some(), observation.is_some());
        if let Some(observation) = observation {
            assert!(observation.payload().len() <= bytes.len());
            assert!(u32::from(observation.captured) <= observation.payload_length);
            let _ = observation.tcp_options();
        }
    }
});
