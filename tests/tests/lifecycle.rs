//! What stays behind, what is left alone, and what happens when things go away.

use std::{
    os::unix::process::CommandExt,
    time::{Duration, Instant},
};

use aya::programs::{SchedClassifier, TcAttachType, XdpMode, loaded_programs};
use nix::sys::signal::Signal;
use nvaprobe_tests::{
    kernel::Kernel,
    observe::{PORT, look, misrouted, observe, settings},
    process::{Running, command, output, tool, until},
};
use probe_common::counters::Program;
use probe_user::{
    capture::live::{Observer, Options, load::Sizes},
    host::{self, netlink::Netlink},
    lab::{
        listener::Serve,
        netns::Namespace,
        prober::Probe,
        topology::{Plan, Topology},
    },
    monitor::{Monitor, Settings, boot_ns, nics},
    probe::{self, Tracker},
    report::document::{ObserverState, Report, Verdict},
};

/// Everything that an observer could leave on the devices of a namespace, as the system's own tools list it.
fn listing(nva: &Namespace) -> String {
    tool(
        nva,
        // Without the operational state, which the kernel works out when it has time (net/core/link_watch.c).
        "ip -d link | sed 's/ state [A-Z]* / /'; ip rule; ip route show table all; tc qdisc show; \
         for d in eth0 eth1; do tc filter show dev $d ingress; tc filter show dev $d egress; done; \
         ls /sys/fs/bpf 2>/dev/null; ls /run/netns 2>/dev/null | grep nva || true",
    )
}

/// Ids of the TCX programs on a device.
fn tcx(nva: &Namespace, device: &str) -> Vec<u32> {
    nva.run(|| {
        [TcAttachType::Ingress, TcAttachType::Egress]
            .into_iter()
            .flat_map(|hook| SchedClassifier::query_tcx(device, hook).expect("this kernel has TCX").1)
            .map(|program| program.id())
            .collect()
    })
    .expect("the namespace can be entered")
}

fn is_loaded(id: u32) -> bool {
    loaded_programs().flatten().any(|program| program.id() == id)
}

#[test]
fn no_death_leaves_anything_behind() {
    for tc in ["tcx", "clsact"] {
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGKILL, Signal::SIGABRT] {
            let (topology, _listener, _probers) = misrouted();
            let before = listing(&topology.nva);
            let running = Running::start(&topology.nva, &["run", "--ingress", "auto", "--tc", tc]);
            assert_ne!(listing(&topology.nva), before, "attached, and the listing shows it");
            let programs = tcx(&topology.nva, "eth0");
            assert_eq!(programs.is_empty(), tc == "clsact", "{programs:?}");
            running.signal(signal);
            let asked = Instant::now();
            let (code, _, _) = running.wait();
            if matches!(signal, Signal::SIGTERM | Signal::SIGINT) {
                assert!(matches!(code, Some(0 | 1)), "{signal}: {code:?}");
                assert!(asked.elapsed() < Duration::from_secs(3), "{signal}: {:?}", asked.elapsed());
                assert_eq!(listing(&topology.nva), before, "{tc} {signal}");
            }
            // After SIGKILL the guardian cleans up; within a second, says the design, on a machine that is not busy.
            until(&format!("{tc} {signal}: nothing is left"), || {
                listing(&topology.nva) == before && !programs.iter().any(|id| is_loaded(*id))
            });
        }
    }
}

#[test]
fn a_panic_leaves_nothing_behind() {
    let (topology, _listener, _probers) = misrouted();
    let before = listing(&topology.nva);
    for tc in
        [probe_user::capture::live::mode::TcChoice::Tcx, probe_user::capture::live::mode::TcChoice::Clsact]
    {
        let settings = Settings { tc, ..settings(&topology) };
        let panicked = topology.nva.run(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let _monitor = Monitor::start(settings).await.expect("observation begins");
                panic!("on purpose");
            });
        });
        let message = panicked.map_or_else(|error| error.to_string(), |()| "no panic".to_owned());
        assert!(message.contains("on purpose"), "{message}");
        until("nothing is left", || listing(&topology.nva) == before);
    }
}

