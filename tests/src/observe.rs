//! Observing a lab topology in this process, as `doctor` does.

use std::time::Duration;

use probe_common::counters::Program;
use probe_user::{
    capture::live::{
        load::Sizes,
        mode::{IngressChoice, TcChoice},
    },
    config::Judging,
    lab::{
        fabric::Running as Prober,
        listener::{Listener, Serve},
        netns::Namespace,
        prober::Probe,
        topology::Topology,
    },
    monitor::{Monitor, Settings, boot_ns},
    report::{
        document::{Finding, Report, Series, Severity, Verdict},
        event::Event,
    },
    source::{self, Profile},
};

/// Interval of the tests' probers: short, so that many fit into a window.
pub const EVERY: Duration = Duration::from_millis(500);
/// Time for five probes of each prober.
pub const WINDOW: Duration = Duration::from_millis(2700);

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

impl Seen {
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
