//! Events as lines for people and as JSON Lines.

use proptest::prelude::*;

use super::*;
use crate::report::{document::Severity, style::width};

const TIME: &str = "2026-12-01T03:04:05.678Z";

fn attempt(verdict: Verdict, reply: Reply, out_nic: Option<&str>) -> Attempt {
    Attempt {
        time: TIME.to_owned(),
        nic: "eth1".to_owned(),
        source: "168.63.129.16".to_owned(),
        address: "168.63.129.16".to_owned(),
        source_port: 50001,
        target: "10.4.3.101".to_owned(),
        port: 8008,
        protocol: Protocol::Tcp,
        verdict,
        reply,
        out_nic: out_nic.map(str::to_owned),
        http_status: None,
        tls_alert: None,
        latency_ms: (reply == Reply::SynAck).then_some(0.0812),
        retransmits: 0,
        revised: false,
    }
}

fn lb_view(from: Option<LbState>, to: LbState, code: &str) -> Event {
    Event::LbView {
        time: TIME.to_owned(),
        nic: "eth1".to_owned(),
        source: "168.63.129.16".to_owned(),
        target: "10.4.3.101".to_owned(),
        port: 8008,
        from,
        to,
        code: code.to_owned(),
    }
}

fn events() -> Vec<Event> {
    vec![
        Event::Attempt(attempt(Verdict::Ok, Reply::SynAck, None)),
        Event::Attempt(attempt(Verdict::Asymmetric, Reply::SynAck, Some("eth0"))),
        Event::Attempt(Attempt { retransmits: 2, ..attempt(Verdict::NoReply, Reply::None, None) }),
        Event::Attempt(Attempt { retransmits: 1, ..attempt(Verdict::Refused, Reply::Rst, None) }),
        Event::Attempt(attempt(Verdict::IcmpReject, Reply::Icmp, None)),
        Event::Attempt(Attempt {
            nic: "eth0".to_owned(),
            source: "fe80::1234:5678:9abc".to_owned(),
            address: "fe80::1234:5678:9abc".to_owned(),
            target: "fd00:4:2::101".to_owned(),
            ..attempt(Verdict::Ok, Reply::SynAck, None)
        }),
        Event::Attempt(Attempt {
            protocol: Protocol::Http,
            http_status: Some(404),
            latency_ms: Some(0.0812),
            ..attempt(Verdict::HttpStatus, Reply::Data, None)
        }),
        Event::Attempt(Attempt {
            protocol: Protocol::Https,
            tls_alert: Some("protocol_version".to_owned()),
            latency_ms: Some(0.0812),
            ..attempt(Verdict::TlsFail, Reply::Data, None)
        }),
        Event::Attempt(Attempt {
            protocol: Protocol::Https,
            latency_ms: Some(0.0812),
            ..attempt(Verdict::Ok, Reply::Data, None)
        }),
        Event::Attempt(Attempt {
            protocol: Protocol::Http,
            http_status: Some(200),
            ..attempt(Verdict::Asymmetric, Reply::SynAck, Some("eth0"))
        }),
        Event::Attempt(Attempt { revised: true, ..attempt(Verdict::Ok, Reply::SynAck, None) }),
        Event::Series(Change {
            time: TIME.to_owned(),
            nic: "eth1".to_owned(),
            source: "168.63.129.16".to_owned(),
            target: "10.4.3.101".to_owned(),
            port: 8008,
            from: Some(Verdict::Ok),
            to: Verdict::Asymmetric,
        }),
        lb_view(None, LbState::Up, "Up_Probe_Success"),
        lb_view(Some(LbState::Up), LbState::Down, "Down_Probe_TcpProbeTimeout"),
        lb_view(Some(LbState::Down), LbState::Held, "Down_Probe_ApproachingHealthyThreshold"),
        lb_view(Some(LbState::Held), LbState::Unknown, "NA"),
        Event::Finding {
            time: TIME.to_owned(),
            finding: Finding {
                code: "NO_REPLY".to_owned(),
                cause: "unknown".to_owned(),
                severity: Severity::Error,
                nic: Some("eth1".to_owned()),
                out_nic: None,
                target: Some("10.4.3.101".to_owned()),
                port: Some(8008),
                intermittent: true,
                summary: "3 of 9 probes of 10.4.3.101:8008 on eth1 get no reply.".to_owned(),
                evidence: Vec::new(),
                fixes: Vec::new(),
            },
        },
        Event::Loss { time: TIME.to_owned(), count: 1 },
        Event::Observer { time: TIME.to_owned(), text: "eth2 went away".to_owned() },
    ]
}

fn human(style: Style) -> String {
    events().iter().map(|event| event.human(style) + "\n").collect()
}

#[test]
fn lines_for_people_look_as_designed() {
    insta::assert_snapshot!("event_lines_80", human(Style::PLAIN));
    insta::assert_snapshot!("event_lines_120", human(Style { width: 120, ..Style::PLAIN }));
    let coloured = human(Style { colour: true, ..Style::PLAIN });
    insta::assert_snapshot!("event_lines_colour", coloured.replace('\x1b', "ESC"));
}

#[test]
fn usual_events_fit_80_columns() {
    let text = human(Style::PLAIN);
    assert!(text.lines().all(|line| width(line) <= 80), "{text}");
}

/// Names and tags are a contract; one line an event, whatever is in it.
#[test]
fn json_lines_look_as_published() {
    let lines: Vec<String> =
        events().iter().map(|event| serde_json::to_string(event).expect("serialises")).collect();
    for (line, event) in lines.iter().zip(events()) {
        assert_eq!(serde_json::from_str::<Event>(line).expect("reads back"), event);
    }
    insta::assert_snapshot!("event_json", lines.join("\n"));
}

proptest! {
    #[test]
    fn any_event_is_one_harmless_line(
        name in "(?s).{0,20}",
        time in "(?s).{0,30}",
        columns in 0u16..200,
        retransmits in any::<u32>(),
        status in proptest::option::of(any::<u16>()),
        latency in proptest::option::of(any::<f64>()),
    ) {
        let odd = Attempt {
            time: time.clone(),
            nic: name.clone(),
            address: name.clone(),
            target: name.clone(),
            out_nic: Some(name.clone()),
            latency_ms: latency,
            retransmits,
            http_status: status,
            tls_alert: status.is_none().then(|| name.clone()),
            ..attempt(Verdict::Asymmetric, Reply::Rst, None)
        };
        let view = Event::LbView {
            time: time.clone(),
            nic: name.clone(),
            source: name.clone(),
            target: name.clone(),
            port: 1,
            from: Some(LbState::Held),
            to: LbState::Up,
            code: name.clone(),
        };
        for event in [Event::Attempt(odd), view, Event::Observer { time, text: name }] {
            let line = event.human(Style { width: columns, colour: false });
            prop_assert!(line.chars().all(|c| !c.is_control()), "{line:?}");
            let json = serde_json::to_string(&event).expect("serialises");
            prop_assert!(!json.contains('\n'), "{json}");
        }
    }
}