#[test]
fn a_second_instance_refuses_and_names_the_first() {
    let (topology, _listener, _probers) = misrouted();
    let first = Running::start(&topology.nva, &["run"]);
    let attached = listing(&topology.nva);
    let second = output(&topology.nva, &["doctor", "--for", "1s"]);
    assert_eq!(second.status.code(), Some(2));
    let error = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(error.contains(&format!("pid {}", first.child.id())), "{error}");
    assert_eq!(listing(&topology.nva), attached, "the first is untouched");
    // Another namespace has its own lock.
    let other = Topology::two_armed().expect("a topology");
    let beside = output(&other.nva, &["doctor", "--for", "200ms"]);
    assert_eq!(beside.status.code(), Some(0), "{}", String::from_utf8_lossy(&beside.stderr));
}

#[test]
fn a_foreign_xdp_program_stays_and_tc_takes_its_place() {
    let (topology, _listener, _probers) = misrouted();
    let mut foreign = Kernel::load();
    let program = foreign.loaded.xdp().expect("an XDP program");
    let _link = topology
        .nva
        .run(|| {
            let id = program.attach("eth0", XdpMode::Driver).expect("XDP attaches to veth");
            program.take_link(id).expect("the link is ours")
        })
        .expect("the namespace can be entered");
    let before = listing(&topology.nva);
    assert!(before.contains("xdp"), "{before}");
    let seen = look(&topology);
    seen.assert_verdict("eth0", PORT, Verdict::Ok, None);
    seen.assert_verdict("eth1", PORT, Verdict::Asymmetric, Some("eth0"));
    let eth0 = &seen.report.nics[0];
    assert_eq!(eth0.ingress.as_deref(), Some("tc"));
    assert!(eth0.note.contains("somebody else"), "{}", eth0.note);
    assert_eq!(seen.report.nics[1].ingress.as_deref(), Some("xdp-native"));
    assert_eq!(listing(&topology.nva), before);
    // Demanded, it is an error that names the program, and nothing is touched.
    let demanded = output(&topology.nva, &["doctor", "--for", "1s", "--ingress", "xdp"]);
    assert_eq!(demanded.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&demanded.stderr).contains("XDP program"), "{demanded:?}");
    assert_eq!(listing(&topology.nva), before);
}

#[test]
fn foreign_clsact_filters_stay_and_do_not_hide_packets() {
    let (topology, _listener, _probers) = misrouted();
    // Terminal verdicts at preferences of their own, and a qdisc that was there before us.
    tool(
        &topology.nva,
        // Classic BPF that returns TC_ACT_OK: it ends the chain.
        "tc qdisc add dev eth0 clsact && tc filter add dev eth0 egress pref 7 bpf da bytecode '1,6 0 0 0' && \
         tc filter add dev eth0 ingress pref 2 bpf da bytecode '1,6 0 0 0' && tc qdisc add dev eth1 root pfifo",
    );
    let before = listing(&topology.nva);
    for tc in ["tcx", "clsact"] {
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            let running = Running::start(&topology.nva, &["run", "--json", "--ingress", "tc", "--tc", tc]);
            std::thread::sleep(Duration::from_secs(2));
            running.signal(signal);
            let (_, out, _) = running.wait();
            for verdict in ["OK", "ASYMMETRIC"] {
                assert!(out.contains(&format!("\"verdict\":\"{verdict}\"")), "{tc}: {out}");
            }
            until("the foreign filters are as they were", || listing(&topology.nva) == before);
        }
    }
}

/// Nobody can stand in front of preference 1: then the observer says what it may miss.
#[test]
fn behind_a_foreign_filter_the_observer_is_degraded() {
    let (topology, _listener, _probers) = misrouted();
    tool(
        &topology.nva,
        "tc qdisc add dev eth0 clsact && tc filter add dev eth0 ingress pref 1 bpf da bytecode '1,6 0 0 0'",
    );
    let before = listing(&topology.nva);
    for (tc, state) in [("clsact", ObserverState::Degraded), ("tcx", ObserverState::Complete)] {
        let args = ["doctor", "--for", "2s", "--json", "--ingress", "tc", "--tc", tc];
        let report: Report = serde_json::from_slice(&output(&topology.nva, &args).stdout).expect("JSON");
        assert_eq!(report.observer.state, state, "{tc}: {:?}", report.observer);
        let said = report
            .observer
            .reasons
            .iter()
            .any(|r| r.code == "behind-foreign-filter" && r.text.contains("eth0"));
        assert_eq!(said, tc == "clsact", "{:?}", report.observer);
        assert_eq!(listing(&topology.nva), before);
    }
}

