//! Documents of the plainest cases, without a load balancer's view.

use crate::report::document::{
    Evidence, Finding, Fix, Latency, Nic, Observer, ObserverState, Platform, Protocol, Reason, Reply, Report,
    SCHEMA, Series, Severity, Verdict, Window,
};

pub(super) const COMMANDS: &str = "# Lost on reboot and network restart: repeat it in the configuration.\n\
    ip route replace 168.63.129.16 via 10.4.3.1 dev eth1 table 201\n\
    ip rule add from 10.4.3.101 to 168.63.129.16 lookup 201 priority 100";

pub(super) fn series(nic: &str, target: &str, port: u16, counts: &[(Verdict, u64)]) -> Series {
    let verdict = counts[0].0;
    let ok = verdict == Verdict::Ok;
    Series {
        nic: nic.to_owned(),
        source: "168.63.129.16".to_owned(),
        addresses: vec!["168.63.129.16".to_owned()],
        target: target.to_owned(),
        port,
        protocol: Protocol::Tcp,
        verdict,
        reply: if ok { Reply::SynAck } else { Reply::None },
        out_nic: (verdict == Verdict::Asymmetric).then(|| "eth0".to_owned()),
        http_status: None,
        tls_alert: None,
        proxy: None,
        role: None,
        confirmed: true,
        healed: 0,
        attempts: counts.iter().map(|(_, count)| count).sum(),
        counts: counts.iter().copied().collect(),
        interval_s: Some(5.0),
        cadences: vec![5.0],
        limit_s: Some(5.0),
        latency_ms: ok.then_some(Latency { p50: 0.08, p99: 0.31, max: 0.4 }),
        answer_ms: None,
        lb_view: None,
    }
}

pub(super) fn finding(
    code: &str,
    cause: &str,
    port: u16,
    summary: &str,
    evidence: &[(&str, &str)],
) -> Finding {
    Finding {
        code: code.to_owned(),
        cause: cause.to_owned(),
        severity: Severity::Error,
        nic: Some("eth1".to_owned()),
        out_nic: (code == "ASYMMETRIC").then(|| "eth0".to_owned()),
        target: Some("10.4.3.101".to_owned()),
        port: Some(port),
        intermittent: false,
        summary: summary.to_owned(),
        evidence: evidence
            .iter()
            .map(|(kind, text)| Evidence { kind: (*kind).to_owned(), text: (*text).to_owned() })
            .collect(),
        fixes: Vec::new(),
    }
}

pub(in crate::report::text) fn document(probes: Vec<Series>, findings: Vec<Finding>) -> Report {
    let nic = |name: &str, ifindex| Nic {
        name: name.to_owned(),
        ifindex,
        mac: None,
        members: Vec::new(),
        ingress: Some("xdp-native".to_owned()),
        egress: Some("tcx".to_owned()),
        note: "veth: native XDP is free of side effects".to_owned(),
    };
    Report {
        schema: SCHEMA.to_owned(),
        window: Window {
            from: "2026-12-01T03:00:00.000Z".to_owned(),
            to: "2026-12-01T03:00:30.000Z".to_owned(),
        },
        observer: Observer { state: ObserverState::Complete, reasons: Vec::new(), lost: 0, evicted: 0 },
        nics: vec![nic("eth0", 2), nic("eth1", 3)],
        probes,
        findings,
        flows: Vec::new(),
        ha_ports: Vec::new(),
        shares: Vec::new(),
        platform: Platform::default(),
        predictions: Vec::new(),
    }
}

pub(super) fn misrouted() -> Report {
    let probes = vec![
        series("eth0", "10.4.2.101", 8008, &[(Verdict::Ok, 6)]),
        series("eth1", "10.4.3.101", 8008, &[(Verdict::Asymmetric, 5), (Verdict::Pending, 1)]),
    ];
    let mut route = finding(
        "ASYMMETRIC",
        "route",
        8008,
        "Replies to probes on eth1 (10.4.3.101:8008) leave by eth0: the load balancer ignores them and marks this \
         instance down.",
        &[
            ("packets", "5 of 5 replies left by eth0; the probes came in by eth1"),
            ("rule", "32766: from all lookup main"),
            ("route", "168.63.129.16 via 10.4.2.1 dev eth0 proto dhcp src 10.4.2.101 metric 100, table main"),
        ],
    );
    route.fixes = vec![Fix { family: "iproute2".to_owned(), persistent: false, text: COMMANDS.to_owned() }];
    document(probes, vec![route])
}

