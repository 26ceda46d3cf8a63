//! tcpdump and dumpcap look on while nvaprobe observes: replayed, their captures say the same.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use nvaprobe_tests::{
    captured::{input, named},
    observe::{EVERY, PORT, Seen, observe, settings},
    process::{output, tool},
};
use probe_user::{
    lab::{
        listener::Serve,
        netns::Namespace,
        prober::{Kind, Probe},
        topology::{Plan, Topology},
    },
    replay,
    report::document::{LbState, Observer, ObserverState, Report, Series, Verdict},
};
use tempfile::TempDir;

/// Probes of each NIC: they end before the window does, so that both see all of them, and less than three intervals
/// before, so that none is forgotten.
const PROBES: usize = 5;
const LOOK: Duration = Duration::from_millis(3200);

/// A capture tool at work. Killed when dropped.
struct Capturing(Child);

impl Capturing {
    /// Starts it and waits until it captures.
    fn start(namespace: &Namespace, line: &[&str]) -> Self {
        let (program, args) = line.split_first().expect("a program");
        let mut command = Command::new(program);
        command.args(args).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child =
            namespace.command(&mut command).spawn().unwrap_or_else(|error| panic!("{program}: {error}"));
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut said = String::new();
        // tcpdump says "listening on", dumpcap names its file once it captures.
        while !said.contains("listening on") && !said.contains("File: ") {
            let read = stderr.read_line(&mut said).expect("standard error can be read");
            assert!(read > 0, "{line:?} ended: {said}");
        }
        // Its last words go nowhere, and must not stop it.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Self(child)
    }

    fn stop(mut self) {
        kill(Pid::from_raw(self.0.id() as i32), Signal::SIGINT).expect("the process is ours");
        self.0.wait().expect("the process is ours");
    }
}