#[test]
fn a_nic_that_vanishes_and_one_that_comes_are_said() {
    let (topology, _listener, _probers) = misrouted();
    let nva = topology.nva.clone();
    let seen = observe(&topology.nva, settings(&topology), Duration::from_secs(4), move || {
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(1800));
            nva.netlink(|netlink| netlink.delete("eth1")).expect("eth1 can be deleted");
        });
    });
    seen.assert_verdict("eth0", PORT, Verdict::Ok, None);
    // What was known of the other is kept.
    assert_eq!(seen.series("eth1", PORT).verdict, Verdict::Asymmetric);
    let observer = &seen.report.observer;
    assert_eq!(observer.state, ObserverState::Degraded);
    assert!(observer.reasons.iter().any(|r| r.code == "nic-gone" && r.text.contains("eth1")), "{observer:?}");
    assert!(seen.report.findings.iter().any(|finding| finding.code == "DEGRADED_OBSERVER"));
}

#[test]
fn missing_capabilities_are_named_before_anything_is_touched() {
    let topology = Topology::two_armed().expect("a topology");
    let before = listing(&topology.nva);
    let sys_admin = 21_u64;
    for (dropped, name) in
        [(vec![12], "CAP_NET_ADMIN"), (vec![39, sys_admin], "CAP_BPF"), (vec![38, sys_admin], "CAP_PERFMON")]
    {
        let mut doctor = command(&topology.nva, &["doctor", "--for", "1s"]);
        // SAFETY: between fork and exec only prctl is called.
        unsafe {
            doctor.pre_exec(move || {
                for capability in &dropped {
                    if libc::prctl(libc::PR_CAPBSET_DROP, *capability, 0, 0, 0) != 0 {
                        return Err(std::io::Error::last_os_error());
                    }
                }
                Ok(())
            });
        }
        let refused = doctor.output().expect("nvaprobe starts");
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{name}: {error}");
        assert!(error.contains(name) && error.contains("run as root"), "{name}: {error}");
        let after = listing(&topology.nva);
        assert_eq!(after.lines().filter(|l| !before.contains(*l)).collect::<Vec<_>>(), Vec::<&str>::new());
        assert_eq!(after, before);
    }
}

/// A ring that nobody reads: every probe is answered all the same, the loss is counted, no verdict is invented, and
/// verdicts are right again once it is read.
#[test]
fn an_unread_ring_loses_verdicts_and_nothing_else() {
    let topology = Topology::two_armed().expect("a topology");
    topology.primary_route().expect("a route");
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let sources = settings(&topology).sources;
    let seen = topology
        .nva
        .run(|| {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let netlink = Netlink::open().expect("netlink");
                let links = host::links().await.expect("links");
                let judged = nics::judged(&["eth0".to_owned()], &links).expect("eth0");
                let options = Options {
                    sources,
                    sizes: Sizes { ring: 4096, ..Sizes::default() },
                    ..Options::default()
                };
                let mut observer = Observer::load(options, netlink.handle.clone()).expect("the object loads");
                observer.sync(&nics::targets(&links, &judged), true).await.expect("it attaches");
                let mut tracker = Tracker::new(probe::Config::default());
                let mut events = Vec::new();
                // Unread.
                let flood =
                    Probe::tcp(topology.target(0, PORT)).every(Duration::from_millis(20)).attempts(60);
                let flood = topology.fabrics[0].probe(flood).expect("a prober");
                until("the flood is over", || flood.answered() == 60);
                // The last connections close, too: until then there is something to lose.
                let mut last = 0;
                until("the flood has ebbed", || {
                    std::thread::sleep(Duration::from_millis(300));
                    let lost = observer.lost().expect("counters");
                    std::mem::replace(&mut last, lost) == lost
                });
                let lost = observer.lost().expect("counters");
                assert!(lost > 0);
                let mut batch = Vec::new();
                observer.drain(usize::MAX, &mut batch);
                assert!(!batch.is_empty());
                for observation in &batch {
                    tracker.observe(observation, &mut events);
                }
                tracker.lost(lost, boot_ns(), &mut events);
                // Read again.
                let next = topology.fabrics[0]
                    .probe(Probe::tcp(topology.target(0, PORT)).every(Duration::from_millis(300)).attempts(4))
                    .expect("a prober");
                until("the next probes are answered", || {
                    batch.clear();
                    observer.drain(usize::MAX, &mut batch);
                    for observation in &batch {
                        tracker.observe(observation, &mut events);
                    }
                    next.answered() == 4
                });
                // The last answer may have left after the last look.
                batch.clear();
                observer.drain(usize::MAX, &mut batch);
                for observation in &batch {
                    tracker.observe(observation, &mut events);
                }
                assert_eq!(observer.lost().expect("counters"), lost, "no more losses");
                tracker.finish(boot_ns() + 10_000_000_000, &mut events);
                for program in Program::ALL {
                    assert!(observer.counters(program).expect("counters").reconciles());
                }
                observer.close().await;
                tracker.series().cloned().collect::<Vec<_>>()
            })
        })
        .expect("the namespace can be entered");
    let [series] = seen.as_slice() else { panic!("one series: {seen:#?}") };
    assert_eq!(series.verdict(), Verdict::Ok);
    assert_eq!(series.counts().keys().collect::<Vec<_>>(), [&Verdict::Ok], "{:?}", series.counts());
}

