//! Observing a lab topology in this process, as `doctor` does.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use probe_common::counters::Program;
use probe_user::{
    capture::live::{
        drops::DropReasons,
        load::Sizes,
        mode::{IngressChoice, TcChoice},
    },
    config::Judging,
    lab::{
        fabric::Running as Prober,
        listener::{Listener, Serve},
        netns::Namespace,
        probe_log::{AttemptLog, Outcome},
        prober::Probe,
        topology::Topology,
        view::State,
    },
    monitor::{Monitor, Settings, boot_ns},
    report::{
        document::{Finding, LbState, Report, Series, Severity, Verdict},
        event::Event,
    },
    source::{self, Profile},
};

/// Interval of the tests' probers: short, so that many fit into a window.
pub const EVERY: Duration = Duration::from_millis(500);
/// Time for five probes of each prober.
pub const WINDOW: Duration = Duration::from_millis(2700);

/// What is looked at beyond the last attempt.
const TAIL: Duration = Duration::from_millis(250);

/// The probed port.
pub const PORT: u16 = 8008;

/// S01, running: the host route on eth0 only, a listener, a prober on each NIC.
pub fn misrouted() -> (Topology, Listener, Vec<Prober>) {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    let listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let probers = (0..2)
        .map(|nic| {
            let probe = Probe::tcp(topology.target(nic, PORT)).every(EVERY);
            topology.fabrics[nic].probe(probe).expect("a prober")
        })
        .collect();
    (topology, listener, probers)
}

/// What was found.
#[derive(Debug)]
pub struct Seen {
    pub report: Report,
    pub events: Vec<Event>,
}

/// Settings that judge every NIC of the topology.
pub fn settings(topology: &Topology) -> Settings {
    Settings {
        sources: source::collect(Profile::AzureLb, false, &[]).expect("the profile has sources"),
        nics: topology.nics.iter().map(|nic| nic.name.clone()).collect(),
        ingress: IngressChoice::Auto,
        tc: TcChoice::Auto,
        sizes: Sizes::default(),
        kernel_log: false,
        drop_reasons: DropReasons::On,
        imds: None,
        judging: Judging::default(),
        guardian: Some(crate::process::binary()),
    }
}

/// Observes from inside the namespace for a while. `started` runs when observation has begun, before the window.
pub fn observe(nva: &Namespace, settings: Settings, window: Duration, started: impl FnOnce() + Send) -> Seen {
    nva.run(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut monitor = Monitor::start(settings).await.unwrap_or_else(|error| panic!("{error:#}"));
            started();
            let end = boot_ns() + window.as_nanos() as u64;
            let mut events = Vec::new();
            while monitor.next(end, &mut events).await.expect("observation goes on") {}
            let report = monitor.finish().await.expect("a report");
            for program in Program::ALL {
                let counters = monitor.counters(program).expect("counters");
                assert!(counters.reconciles(), "{}: {counters:?}", program.name());
            }
            monitor.close().await;
            Seen { report, events }
        })
    })
    .expect("the namespace can be entered")
}

/// Observes a topology with the usual settings and window.
pub fn look(topology: &Topology) -> Seen {
    observe(&topology.nva, settings(topology), WINDOW, || {})
}

/// Observes while `start`'s probers go through their attempts, a limited number each, and until the last is judged.
/// Every attempt is seen, so nvaprobe's counts and the probers' logs must be equal.
pub fn follow(
    topology: &Topology,
    settings: Settings,
    start: impl FnOnce() -> Vec<Prober> + Send,
) -> (Seen, Vec<Prober>) {
    let follow = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut monitor = Monitor::start(settings).await.unwrap_or_else(|error| panic!("{error:#}"));
            let probers = start();
            let begun = Instant::now();
            let mut events = Vec::new();
            let mut last = false;
            while !last {
                last = probers.iter().all(Prober::is_settled);
                assert!(begun.elapsed() < Duration::from_secs(20), "the probers do not come to an end");
                // What the last attempt left behind is looked at too, its limit included.
                let slice = if last { TAIL } else { Duration::from_millis(50) };
                let end = boot_ns() + slice.as_nanos() as u64;
                while monitor.next(end, &mut events).await.expect("observation goes on") {}
            }
            let report = monitor.finish().await.expect("a report");
            monitor.close().await;
            (Seen { report, events }, probers)
        })
    };
    topology.nva.run(follow).expect("the namespace can be entered")
}

/// What the load balancer's own view of an attempt means in nvaprobe's words.
fn in_words(attempt: &AttemptLog) -> Verdict {
    match attempt.outcome {
        Outcome::Pending => Verdict::Pending,
        Outcome::Answered => Verdict::Ok,
        Outcome::HttpStatus(_) | Outcome::Garbage => Verdict::HttpStatus,
        Outcome::TlsAlert(_) => Verdict::TlsFail,
        Outcome::Refused | Outcome::Closed => Verdict::Refused,
        Outcome::Rejected(..) => Verdict::IcmpReject,
        Outcome::NoReply if attempt.answer_at.is_some() => Verdict::Slow,
        Outcome::NoReply => Verdict::NoReply,
    }
}

fn in_state(state: State) -> LbState {
    match state {
        State::Unknown => LbState::Unknown,
        State::Up => LbState::Up,
        State::Down => LbState::Down,
    }
}

/// The states that a prober itself went through.
pub fn own_views(prober: &Prober) -> Vec<LbState> {
    prober.view().changes.iter().map(|(_, state)| in_state(*state)).collect()
}

