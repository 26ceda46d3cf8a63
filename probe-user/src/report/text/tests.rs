//! The text report: what a tired operator reads, at several widths.

pub(super) mod fixtures;
mod judged;
mod properties;

use super::{Style, report};
use crate::report::document::{Finding, Fix, LbState, LbView, Report, Verdict};
use fixtures::*;

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
        ("misrouted_down", judged::misrouted_down()),
        ("not_found", judged::not_found()),
        ("tls_alert", judged::tls_alert()),
        ("slow", judged::slow()),
        ("flapping", judged::flapping()),
        ("recovered", judged::recovered()),
        ("shaky", judged::shaky()),
        ("unknown", judged::unknown()),
        ("standby", judged::standby()),
        ("not_arriving", judged::not_arriving()),
        ("shared_signal", judged::shared_signal()),
        ("two_sources", judged::two_sources()),
        ("many", judged::many()),
        ("replayed", judged::replayed()),
    ];
    for (name, document) in &cases {
        for columns in [40, 60, 80, 120] {
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
    assert_eq!(first(&standby), "WARN  1 of 3 probed ports answered on the probe's own NIC");
    assert_eq!(
        first(&degraded()),
        "OK    2 probed ports answered on the probe's own NIC, 1 after failures; nvaprobe does not see \
         everything"
    );
    assert!(first(&three_ports()).ends_with("; 1 more error on eth1"), "{}", first(&three_ports()));
}

/// What the load balancer thinks is in the answer whenever it is not what the verdicts say.
#[test]
fn the_first_line_tells_what_the_load_balancer_thinks() {
    let down = "FAIL  eth1 10.4.3.101:8008: probe replies leave by eth0 (cause: route); load balancer: DOWN since 03:00:10 UTC";
    assert_eq!(first(&judged::misrouted_down()), down);
    let ok = "2 probed ports answered on the probe's own NIC";
    assert_eq!(
        first(&judged::recovered()),
        format!(
            "WARN  eth1 10.4.3.101:8008 answered, but load balancer: DOWN since 03:00:10 UTC, 1 success from up; {ok}, 1 after failures"
        )
    );
    assert_eq!(
        first(&judged::unknown()),
        format!("WARN  eth1 10.4.3.101:8008 answered, but load balancer: unknown since 03:00:25 UTC; {ok}")
    );
    assert!(first(&judged::flapping()).ends_with("; load balancer: held (flapping) since 03:00:20 UTC"));
    // It has not acted on the failure yet.
    let mut late = judged::misrouted_down();
    late.probes[1].lb_view =
        Some(LbView { failures_left: Some(2), threshold: 3, ..judged::view(LbState::Up, "", None) });
    assert!(first(&late).ends_with("; load balancer: up, 2 failures from down"), "{}", first(&late));
    // Of two errors, the one for which it took the instance out.
    let mut both = judged::misrouted_down();
    both.probes[0].lb_view = Some(judged::view(LbState::Up, "", None));
    let other = Finding {
        nic: Some("eth0".to_owned()),
        target: Some("10.4.2.101".to_owned()),
        ..both.findings[0].clone()
    };
    both.findings.insert(0, other);
    assert_eq!(first(&both), format!("{down}; 1 more error on eth0"));
    // Held without an error: said once.
    let mut held = judged::flapping();
    held.findings.retain(|finding| finding.code == "FLAPPING");
    let text = "eth1 10.4.3.101:8008 answered, but load balancer: held (flapping) since 03:00:20 UTC";
    assert_eq!(first(&held), format!("WARN  {text}; {ok}, 1 after failures"));
    // Nothing up is said of what nobody knows.
    let mut silent = judged::many();
    silent.probes[3].lb_view = None;
    assert_eq!(first(&silent), "OK    65 probed ports answered on the probe's own NIC");
}

/// A standby is down on purpose, but must not answer by the wrong NIC.
#[test]
fn a_standby_is_excused_for_silence_only() {
    assert_eq!(first(&judged::standby()), "OK    1 standby does not answer, as configured");
    let mut astray = judged::standby();
    astray.probes[0].verdict = Verdict::Asymmetric;
    assert!(
        first(&astray).starts_with("WARN  eth1 10.4.3.101:8008 load balancer: DOWN"),
        "{}",
        first(&astray)
    );
    assert!(!report(&judged::standby(), Style::PLAIN).contains("flows "));
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
