//! Whatever a document holds, it is shown, and none of it is obeyed.

use proptest::prelude::*;

use super::{
    fixtures::{COMMANDS, document, misrouted, series},
    judged::view,
};
use crate::report::{
    document::{Evidence, Latency, LbState, LbView, Protocol, Reason, Report, Series, Severity, Verdict},
    style::width,
    text::{Style, report},
};

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
    fn any_view()(
        state in prop_oneof![
            Just(LbState::Up), Just(LbState::Down), Just(LbState::Held), Just(LbState::Unknown)
        ],
        code in odd(),
        since in proptest::option::of(prop_oneof![odd(), Just("2026-11-30T23:58:10.000Z".to_owned())]),
        (threshold, rise) in (any::<u32>(), any::<u32>()),
        failures_left in proptest::option::of(any::<u32>()),
        successes_left in proptest::option::of(any::<u32>()),
        failover_s in proptest::option::of(any::<f64>()),
        flows in proptest::option::of(odd()),
    ) -> LbView {
        let changes = threshold;
        LbView { state, code, since, threshold, rise, failures_left, successes_left, failover_s, changes, flows }
    }
}

prop_compose! {
    /// What a probe showed of its application.
    fn any_application()(
        protocol in prop_oneof![Just(Protocol::Tcp), Just(Protocol::Http), Just(Protocol::Https)],
        verdict in prop_oneof![
            Just(Verdict::Ok), Just(Verdict::HttpStatus), Just(Verdict::TlsFail), Just(Verdict::Refused)
        ],
        status in proptest::option::of(any::<u16>()),
        alert in proptest::option::of(odd()),
        proxy in proptest::option::of(odd()),
        standby in any::<bool>(),
        view in proptest::option::of(any_view()),
        severity in prop_oneof![Just(Severity::Error), Just(Severity::Warning), Just(Severity::Info)],
        repeat in 1usize..30,
    ) -> (Series, Severity, usize) {
        let series = Series {
            protocol,
            http_status: status,
            tls_alert: alert,
            proxy,
            role: standby.then(|| "standby".to_owned()),
            lb_view: view,
            ..series("eth0", "10.4.2.101", 8008, &[(verdict, u64::from(status.unwrap_or(1)))])
        };
        (series, severity, repeat)
    }
}

prop_compose! {
    fn any_report()(
        (application, severity, repeat) in any_application(),
        texts in proptest::collection::vec(odd(), 16),
        numbers in proptest::collection::vec(any::<u64>(), 4),
        seconds in proptest::option::of(any::<f64>()),
        intermittent in any::<bool>(),
        confirmed in any::<bool>(),
        degraded in any::<bool>(),
        said in any::<bool>(),
        copies in 0usize..3,
    ) -> Report {
        let mut report = if degraded { super::fixtures::degraded() } else { misrouted() };
        let text = |index: usize| texts[index].clone();
        let whole = Series { nic: "eth1".to_owned(), target: "10.4.3.101".to_owned(), ..application.clone() };
        report.probes.extend(std::iter::repeat_n(whole, repeat));
        if let Some(one) = report.probes.first_mut() {
            *one = application;
            one.answer_ms = seconds.map(|ms| Latency { p50: ms, p99: ms, max: ms });
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
            found.severity = severity;
            if confirmed {
                // It speaks of a series.
                (found.nic, found.target) = (Some("eth1".to_owned()), Some("10.4.3.101".to_owned()));
            }
            if said {
                found.code = "DEGRADED_OBSERVER".to_owned();
            }
        }
        let findings = report.findings.clone();
        report.findings.extend(findings.iter().cycle().take(copies * findings.len()).cloned());
        if copies == 2 {
            report.probes.clear();
        }
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

    /// Rows are shared by healthy series only, and name every one of them.
    #[test]
    fn no_port_hides_behind_another(
        ports in proptest::collection::btree_map(any::<u16>(), prop_oneof![4 => Just(true), 1 => Just(false)], 1..80),
        columns in prop_oneof![Just(40u16), Just(80), Just(200)],
    ) {
        let probes = ports.iter().map(|(port, ok)| Series {
            lb_view: Some(if *ok {
                view(LbState::Up, "Up_Probe_Success", None)
            } else {
                view(LbState::Down, "Down_Probe_TcpProbeTimeout", Some("03:00:10"))
            }),
            ..series("eth0", "10.4.2.101", *port, &[(if *ok { Verdict::Ok } else { Verdict::NoReply }, 6)])
        });
        let text = report(&document(probes.collect(), Vec::new()), Style { width: columns, colour: false });
        let mut named = std::collections::BTreeMap::new();
        let mut lines = text.lines().skip_while(|line| !line.is_empty()).peekable();
        while let Some(line) = lines.next() {
            let Some(of) = line.strip_prefix("eth0 ").and_then(|rest| rest.trim().strip_prefix("10.4.2.101:")) else {
                continue;
            };
            // Stacked, the verdict stands on the next line.
            let below = lines.peek().copied().unwrap_or_default();
            let ok = !line.contains("NO_REPLY") && !below.starts_with("  NO_REPLY");
            for range in of.split(' ').next().unwrap_or_default().split(',') {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let bounds = (first.parse::<u16>().expect("port"), last.parse::<u16>().expect("port"));
                named.extend((bounds.0..=bounds.1).map(|port| (port, ok)));
            }
        }
        prop_assert_eq!(&named, &ports, "{}", text);
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
