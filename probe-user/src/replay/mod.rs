//! The same judgement on stored captures: frames → the kernel half's decisions → the models → the report.
//!
//! Memory is constant: of each file a window, of each packet that matters a copy of its headers, and tables of fixed size.

mod conclude;
mod names;
pub mod sighting;
pub mod sources;
mod stream;
pub mod table;
mod tally;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read,
};

use names::Nics;
pub use names::{CapturedNic, NameError};
use sighting::Sighting;
use sources::Matcher;
use stream::Stream;
use table::Connections;
pub use tally::Tally;

use crate::{
    capture::file::{FileError, Reader},
    config::Judging,
    probe::{self, Tracker},
    report::document::Report,
    source::Source,
};

/// How much of a capture's time may pass before time itself is looked at, ns. Verdicts do not depend on it: they compare
/// the times of packets. It saves asking every series after every packet.
const PACE_NS: u64 = 1_000_000_000;

/// How to judge.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub sources: Vec<Source>,
    pub judging: Judging,
    /// NICs to judge, by name; all when empty.
    pub nics: Vec<String>,
    /// Names of the ifindexes of cooked captures (version 2).
    pub indexes: BTreeMap<u32, String>,
}

/// One capture.
pub struct Input {
    /// As it appears in messages.
    pub file: String,
    /// The NIC that all of it was captured on.
    pub nic: Option<String>,
    pub source: Box<dyn Read>,
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("file", &self.file).field("nic", &self.nic).finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("there is no packet in {}{}", .files.join(", "), .left_out.as_deref().unwrap_or(""))]
    NoPackets { files: Vec<String>, left_out: Option<String> },
}

/// What a replay showed.
#[derive(Debug)]
pub struct Replayed {
    pub report: Report,
    pub tally: Tally,
    pub nics: Vec<CapturedNic>,
}

/// Reads all files, merged by time, and judges them.
pub fn run(settings: &Settings, inputs: Vec<Input>) -> Result<Replayed, ReplayError> {
    let mut streams = Vec::new();
    for Input { file, nic, source } in inputs {
        streams.push(Stream::new(Reader::open(file, source)?, nic));
    }
    let mut engine = Engine::new(settings);
    engine.replay(&mut streams)?;
    engine.conclude(&streams)
}

/// The models, and what feeds them.
struct Engine<'a> {
    settings: &'a Settings,
    matcher: Matcher,
    table: Connections,
    tracker: Tracker,
    nics: Nics,
    /// NICs that the tracker knows of.
    introduced: usize,
    tally: Tally,
    happened: Vec<probe::Event>,
    now_ns: u64,
    /// When time was looked at last, ns.
    looked_ns: u64,
    /// Sightings older than one before them.
    disordered: u64,
}

impl<'a> Engine<'a> {
    fn new(settings: &'a Settings) -> Self {
        let judged = (!settings.nics.is_empty()).then(BTreeSet::new);
        let rules = settings.judging.rules.clone();
        Self {
            settings,
            matcher: Matcher::new(&settings.sources),
            table: Connections::default(),
            tracker: Tracker::new(probe::Config { judged, rules, ..probe::Config::default() }),
            nics: Nics::new(settings.indexes.clone()),
            introduced: 0,
            tally: Tally::default(),
            happened: Vec::new(),
            now_ns: 0,
            looked_ns: 0,
            disordered: 0,
        }
    }

    fn replay(&mut self, streams: &mut [Stream]) -> Result<(), NameError> {
        loop {
            let mut first: Option<(u64, &mut Stream)> = None;
            for stream in streams.iter_mut() {
                stream.fill(&self.matcher, &mut self.nics, &mut self.tally)?;
                let Some(next_ns) = stream.next_ns() else { continue };
                if first.as_ref().is_none_or(|(earliest, _)| next_ns < *earliest) {
                    first = Some((next_ns, stream));
                }
            }
            let Some(sighting) = first.and_then(|(_, stream)| stream.pop()) else { return Ok(()) };
            self.take(&sighting);
        }
    }

    fn take(&mut self, sighting: &Sighting) {
        if self.introduced < self.nics.seen().len() {
            self.introduce();
        }
        let time_ns = sighting.place.time_ns;
        self.disordered += u64::from(time_ns < self.now_ns);
        self.now_ns = self.now_ns.max(time_ns);
        self.pass_time();
        let (decision, observation) = sighting.decide(&mut self.table);
        self.tally.sighted(sighting, decision.outcome);
        if let Some(observation) = observation {
            self.tally.counters.observed += 1;
            self.tracker.observe(&observation, &mut self.happened);
            self.happened.clear();
        }
    }

    /// Judges what time alone decides, up to the packet that comes next.
    fn pass_time(&mut self) {
        if self.now_ns.saturating_sub(self.looked_ns) < PACE_NS {
            return;
        }
        self.looked_ns = self.now_ns;
        if self.tracker.next_deadline().is_some_and(|due| due <= self.now_ns) {
            self.tracker.tick(self.now_ns, &mut self.happened);
            self.happened.clear();
        }
    }

    /// Tells the tracker what is known about the NICs seen so far.
    fn introduce(&mut self) {
        let seen = self.nics.seen();
        for nic in seen.iter().skip(self.introduced).filter(|nic| !nic.known) {
            self.tracker.merge(nic.id);
        }
        self.introduced = seen.len();
        let wanted = &self.settings.nics;
        if !wanted.is_empty() {
            self.tracker
                .judge(seen.iter().filter(|nic| wanted.contains(&nic.name)).map(|nic| nic.id).collect());
        }
        let expected = &self.settings.judging.expected;
        self.tracker.expect(
            expected
                .iter()
                .filter_map(|expected| {
                    let nic = seen.iter().find(|nic| nic.name == expected.nic)?;
                    Some((nic.id, expected.clone()))
                })
                .collect(),
        );
    }
}
