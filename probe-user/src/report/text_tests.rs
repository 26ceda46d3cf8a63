//! The text report: what a tired operator reads, at several widths, and for any content.

use proptest::prelude::*;

use super::{Style, report};
use crate::report::document::{
    Evidence, Finding, Fix, Observer, ObserverState, Platform, Protocol, Reason, Reply, Report, SCHEMA,
    Series, Severity, Verdict, Window,
};

fn series(nic: &str, target: &str, verdict: Verdict, out: Option<&str>) -> Series {
    Series {
        nic: nic.to_owned(),
        source: "168.63.129.16".to_owned(),
        addresses: vec!["168.63.129.16".to_owned()],
        target: target.to_owned(),
        port: 8008,
        protocol: Protocol::Tcp,
        verdict,
        reply: Reply::SynAck,
        out_nic: out.map(str::to_owned),
        http_status: None,
        confirmed: true,
        healed: 0,
        attempts: 6,
        counts: [(verdict, 6)].into(),
        interval_s: Some(5.0),
        cadences: vec![5.0],
        limit_s: Some(5.0),
        latency_ms: None,
        lb_view: None,
    }
}

fn finding(code: &str, summary: &str) -> Finding {
    Finding {
        code: code.to_owned(),
        cause: "route".to_owned(),
        severity: Severity::Error,
        nic: Some("eth1".to_owned()),
        out_nic: Some("eth0".to_owned()),
        target: Some("10.4.3.101".to_owned()),
        port: Some(8008),
        intermittent: false,
        summary: summary.to_owned(),
        evidence: vec![Evidence {
            kind: "route".to_owned(),
            text: "168.63.129.16 via 10.4.2.1 dev eth0 proto dhcp src 10.4.2.101 metric 100, table main"
                .to_owned(),
        }],
        fixes: vec![Fix {
            family: "iproute2".to_owned(),
            persistent: false,
            text: "ip route replace 168.63.129.16 via 10.4.3.1 dev eth1 table 201".to_owned(),
        }],
    }
}

fn document(probes: Vec<Series>, findings: Vec<Finding>) -> Report {
    Report {
        schema: SCHEMA.to_owned(),
        window: Window {
            from: "2026-12-01T03:00:00.000Z".to_owned(),
            to: "2026-12-01T03:00:30.000Z".to_owned(),
        },
        observer: Observer { state: ObserverState::Complete, reasons: Vec::new(), lost: 0, evicted: 0 },
        nics: Vec::new(),
        probes,
        findings,
        flows: Vec::new(),
        ha_ports: Vec::new(),
        platform: Platform::default(),
    }
}

fn misrouted() -> Report {
    let probes = vec![
        series("eth0", "10.4.2.101", Verdict::Ok, None),
        series("eth1", "10.4.3.101", Verdict::Asymmetric, Some("eth0")),
    ];
    document(probes, vec![finding("ASYMMETRIC", "Replies to probes on eth1 leave by eth0.")])
}

#[test]
fn reports_look_as_designed() {
    insta::assert_snapshot!("misrouted_80", report(&misrouted(), Style::PLAIN));
    insta::assert_snapshot!("misrouted_40", report(&misrouted(), Style { width: 40, ..Style::PLAIN }));
    let coloured = report(&misrouted(), Style { colour: true, ..Style::PLAIN });
    insta::assert_snapshot!("misrouted_colour", coloured.replace('\x1b', "ESC"));
    let healthy = document(vec![series("eth0", "fd00::1", Verdict::Ok, None)], Vec::new());
    insta::assert_snapshot!("healthy_ipv6", report(&healthy, Style::PLAIN));
    let mut nothing = document(Vec::new(), Vec::new());
    nothing.observer = Observer {
        state: ObserverState::Degraded,
        reasons: vec![Reason { code: "ring-full".to_owned(), text: "7 observations were lost".to_owned() }],
        lost: 7,
        evicted: 0,
    };
    insta::assert_snapshot!("nothing_and_degraded", report(&nothing, Style::PLAIN));
}

proptest! {
    #[test]
    fn any_content_is_shown_and_none_is_obeyed(
        name in "\\PC{0,12}|[\\x00-\\x1f]{1,4}",
        summary in ".{0,200}",
        width in 20u16..200,
    ) {
        let mut document = misrouted();
        document.probes[1].nic.clone_from(&name);
        document.findings[0].nic = Some(name.clone());
        document.findings[0].summary = summary;
        document.findings[0].evidence[0].text = name;
        let text = report(&document, Style { width, colour: false });
        prop_assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{:?}", text);
        // Commands are never broken, whatever the width.
        prop_assert!(text.contains("    ip route replace 168.63.129.16 via 10.4.3.1 dev eth1 table 201\n"));
    }
}
