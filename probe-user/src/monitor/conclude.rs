//! From what the models know at the end of a look to the report: the same for a live host and a stored capture.

use crate::{
    config::Judging,
    diagnose::{
        self, Case,
        condition::{Broken, Own, Scene},
        trace::Trace,
    },
    fix::PolicyFix,
    host::{Facts, lookup::RouteLookup, sockets::Listener},
    monitor::assemble::Context,
    probe::{Series, SeriesKey},
    report::{
        document::{Nic, Observer, Platform, Report, SCHEMA, Window},
        time::rfc3339,
    },
};

/// Everything that a report is made of.
#[derive(Debug)]
pub struct Look<'a> {
    pub context: Context<'a>,
    pub judging: &'a Judging,
    pub series: Vec<Row<'a>>,
    /// The host; `None` for a capture.
    pub facts: Option<&'a Facts>,
    pub listeners: &'a [Listener],
    /// Series that fell by a change of the host.
    pub broken: &'a [Broken],
    pub own: Option<Own<'a>>,
    /// Somebody looks closely.
    pub advise: bool,
    pub platform: Platform,
    pub observer: Observer,
    pub nics: Vec<Nic>,
    /// Beginning and end of the look, in the clock of the observations.
    pub from_ns: u64,
    pub to_ns: u64,
}

/// One series, with what the host was asked about it.
#[derive(Debug)]
pub struct Row<'a> {
    pub series: &'a Series,
    /// The kernel's answer about its replies.
    pub lookup: Option<RouteLookup>,
    pub trace: Option<Trace>,
}

impl Look<'_> {
    /// The report, and the routing fixes that it names.
    pub fn conclude(self) -> (Report, Vec<PolicyFix>) {
        let context = &self.context;
        let probes: Vec<_> = self.series.iter().map(|row| context.series(row.series, self.to_ns)).collect();
        let cases: Vec<Case<'_>> = self
            .series
            .iter()
            .zip(&probes)
            .map(|(row, document)| Case {
                series: document,
                failures: context.failures(row.series),
                lookup: row.lookup.as_ref(),
                facts: self.facts,
                trace: row.trace.as_ref(),
            })
            .collect();
        let nics: Vec<String> = self.nics.iter().map(|nic| nic.name.clone()).collect();
        let scene = Scene {
            cases: &cases,
            expected: &self.judging.expected,
            window_s: self.to_ns.saturating_sub(self.from_ns) as f64 / 1e9,
            nics: &nics,
            profile: self.judging.profile,
            listeners: self.listeners,
            broken: self.broken,
            sources: context.sources,
            facts: self.facts,
            advise: self.advise,
            own: self.own,
        };
        let findings = diagnose::everything(&scene, &self.observer);
        let plans = diagnose::policies(&cases);
        let time = |at_ns| rfc3339(context.clock.wall_ns(at_ns));
        let report = Report {
            schema: SCHEMA.to_owned(),
            window: Window { from: time(self.from_ns), to: time(self.to_ns) },
            observer: self.observer,
            nics: self.nics,
            probes,
            findings,
            flows: Vec::new(),
            ha_ports: Vec::new(),
            shares: Vec::new(),
            platform: self.platform,
            predictions: Vec::new(),
        };
        (report, plans)
    }
}

/// The TCP ports that are probed.
pub fn ports<'a>(series: impl Iterator<Item = &'a SeriesKey>) -> std::collections::BTreeSet<u16> {
    series.map(|key| key.local_port).collect()
}