pub(super) fn healthy() -> Report {
    let mut recovered = series("eth1", "10.4.3.101", 8008, &[(Verdict::Ok, 5), (Verdict::NoReply, 1)]);
    recovered.cadences = vec![5.0, 15.0];
    let mut report =
        document(vec![series("eth0", "10.4.2.101", 8008, &[(Verdict::Ok, 6)]), recovered], Vec::new());
    report.platform = Platform { packets_out: 12, packets_in: 11 };
    report
}

/// One NIC, three ports: refused, silent, fine; and one connection that may be a test.
pub(super) fn three_ports() -> Report {
    let mut refused = series("eth1", "10.4.3.101", 443, &[(Verdict::Refused, 6)]);
    refused.reply = Reply::Rst;
    let mut once = series("eth1", "10.4.3.101", 22, &[(Verdict::Ok, 1)]);
    (once.confirmed, once.interval_s, once.cadences) = (false, None, Vec::new());
    let probes = vec![
        once,
        refused,
        series("eth1", "10.4.3.101", 8008, &[(Verdict::NoReply, 6)]),
        series("eth1", "10.4.3.101", 8117, &[(Verdict::Ok, 6)]),
    ];
    let ignored =
        "sockets, packet filters, reverse-path filter, neighbours, IPsec policies, the kernel's counters";
    let findings = vec![
        finding(
            "REFUSED",
            "unknown",
            443,
            "Probes of 10.4.3.101:443 on eth1 are refused: the load balancer marks this instance down at once.",
            &[("packets", "6 of 6 probes: SYN entered eth1, a RST left by eth1"), ("not-looked-at", ignored)],
        ),
        finding(
            "NO_REPLY",
            "unknown",
            8008,
            "Probes of 10.4.3.101:8008 on eth1 get no reply: the load balancer marks this instance down.",
            &[
                ("packets", "6 of 6 probes: SYN entered eth1, no reply left by any watched device"),
                ("not-looked-at", ignored),
            ],
        ),
        Finding {
            severity: Severity::Info,
            ..finding(
                "NOT_A_PROBE",
                "unknown",
                22,
                "One single connection from 168.63.129.16 to 10.4.3.101:22 on eth1: not judged as a probe, for a \
                 port test looks the same.",
                &[("packets", "1 attempt, verdict OK; a second one would confirm a probe")],
            )
        },
    ];
    document(probes, findings)
}

pub(super) fn ipv6() -> Report {
    let of = |nic: &str, target: &str| Series {
        source: "fe80::1234:5678:9abc".to_owned(),
        protocol: Protocol::Http,
        ..series(nic, target, 8008, &[(Verdict::Ok, 6)])
    };
    document(vec![of("eth0", "fd00:db8:4:2::101"), of("eth1", "fd00:db8:4:3:1234:5678:9abc:101")], Vec::new())
}

pub(super) fn intermittent() -> Report {
    let mut report = misrouted();
    report.probes[1] = series("eth1", "10.4.3.101", 8008, &[(Verdict::Ok, 6), (Verdict::Asymmetric, 3)]);
    let finding = &mut report.findings[0];
    finding.intermittent = true;
    "3 of 9 replies left by eth0; the probes came in by eth1".clone_into(&mut finding.evidence[0].text);
    finding.summary = "3 of 9 replies to probes on eth1 (10.4.3.101:8008) leave by eth0.".to_owned();
    report
}

pub(super) fn degraded() -> Report {
    let mut report = healthy();
    report.observer = Observer {
        state: ObserverState::Degraded,
        reasons: vec![Reason {
            code: "ring-full".to_owned(),
            text: "7 observations were lost because the ring was full; use --ring".to_owned(),
        }],
        lost: 7,
        evicted: 1,
    };
    report.nics[1].note = "XDP refused (XDP: not support LRO)".to_owned();
    report.nics[1].ingress = Some("tc".to_owned());
    report.nics[1].members = vec!["enP1s2".to_owned()];
    report
}

pub(super) fn no_probes(seconds: u32) -> Report {
    let mut report = document(Vec::new(), Vec::new());
    report.window.to = format!("2026-12-01T03:00:{seconds:02}.000Z");
    report
}
