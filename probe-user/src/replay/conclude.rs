//! What a replay showed, as a report.

use probe_common::counters::Outcome;

use super::{Engine, ReplayError, Replayed, stream::Stream};
use crate::{
    diagnose::condition::Own,
    monitor::{
        assemble::Context,
        clock::Clock,
        conclude::{Look, Row},
        nics::Names,
    },
    report::document::{Nic, Observer, ObserverState, Reason},
};

impl Engine<'_> {
    pub(super) fn conclude(mut self, streams: &[Stream]) -> Result<Replayed, ReplayError> {
        let spans = || streams.iter().filter_map(Stream::span_ns);
        let span = spans().map(|(first, _)| first).min().zip(spans().map(|(_, last)| last).max());
        let Some((from_ns, to_ns)) = span else { return Err(no_packets(streams)) };
        self.introduce();
        self.tracker.finish(to_ns, &mut self.happened);
        self.tally.counters.inserted = self.table.inserted();

        let mut names = Names::default();
        for nic in self.nics.seen() {
            names.insert(nic.id, nic.name.clone());
        }
        // A capture of every device leaves nothing out.
        let mut captured: Vec<String> = Vec::new();
        if !streams.iter().any(Stream::is_everywhere) {
            captured.extend(self.nics.seen().iter().map(|nic| nic.name.clone()));
        }
        let flows = self.settings.judging.flows();
        let context = Context {
            names: &names,
            sources: &self.settings.sources,
            clock: Clock::of_captures(),
            flows: flows.as_deref(),
            captured: &captured,
        };
        let source = self.settings.sources.iter().find(|source| source.is_exact());
        let source = source.map_or_else(|| "the sources".to_owned(), ToString::to_string);
        let platform = self.tally.platform;
        let own = Own {
            packets: platform,
            source: &source,
            connecting: &[],
            waiting: &[],
            lookup: None,
            facts: None,
        };
        let look = Look {
            context,
            judging: &self.settings.judging,
            series: self.tracker.series().map(|series| Row { series, lookup: None, trace: None }).collect(),
            facts: None,
            listeners: &[],
            broken: &[],
            advise: false,
            own: Some(own),
            platform,
            observer: self.observer(streams),
            nics: self.nic_rows(),
            from_ns,
            to_ns,
        };
        let (report, _) = look.conclude();
        Ok(Replayed { report, tally: self.tally, nics: self.nics.seen().to_vec() })
    }

    fn is_judged(&self, name: &str) -> bool {
        self.settings.nics.is_empty() || self.settings.nics.iter().any(|wanted| wanted == name)
    }

    fn nic_rows(&self) -> Vec<Nic> {
        let seen = self.nics.seen().iter().filter(|nic| self.is_judged(&nic.name));
        seen.map(|nic| Nic {
            name: nic.name.clone(),
            ifindex: nic.id,
            mac: None,
            members: Vec::new(),
            ingress: None,
            egress: None,
            note: nic.note.clone(),
        })
        .collect()
    }

    fn observer(&self, streams: &[Stream]) -> Observer {
        let mut reasons = Vec::new();
        let mut reason = |code: &str, text: String| reasons.push(Reason { code: code.to_owned(), text });
        for stream in streams {
            of_file(stream, &mut reason);
        }
        for nic in self.nics.seen().iter().filter(|nic| !nic.known) {
            reason(
                "nic-unknown",
                format!(
                    "{}: it cannot be seen which NIC a probe came in by and its reply left by; capture with `tcpdump -i any -y LINUX_SLL2`, \
                     or each NIC by itself",
                    nic.note
                ),
            );
        }
        for wanted in &self.settings.nics {
            if self.nics.seen().iter().all(|nic| nic.name != *wanted) {
                let there: Vec<&str> = self.nics.seen().iter().map(|nic| nic.name.as_str()).collect();
                reason(
                    "nic-missing",
                    format!(
                        "no packet here is of {wanted}, which is to be judged; there are: {} (name NICs with --nic {wanted}=FILE or \
                         --nic {wanted}=IFINDEX)",
                        there.join(", ")
                    ),
                );
            }
        }
        if self.disordered > 0 {
            reason(
                "time-order",
                format!(
                    "{} packets stand more than a second out of order; put the files into order with `reordercap`",
                    self.disordered
                ),
            );
        }
        let evicted = self.table.evicted();
        if evicted > 0 {
            reason("evicted", format!("{evicted} probes were evicted from the table before they ended"));
        }
        let failed = self.tally.counters.outcome(Outcome::FailedMapFull);
        if failed > 0 {
            reason("map-full", format!("{failed} probes did not fit into the table"));
        }
        if self.tracker.dropped() > 0 {
            reason("too-many-series", format!("{} series were dropped to make room", self.tracker.dropped()));
        }
        let state = if reasons.is_empty() { ObserverState::Complete } else { ObserverState::Degraded };
        Observer { state, reasons, lost: 0, evicted }
    }
}

/// What one file could not tell.
fn of_file(stream: &Stream, reason: &mut impl FnMut(&str, String)) {
    let reader = stream.reader();
    let file = reader.file();
    if let Some(damage) = reader.damage() {
        reason("capture-damaged", format!("{damage}; everything before was judged"));
    }
    if let Some(overflow) = stream.overflow() {
        reason("capture-damaged", format!("{file}: {overflow}; the rest of the file was not read"));
    }
    if let Some((code, count)) = reader.unsupported() {
        reason(
            "link-type",
            format!("{file}: {count} packets of link type {code}, which is not supported, were left out"),
        );
    }
    if stream.cut() > 0 {
        reason(
            "snap-length",
            format!(
                "{file}: the headers of {} packets were cut off by the snap length; capture with `tcpdump -s 0`",
                stream.cut()
            ),
        );
    }
    if reader.untimed() > 0 {
        reason(
            "no-times",
            format!(
                "{file}: {} packets have no time of their own (simple packet blocks); theirs is that of the packet before",
                reader.untimed()
            ),
        );
    }
    let dropped = reader.dropped();
    if dropped > 0 {
        reason(
            "capture-dropped",
            format!("{file}: the capture itself lost {dropped} packets; a reply among them counts as none"),
        );
    }
}

fn no_packets(streams: &[Stream]) -> ReplayError {
    let files = streams.iter().map(|stream| stream.reader().file().to_owned()).collect();
    let mut left_out = Vec::new();
    for stream in streams {
        of_file(stream, &mut |_, text| left_out.push(text));
    }
    let left_out = (!left_out.is_empty()).then(|| format!(": {}", left_out.join("; ")));
    ReplayError::NoPackets { files, left_out }
}
