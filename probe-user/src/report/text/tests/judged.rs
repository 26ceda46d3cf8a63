//! Documents with the load balancer's view.

use super::fixtures::{document, finding, misrouted, series, three_ports};
use crate::report::document::{
    Evidence, Finding, Latency, LbState, LbView, Nic, ObserverState, Protocol, Reason, Reply, Report, Series,
    Severity, Verdict,
};

const FLOWS: &str = "Established TCP flows continue while this instance is down, UDP flows move to another; \
    with every instance down, TCP continues unless the pool has only one.";
const DEFAULTS: &str =
    "every 15 s, the default of templates (the portal's is 5 s): out of rotation 15 s after a failure";

pub(super) fn view(state: LbState, code: &str, since: Option<&str>) -> LbView {
    LbView {
        state,
        code: code.to_owned(),
        since: since.map(|clock| format!("2026-12-01T{clock}.250Z")),
        threshold: 1,
        rise: 1,
        failures_left: (state == LbState::Up).then_some(1),
        successes_left: (state == LbState::Down).then_some(1),
        failover_s: Some(5.0),
        changes: u32::from(since.is_some()),
        flows: Some(FLOWS.to_owned()),
    }
}

fn up(series: Series) -> Series {
    Series { lb_view: Some(view(LbState::Up, "Up_Probe_Success", None)), ..series }
}

fn down(series: Series, code: &str) -> Series {
    Series { lb_view: Some(view(LbState::Down, code, Some("03:00:10"))), ..series }
}

fn eth0() -> Series {
    up(series("eth0", "10.4.2.101", 8008, &[(Verdict::Ok, 6)]))
}

/// The series of eth1.
fn eth1(counts: &[(Verdict, u64)]) -> Series {
    series("eth1", "10.4.3.101", 8008, counts)
}

fn warning(code: &str, summary: &str, evidence: &[(&str, &str)]) -> Finding {
    Finding { severity: Severity::Warning, ..finding(code, "unknown", 8008, summary, evidence) }
}

fn info(code: &str, nic: &str, target: &str, port: u16, summary: &str) -> Finding {
    Finding {
        severity: Severity::Info,
        nic: Some(nic.to_owned()),
        target: Some(target.to_owned()),
        ..finding(code, "unknown", port, summary, &[("attempts", "6, 15.0 s apart")])
    }
}

pub(super) fn misrouted_down() -> Report {
    let mut report = misrouted();
    report.probes[0] = eth0();
    report.probes[1] = down(report.probes[1].clone(), "Down_Probe_TcpProbeTimeout");
    report
}

pub(super) fn not_found() -> Report {
    let mut failing = Series {
        protocol: Protocol::Http,
        reply: Reply::Data,
        http_status: Some(404),
        answer_ms: Some(Latency { p50: 1.1, p99: 2.4, max: 2.6 }),
        ..down(eth1(&[(Verdict::HttpStatus, 6)]), "Down_Probe_HttpStatusCodeError")
    };
    failing.proxy = Some("v2".to_owned());
    let error = finding(
        "HTTP_STATUS",
        "http-status",
        8008,
        "Probes of 10.4.3.101:8008 on eth1 are answered with HTTP status 404, which does not count as healthy.",
        &[("packets", "6 of 6 probes on eth1: HTTP_STATUS")],
    );
    document(vec![eth0(), failing], vec![error])
}

pub(super) fn tls_alert() -> Report {
    let https = |series: Series| Series { protocol: Protocol::Https, reply: Reply::Data, ..series };
    let alert = Series {
        tls_alert: Some("protocol_version".to_owned()),
        ..https(down(eth1(&[(Verdict::TlsFail, 6)]), "Down_Probe_HttpEndpointUnreachable"))
    };
    let error = finding(
        "TLS_FAIL",
        "tls-alert",
        8008,
        "Probes of 10.4.3.101:8008 on eth1 end in a TLS alert.",
        &[("packets", "6 of 6 probes on eth1: TLS alert protocol_version (70)")],
    );
    let answered = Some(Latency { p50: 3.0, p99: 4.5, max: 5.0 });
    document(vec![Series { answer_ms: answered, ..https(eth0()) }, alert], vec![error])
}

pub(super) fn slow() -> Report {
    let late = Some(Latency { p50: 1200.0, p99: 3400.0, max: 4100.0 });
    let near = Series {
        protocol: Protocol::Http,
        http_status: Some(200),
        answer_ms: late,
        ..up(eth1(&[(Verdict::Ok, 6)]))
    };
    let latency = warning(
        "LATENCY",
        "Answers on eth1 10.4.3.101:8008 take up to 3.4 s of the 5 s that the load balancer waits.",
        &[("latency", "p50 1200 ms, p99 3400 ms, max 4100 ms; half the limit is 2500 ms")],
    );
    document(vec![eth0(), near], vec![latency])
}

/// It alternates: an error of the failing kind, and the load balancer holds it.
pub(super) fn flapping() -> Report {
    let mut held = view(LbState::Held, "Down_Probe_ApproachingHealthyThreshold", Some("03:00:20"));
    held.changes = 5;
    let flaps = Series {
        protocol: Protocol::Http,
        http_status: Some(200),
        lb_view: Some(held),
        ..eth1(&[(Verdict::Ok, 4), (Verdict::HttpStatus, 3)])
    };
    let mut error = finding(
        "HTTP_STATUS",
        "http-status",
        8008,
        "3 of 7 probes of 10.4.3.101:8008 on eth1 are answered with HTTP status 500.",
        &[("packets", "3 of 7 probes on eth1: HTTP_STATUS")],
    );
    error.intermittent = true;
    let flapping = warning(
        "FLAPPING",
        "10.4.3.101:8008 on eth1 went up and down 5 times within ten intervals: the load balancer holds it down \
         longer than its threshold says.",
        &[("lb-view", "5 changes")],
    );
    document(vec![eth0(), flaps], vec![flapping, error])
}