impl Seen {
    /// nvaprobe and the load balancer tell the same story of a probe: the attempts, how each ended, the last status, and
    /// the view at the end.
    pub fn assert_agrees(&self, nic: &str, port: u16, prober: &Prober) -> &Series {
        let log = prober.log();
        let mut counts = BTreeMap::new();
        for attempt in &log {
            *counts.entry(in_words(attempt)).or_insert(0_u64) += 1;
        }
        self.assert_counts(nic, port, prober, &counts)
    }

    /// The same where the load balancer cannot tell what nvaprobe can: it knows of no wrong NIC.
    pub fn assert_counts(
        &self,
        nic: &str,
        port: u16,
        prober: &Prober,
        counts: &BTreeMap<Verdict, u64>,
    ) -> &Series {
        let log = prober.log();
        let series = self.series(nic, port);
        assert_eq!(&series.counts, counts, "{nic}:{port}: {series:#?}\n{log:#?}");
        assert_eq!(series.attempts, log.len() as u64, "{nic}:{port}: {series:#?}\n{log:#?}");
        let status = log.iter().rev().find_map(|attempt| attempt.http_status);
        assert_eq!(series.http_status, status, "{nic}:{port}: {series:#?}\n{log:#?}");
        let expected = in_state(prober.view().state);
        let view = series.lb_view.as_ref().expect("a view");
        // Who fluctuates is held, whatever the last answer was.
        let fluctuates = prober.view().changes.len() > 3;
        assert!(
            view.state == expected || (view.state == LbState::Held && fluctuates),
            "{nic}:{port}: {:?} and {view:?}",
            prober.view()
        );
        series
    }

    /// The states that nvaprobe said the load balancer went through, `held` left out.
    pub fn views(&self, nic: &str, port: u16) -> Vec<LbState> {
        let mut states = Vec::new();
        for event in &self.events {
            if let Event::LbView { nic: on, port: of, to, .. } = event
                && (on.as_str(), *of) == (nic, port)
                && *to != LbState::Held
                && states.last() != Some(to)
            {
                states.push(*to);
            }
        }
        states
    }

    /// These error findings and no other: code, cause, NIC and port, in any order.
    pub fn assert_errors(&self, expected: &[(&str, &str, &str, u16)]) {
        let mut found: Vec<_> = self
            .errors()
            .into_iter()
            .map(|f| {
                (f.code.as_str(), f.cause.as_str(), f.nic.as_deref().unwrap_or("-"), f.port.unwrap_or(0))
            })
            .collect();
        let mut expected = expected.to_vec();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{:#?}", self.report.findings);
    }

    /// The findings of one code about a port.
    pub fn findings(&self, code: &str, port: u16) -> Vec<&Finding> {
        let wanted = |finding: &&Finding| finding.code == code && finding.port == Some(port);
        self.report.findings.iter().filter(wanted).collect()
    }

    /// Codes of the warnings.
    pub fn warnings(&self) -> Vec<&str> {
        let warnings = self.report.findings.iter().filter(|finding| finding.severity == Severity::Warning);
        warnings.map(|finding| finding.code.as_str()).collect()
    }

    /// The series of a NIC and port.
    pub fn series(&self, nic: &str, port: u16) -> &Series {
        self.report
            .probes
            .iter()
            .find(|series| series.nic == nic && series.port == port)
            .unwrap_or_else(|| panic!("no series on {nic}:{port} in {:#?}", self.report.probes))
    }

    /// The error findings.
    pub fn errors(&self) -> Vec<&Finding> {
        self.report.findings.iter().filter(|finding| finding.severity == Severity::Error).collect()
    }

    /// One series has this verdict throughout, and enough attempts to say so.
    pub fn assert_verdict(&self, nic: &str, port: u16, verdict: Verdict, out: Option<&str>) -> &Series {
        let series = self.series(nic, port);
        assert_eq!((series.verdict, series.out_nic.as_deref()), (verdict, out), "{series:#?}");
        assert!(series.counts.get(&verdict).is_some_and(|count| *count >= 3), "{series:#?}");
        let others: u64 = series
            .counts
            .iter()
            .filter(|(v, _)| **v != verdict && **v != Verdict::Pending)
            .map(|(_, n)| n)
            .sum();
        assert_eq!(others, 0, "{series:#?}");
        assert!(series.confirmed);
        series
    }

    /// Everything is OK, nothing is found above info, and nothing was missed.
    pub fn assert_healthy(&self, series: usize) {
        assert_eq!(self.report.probes.len(), series, "{:#?}", self.report.probes);
        for one in &self.report.probes {
            self.assert_verdict(&one.nic, one.port, Verdict::Ok, None);
        }
        let above: Vec<_> = self.report.findings.iter().filter(|f| f.severity != Severity::Info).collect();
        assert!(above.is_empty(), "{above:#?}");
    }

    /// Exactly one error: this NIC's replies leave by that one, for this route.
    pub fn assert_misrouted(&self, nic: &str, out: &str, route: &str) -> &Finding {
        let errors = self.errors();
        let [finding] = errors.as_slice() else { panic!("one error, not {errors:#?}") };
        assert_eq!(
            (
                finding.code.as_str(),
                finding.cause.as_str(),
                finding.nic.as_deref(),
                finding.out_nic.as_deref()
            ),
            ("ASYMMETRIC", "route", Some(nic), Some(out)),
            "{finding:#?}"
        );
        let shown = finding.evidence.iter().any(|e| e.kind == "route" && e.text.starts_with(route));
        assert!(shown, "route '{route}' in {:#?}", finding.evidence);
        finding
    }
}