/// The same through the binary: what is lost is said, in the report and as a finding.
#[test]
fn losses_are_reported() {
    let topology = Topology::build(&Plan { nics: 1, ..Plan::default() }).expect("a topology");
    topology.primary_route().expect("a route");
    let _listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    let running = Running::start(&topology.nva, &["doctor", "--for", "6s", "--json", "--ring", "4096"]);
    // Stopped, it cannot read.
    running.signal(Signal::SIGSTOP);
    let flood = Probe::tcp(topology.target(0, PORT)).every(Duration::from_millis(20)).attempts(60);
    let flood = topology.fabrics[0].probe(flood).expect("a prober");
    until("the flood is over", || flood.answered() == 60);
    running.signal(Signal::SIGCONT);
    let (code, out, err) = running.wait();
    let report: Report = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    assert!(report.observer.lost > 0);
    assert_eq!(report.observer.state, ObserverState::Degraded);
    assert!(report.findings.iter().any(|finding| finding.code == "DEGRADED_OBSERVER"));
    assert!(!report.has_error(), "{:#?}", report.findings);
    assert_eq!(code, Some(0));
}

/// A reader kept waiting for many intervals finds every reply, and calls none of them missing.
#[test]
fn a_stalled_reader_invents_no_silence() {
    let (topology, _listener, probers) = misrouted();
    let running = Running::start(&topology.nva, &["run", "--json"]);
    for _ in 0..3 {
        let sent = probers[0].log().len();
        running.signal(Signal::SIGSTOP);
        until("more probes were sent", || probers[0].log().len() > sent + 3);
        running.signal(Signal::SIGCONT);
        std::thread::sleep(Duration::from_millis(300));
    }
    running.signal(Signal::SIGTERM);
    let (_, out, _) = running.wait();
    assert!(out.matches("\"verdict\":\"OK\"").count() >= 9, "{out}");
    assert!(!out.contains("NO_REPLY"), "{out}");
}

/// Attaching and detaching again and again leaks no descriptor and no program.
#[test]
fn many_cycles_leak_nothing() {
    let topology = Topology::build(&Plan { nics: 1, ..Plan::default() }).expect("a topology");
    let descriptors = || std::fs::read_dir("/proc/self/fd").expect("procfs").count();
    let cycle = || {
        observe(&topology.nva, settings(&topology), Duration::from_millis(1), || {});
    };
    cycle();
    let before = descriptors();
    for _ in 0..10 {
        cycle();
    }
    // Other tests of this process open and close descriptors of their own meanwhile.
    until("descriptors are back", || descriptors() <= before + 40);
}