impl Drop for Capturing {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What was seen live, and the captures of the same time.
struct Recorded {
    topology: Topology,
    live: Seen,
    folder: TempDir,
}

/// Observes while everything captures.
fn record(topology: Topology, probe: fn(&Topology, usize) -> Probe) -> Recorded {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (all, unknown, eth0, eth1) =
        (path("all.pcap"), path("unknown.pcap"), path("nva.eth0.pcap"), path("nva.eth1.pcap"));
    let blocks = path("blocks.pcapng");
    let tcpdump =
        |device, link, file| ["tcpdump", "-Z", "root", "-U", "-n", "-i", device, "-y", link, "-w", file];
    let capturing: Vec<Capturing> = [
        tcpdump("any", "LINUX_SLL2", &all).to_vec(),
        tcpdump("any", "LINUX_SLL", &unknown).to_vec(),
        tcpdump("eth0", "EN10MB", &eth0).to_vec(),
        tcpdump("eth1", "EN10MB", &eth1).to_vec(),
        vec!["dumpcap", "-q", "-i", "eth0", "-i", "eth1", "-w", &blocks],
    ]
    .iter()
    .map(|line| Capturing::start(&topology.nva, line))
    .collect();
    let mut probers = Vec::new();
    let start = || {
        probers = (0..topology.nics.len())
            .map(|nic| topology.fabrics[nic].probe(probe(&topology, nic)).expect("a prober"))
            .collect();
    };
    let live = observe(&topology.nva, settings(&topology), LOOK, start);
    assert!(probers.iter().all(|prober| prober.log().len() == PROBES), "not every probe was sent in time");
    for one in capturing {
        one.stop();
    }
    Recorded { topology, live, folder }
}

fn tcp(topology: &Topology, nic: usize) -> Probe {
    let delay = EVERY.mul_f64(0.3 * nic as f64);
    Probe::tcp(topology.target(nic, PORT)).every(EVERY).delayed(delay).attempts(PROBES)
}

impl Recorded {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs `nvaprobe replay` in the namespace, where interface numbers have names.
    fn replay(&self, args: &[&str], expect: Option<i32>) -> Report {
        let args = [&["replay", "--json"], args].concat();
        let output = output(&self.topology.nva, &args);
        assert_eq!(output.status.code(), expect, "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("a report")
    }

    /// Every way to capture that knows its NICs says what was seen live.
    fn assert_same(&self, expect: Option<i32>) {
        // `2: eth0@if3: <BROADCAST,…`
        let index = |name: &str| {
            let line = tool(&self.topology.nva, &format!("ip -o link show dev {name}"));
            line.split(':').next().expect("an ifindex").to_owned()
        };
        let file = |name| self.path(name).display().to_string();
        let (eth0, eth1) = (format!("eth0={}", index("eth0")), format!("eth1={}", index("eth1")));
        let ways: [(&str, Vec<String>); 3] = [
            ("any, LINUX_SLL2", vec!["--nic".into(), eth0, "--nic".into(), eth1, file("all.pcap")]),
            ("one NIC each", vec![file("nva.eth1.pcap"), file("nva.eth0.pcap")]),
            ("pcapng", vec![file("blocks.pcapng")]),
        ];
        for (way, args) in ways {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let report = self.replay(&args, expect);
            assert_eq!(told(&report), told(&self.live.report), "{way}");
            let complete =
                Observer { state: ObserverState::Complete, reasons: Vec::new(), lost: 0, evicted: 0 };
            assert_eq!(report.observer, complete, "{way}");
        }
    }

    /// Packets, and SYNs, SYN-ACKs and RSTs from and to the source: as tshark counts them.
    fn assert_counts(&self) {
        for name in ["all.pcap", "unknown.pcap", "blocks.pcapng"] {
            let bytes = std::fs::read(self.path(name)).expect("a capture");
            let tally = replay::run(&named(), vec![input(name, None, bytes)]).expect("a report").tally;
            let frames = tshark(&self.path(name), &["-T", "fields", "-e", "ip.addr", "-e", "tcp.flags"]);
            let of_source = frames.iter().filter(|line| line.contains("168.63.129.16"));
            let mut by_tshark = [0; 3];
            for flags in of_source.filter_map(|line| line.split("\t0x").nth(1)) {
                match u16::from_str_radix(flags, 16).expect("flags") & 0x16 {
                    0x02 => by_tshark[0] += 1,
                    0x12 => by_tshark[1] += 1,
                    other => by_tshark[2] += u64::from(other & 4 != 0),
                }
            }
            assert_eq!([tally.syn, tally.syn_ack, tally.rst], by_tshark, "{name}");
            assert_eq!(tally.syn, 2 * PROBES as u64, "{name}");
            assert_eq!(tally.counters.seen, frames.len() as u64, "{name}");
            assert!(tally.counters.reconciles());
        }
    }
}

/// The lines that tshark prints about a file.
fn tshark(file: &Path, args: &[&str]) -> Vec<String> {
    let output =
        Command::new("tshark").arg("-n").args(args).arg("-r").arg(file).output().expect("tshark starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// What live and replayed reports must agree in.
fn told(report: &Report) -> Vec<String> {
    let mut series: Vec<String> = report
        .probes
        .iter()
        .map(|s: &Series| {
            let view = s.lb_view.as_ref().map(|view| (view.state, view.code.clone(), view.failures_left));
            let Series { nic, target, port, protocol, verdict, reply, out_nic, http_status, attempts, counts, .. } = s;
            format!(
                "{nic} {target}:{port} {protocol:?} {verdict} {reply:?} {out_nic:?} {http_status:?} {attempts} {counts:?} {view:?}"
            )
        })
        .collect();
    series.sort();
    let errors =
        report.findings.iter().filter(|f| f.severity == probe_user::report::document::Severity::Error);
    series.extend(errors.map(|f| format!("{} on {:?} {:?}", f.code, f.nic, f.out_nic)));
    series
}

#[test]
fn s01_misrouted() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let recorded = record(topology, tcp);
    let series = recorded.live.series("eth1", PORT);
    assert_eq!((series.verdict, series.attempts), (Verdict::Asymmetric, PROBES as u64));
    assert_eq!(series.lb_view.as_ref().map(|view| view.state), Some(LbState::Down));
    recorded.assert_same(Some(1));
    recorded.assert_counts();

    // Without NICs, what the prober acknowledged is OK, and nobody can say how the rest failed.
    let unknown = recorded.path("unknown.pcap").display().to_string();
    let report = recorded.replay(&[&unknown], Some(0));
    let verdict = |target: &str| report.probes.iter().find(|s| s.target == target).expect("a series").verdict;
    assert_eq!(verdict("10.4.2.101"), Verdict::Ok);
    assert!(!matches!(verdict("10.4.3.101"), Verdict::Ok | Verdict::Asymmetric));
    assert_eq!(report.observer.reasons.len(), 1);
    assert_eq!(report.observer.reasons[0].code, "nic-unknown");

    // The NIC of the probes alone: their replies are not in it.
    let eth1 = recorded.path("nva.eth1.pcap").display().to_string();
    let report = recorded.replay(&[&eth1], Some(1));
    assert_eq!((report.probes.len(), report.probes[0].verdict), (1, Verdict::NoReply));
}

#[test]
fn s09_healthy() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    topology.policy_routing(1).expect("policy routing");
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let recorded = record(topology, tcp);
    recorded.live.assert_healthy(2);
    recorded.assert_same(Some(0));
    recorded.assert_counts();
    let unknown = recorded.path("unknown.pcap").display().to_string();
    let report = recorded.replay(&[&unknown], Some(0));
    assert!(report.probes.iter().all(|series| series.verdict == Verdict::Ok), "{:#?}", report.probes);
}

#[test]
fn s34_refused() {
    let topology = Topology::build(&Plan::default()).expect("a topology");
    topology.primary_route().expect("a route");
    topology.policy_routing(1).expect("policy routing");
    let recorded = record(topology, tcp);
    assert_eq!(recorded.live.series("eth0", PORT).verdict, Verdict::Refused);
    recorded.assert_same(Some(1));
    recorded.assert_counts();
}

#[test]
fn s40_http_status() {
    let topology = Topology::build(&Plan::default()).expect("a topology");
    topology.primary_route().expect("a route");
    topology.policy_routing(1).expect("policy routing");
    let _listener =
        topology.listen(PORT, Serve::Http { status: 503, delay: Duration::ZERO }).expect("a listener");
    let http = |topology: &Topology, nic: usize| Probe {
        kind: Kind::Http { path: "/health".to_owned() },
        ..tcp(topology, nic)
    };
    let recorded = record(topology, http);
    assert_eq!(recorded.live.series("eth0", PORT).http_status, Some(503));
    recorded.assert_same(Some(1));
    recorded.assert_counts();
    // The probed port is no port of HTTP to tshark unless it is told.
    let args = ["-d", "tcp.port==8008,http", "-Y", "http.response.code == 503"];
    let answers = tshark(&recorded.path("all.pcap"), &args).len() as u64;
    let counted: u64 =
        recorded.live.report.probes.iter().filter_map(|series| series.counts.get(&Verdict::HttpStatus)).sum();
    assert_eq!((answers, counted), (2 * PROBES as u64, 2 * PROBES as u64));
}
