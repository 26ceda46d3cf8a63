//! The text report: what a tired operator reads, at several widths, and for any content.

use proptest::prelude::*;

use super::{Style, report};
use crate::report::{
    document::{
        Evidence, Finding, Fix, Latency, Nic, Observer, ObserverState, Platform, Protocol, Reason, Reply,
        Report, SCHEMA, Series, Severity, Verdict, Window,
    },
    style::width,
};

const COMMANDS: &str = "# Lost on reboot and network restart: repeat it in the configuration.\n\
    ip route replace 168.63.129.16 via 10.4.3.1 dev eth1 table 201\n\
    ip rule add from 10.4.3.101 to 168.63.129.16 lookup 201 priority 100";

fn series(nic: &str, target: &str, port: u16, counts: &[(Verdict, u64)]) -> Series {
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

fn finding(code: &str, cause: &str, port: u16, summary: &str, evidence: &[(&str, &str)]) -> Finding {
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

fn document(probes: Vec<Series>, findings: Vec<Finding>) -> Report {
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
        platform: Platform::default(),
    }
}

fn misrouted() -> Report {
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

fn healthy() -> Report {
    let mut recovered = series("eth1", "10.4.3.101", 8008, &[(Verdict::Ok, 5), (Verdict::NoReply, 1)]);
    recovered.cadences = vec![5.0, 15.0];
    let mut report =
        document(vec![series("eth0", "10.4.2.101", 8008, &[(Verdict::Ok, 6)]), recovered], Vec::new());
    report.platform = Platform { packets_out: 12, packets_in: 11 };
    report
}

/// One NIC, three ports: refused, silent, fine; and one connection that may be a test.
fn three_ports() -> Report {
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

fn ipv6() -> Report {
    let of = |nic: &str, target: &str| Series {
        source: "fe80::1234:5678:9abc".to_owned(),
        protocol: Protocol::Http,
        ..series(nic, target, 8008, &[(Verdict::Ok, 6)])
    };
    document(vec![of("eth0", "fd00:db8:4:2::101"), of("eth1", "fd00:db8:4:3:1234:5678:9abc:101")], Vec::new())
}

fn intermittent() -> Report {
    let mut report = misrouted();
    report.probes[1] = series("eth1", "10.4.3.101", 8008, &[(Verdict::Ok, 6), (Verdict::Asymmetric, 3)]);
    let finding = &mut report.findings[0];
    finding.intermittent = true;
    "3 of 9 replies left by eth0; the probes came in by eth1".clone_into(&mut finding.evidence[0].text);
    finding.summary = "3 of 9 replies to probes on eth1 (10.4.3.101:8008) leave by eth0.".to_owned();
    report
}

fn degraded() -> Report {
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

fn no_probes(seconds: u32) -> Report {
    let mut report = document(Vec::new(), Vec::new());
    report.window.to = format!("2026-12-01T03:00:{seconds:02}.000Z");
    report
}

fn first(report: &Report) -> String {
    super::report(report, Style { width: 200, ..Style::PLAIN }).lines().next().unwrap_or_default().to_owned()
}

#[test]
fn reports_look_as_designed() {
    let cases = [
        ("misrouted", misrouted()),
        ("healthy", healthy()),
        ("no_probes", no_probes(30)),
        ("three_ports", three_ports()),
        ("ipv6", ipv6()),
        ("intermittent", intermittent()),
        ("degraded", degraded()),
    ];
    for (name, document) in &cases {
        for columns in [40, 80, 120] {
            let text = report(document, Style { width: columns, colour: false });
            insta::assert_snapshot!(format!("{name}_{columns}"), text);
        }
        let coloured = report(document, Style { colour: true, ..Style::PLAIN });
        insta::assert_snapshot!(format!("{name}_colour"), coloured.replace('\x1b', "ESC"));
    }
}

#[test]
fn the_first_line_is_never_better_than_what_was_seen() {
    assert_eq!(first(&no_probes(30)), "NO PROBES SEEN on eth0, eth1 in 30 s");
    assert!(first(&no_probes(5)).ends_with("in 5 s: too short a look to tell, Azure probes every 5 to 15 s"));
    let mut refused_once = no_probes(30);
    refused_once.probes = vec![series("eth0", "10.4.2.101", 22, &[(Verdict::Refused, 1)])];
    refused_once.probes[0].confirmed = false;
    assert_eq!(
        first(&refused_once),
        "NO PROBES SEEN on eth0, eth1 in 30 s, only 1 connection that may be a test"
    );
    let pending = document(vec![series("eth0", "10.4.2.101", 8008, &[(Verdict::Pending, 1)])], Vec::new());
    assert_eq!(first(&pending), "WAIT  1 probed port seen, none judged yet");
    // A standby that refuses is no error, but nothing to call OK.
    let mut standby = three_ports();
    standby.findings.clear();
    assert_eq!(first(&standby), "WARN  1 of 3 probed ports answered on the NIC the probe came in on");
    assert_eq!(
        first(&degraded()),
        "OK    2 probed ports answered on the NIC the probe came in on, 1 after failures; nvaprobe does not see \
         everything"
    );
    assert!(first(&three_ports()).ends_with(", and 1 more"), "{}", first(&three_ports()));
}

#[test]
fn commands_are_pasted_as_they_are() {
    let here_document = "cat > /etc/netplan/60-probe.yaml <<'EOF'\nnetwork:\n  version: 2\nEOF";
    let mut report = misrouted();
    report.findings[0].fixes.push(Fix {
        family: "netplan".to_owned(),
        persistent: true,
        text: here_document.to_owned(),
    });
    for columns in [1, 40, 80] {
        let text = super::report(&report, Style { width: columns, colour: true });
        for commands in [COMMANDS, here_document] {
            assert!(text.contains(&format!("\n{commands}\n")), "{text}");
        }
    }
}

/// Anything that a name may hold, and what terminals obey.
fn odd() -> impl Strategy<Value = String> {
    prop_oneof![
        "(?s).{0,40}",
        "[\\x00-\\x1f\\x7f-\\x9f\u{200b}-\u{200f}\u{202a}-\u{202e} ]{1,8}",
        "[網卡ｅ🙂👩\u{200d}a-z ]{0,60}",
        "[a-z]{0,90}",
    ]
}

prop_compose! {
    fn any_report()(
        texts in proptest::collection::vec(odd(), 16),
        numbers in proptest::collection::vec(any::<u64>(), 4),
        seconds in proptest::option::of(any::<f64>()),
        intermittent in any::<bool>(),
        confirmed in any::<bool>(),
        degraded in any::<bool>(),
        said in any::<bool>(),
        copies in 0usize..3,
    ) -> Report {
        let mut report = if degraded { self::degraded() } else { misrouted() };
        let text = |index: usize| texts[index].clone();
        if let Some(one) = report.probes.first_mut() {
            (one.nic, one.target, one.out_nic) = (text(0), text(1), Some(text(2)));
            (one.interval_s, one.confirmed, one.port) = (seconds, confirmed, numbers[0] as u16);
            one.latency_ms = seconds.map(|ms| Latency { p50: ms, p99: ms, max: ms });
        }
        (report.nics[0].name, report.nics[0].note) = (text(3), text(4));
        (report.nics[0].members, report.nics[1].ingress) = (vec![text(5)], Some(text(6)));
        (report.observer.lost, report.observer.evicted) = (numbers[1], numbers[2]);
        report.observer.reasons = vec![Reason { code: text(7), text: text(8) }];
        (report.window.from, report.platform.packets_out) = (text(9), numbers[3] >> 1);
        for found in &mut report.findings {
            (found.cause, found.nic, found.summary) = (text(10), Some(text(11)), text(12));
            (found.target, found.intermittent) = (Some(text(13)), intermittent);
            found.evidence[0] = Evidence { kind: text(14), text: text(15) };
            found.fixes[0].family = text(7);
            if said {
                found.code = "DEGRADED_OBSERVER".to_owned();
            }
        }
        let findings = report.findings.clone();
        report.findings.extend(findings.iter().cycle().take(copies * findings.len()).cloned());
        report.probes.truncate(if copies == 2 { 0 } else { 2 });
        report
    }
}

proptest! {
    #[test]
    fn any_content_is_shown_and_none_is_obeyed(document in any_report(), columns in 0u16..200) {
        let text = report(&document, Style { width: columns, colour: false });
        let room = usize::from(columns.max(Style::NARROWEST));
        let commands: Vec<&str> = COMMANDS.lines().collect();
        for line in text.lines() {
            prop_assert!(!line.chars().any(char::is_control), "{line:?}");
            prop_assert!(width(line) <= room || commands.contains(&line), "{} > {room}: {line:?}", width(line));
        }
        if !document.findings.is_empty() {
            let block = format!("\n{COMMANDS}\n");
            prop_assert!(text.contains(&block), "{text}");
        }
    }

    /// Colour adds nothing but its codes, and ends on the line where it began.
    #[test]
    fn colour_changes_no_letter(document in any_report(), columns in 0u16..200) {
        let plain = report(&document, Style { width: columns, colour: false });
        let coloured = report(&document, Style { width: columns, colour: true });
        let mut stripped = coloured.clone();
        for code in ["\x1b[0m", "\x1b[1;31m", "\x1b[1;32m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m"] {
            stripped = stripped.replace(code, "");
        }
        prop_assert_eq!(stripped, plain);
        for line in coloured.lines().filter(|line| line.contains('\x1b')) {
            prop_assert_eq!(line.matches('\x1b').count(), 2 * line.matches("\x1b[0m").count(), "{}", line);
        }
    }
}