/// Nothing fails any more, but the load balancer wants another success.
pub(super) fn recovered() -> Report {
    let mut back =
        down(eth1(&[(Verdict::Ok, 2), (Verdict::NoReply, 4)]), "Down_Probe_ApproachingHealthyThreshold");
    if let Some(view) = &mut back.lb_view {
        (view.threshold, view.rise, view.successes_left) = (3, 3, Some(1));
    }
    document(vec![eth0(), back], Vec::new())
}

/// One failure of three, at a low.
pub(super) fn shaky() -> Report {
    let mut shaky = up(eth1(&[(Verdict::Ok, 8), (Verdict::NoReply, 1)]));
    if let Some(view) = &mut shaky.lb_view {
        "Up_Probe_ApproachingUnhealthyThreshold".clone_into(&mut view.code);
        (view.threshold, view.failures_left) = (3, Some(2));
    }
    document(vec![eth0(), shaky], Vec::new())
}

pub(super) fn standby() -> Report {
    let refusing = Series {
        role: Some("standby".to_owned()),
        reply: Reply::Rst,
        ..down(eth1(&[(Verdict::Refused, 6)]), "Down_Probe_TcpProbeTimeout")
    };
    let text = "Probes are refused, as a standby is configured to do.";
    let mut found = info("REFUSED", "eth1", "10.4.3.101", 8008, text);
    "nothing-listening".clone_into(&mut found.cause);
    found.evidence = vec![Evidence {
        kind: "packets".to_owned(),
        text: "6 of 6 probes: SYN entered eth1, a RST left by eth1".to_owned(),
    }];
    document(vec![refusing], vec![found])
}

pub(super) fn not_arriving() -> Report {
    let mut missing = finding(
        "NOT_ARRIVING",
        "not-arriving",
        8117,
        "No probe of port 8117 came in by eth1 in 60 s: what stops it is outside this host.",
        &[(
            "candidates",
            "a network security group without AzureLoadBalancer; eth1 is in no backend pool; no rule uses the probe",
        )],
    );
    missing.target = None;
    document(vec![eth0()], vec![missing])
}

pub(super) fn shared_signal() -> Report {
    let ssh = up(series("eth1", "10.4.3.101", 22, &[(Verdict::Ok, 6)]));
    let mut shared = warning(
        "SHARED_SIGNAL",
        "The probed port 22 belongs to sshd: it stays up when the appliance behind it is dead.",
        &[("socket", "0.0.0.0:22 is held by sshd")],
    );
    shared.port = Some(22);
    document(vec![eth0(), ssh], vec![shared])
}

/// 64 ports, of which each has its remark; one more of them is slow, and one is closed to all but a test.
pub(super) fn many() -> Report {
    let mut probes: Vec<Series> = (8000..8064)
        .map(|port| up(series("eth0", "10.4.2.101", port, &[(Verdict::Ok, 5 + u64::from(port % 2))])))
        .collect();
    let mut findings: Vec<Finding> =
        (8000..8064).map(|port| info("INTERVAL", "eth0", "10.4.2.101", port, DEFAULTS)).collect();
    findings.push(info("INTERVAL", "eth1", "10.4.3.101", 8008, DEFAULTS));
    probes[20].latency_ms = Some(Latency { p50: 9.0, p99: 2600.0, max: 2700.0 });
    probes.push(up(eth1(&[(Verdict::Ok, 6)])));
    document(probes, findings)
}

/// The latest is fine, yet too long ago.
pub(super) fn unknown() -> Report {
    let mut stale = eth1(&[(Verdict::Ok, 6)]);
    stale.lb_view = Some(view(LbState::Unknown, "NA", Some("03:00:25")));
    document(vec![eth0(), stale], Vec::new())
}

/// Several kinds of remarks after a fault; two load balancers with different sources on one port.
pub(super) fn two_sources() -> Report {
    let mut report = three_ports();
    report.probes[3] = up(report.probes[3].clone());
    let mut other = report.probes[3].clone();
    "35.191.0.0/16".clone_into(&mut other.source);
    report.probes.push(other);
    report.findings.push(info("INTERVAL", "eth1", "10.4.3.101", 443, DEFAULTS));
    report.findings.push(info("INTERVAL", "eth1", "10.4.3.101", 8008, DEFAULTS));
    report
}

pub(super) fn replayed() -> Report {
    let mut report = misrouted_down();
    // Seen the evening before the file ends.
    if let Some(view) = &mut report.probes[1].lb_view {
        view.since = Some("2026-11-30T23:58:10.000Z".to_owned());
    }
    report.nics = [("eth0", 0), ("eth1", 0)]
        .map(|(name, ifindex)| Nic {
            name: name.to_owned(),
            ifindex,
            mac: None,
            members: Vec::new(),
            ingress: None,
            egress: None,
            note: format!("{name}.pcap, Ethernet"),
        })
        .into();
    report.observer.state = ObserverState::Degraded;
    report.observer.reasons = vec![Reason {
        code: "damaged".to_owned(),
        text: "eth1.pcap is damaged at byte 1048576: everything before it was judged".to_owned(),
    }];
    report
}
