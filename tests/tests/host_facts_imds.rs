//! The metadata service as it may behave, played in a network namespace.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
    time::{Duration, Instant},
};

use nvaprobe_tests::namespace::{in_namespace, run, sh};
use probe_user::host::{
    Facts,
    imds::{Imds, Service, Unavailable},
};

const METADATA: &str = "169.254.169.254:80";

/// Answers every request by its path; `None` says nothing.
fn serve(answer: impl Fn(&str) -> Option<String> + Sync) -> (Imds, Duration) {
    let listener = TcpListener::bind(METADATA).expect("the address is ours");
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut silent = Vec::new();
            for _ in 0..2 {
                let (mut connection, _) = listener.accept().expect("a request");
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    assert_eq!(connection.read(&mut byte).expect("a whole request"), 1);
                    request.push(byte[0]);
                }
                let request = String::from_utf8(request).expect("text");
                assert!(request.contains("\r\nMetadata: true\r\n"), "{request}");
                let path = request.split(' ').nth(1).expect("a path").to_owned();
                match answer(&path) {
                    Some(text) => connection.write_all(text.as_bytes()).expect("written"),
                    None => silent.push(connection),
                }
            }
            if !silent.is_empty() {
                thread::sleep(Duration::from_millis(1500));
            }
        });
        let start = Instant::now();
        (run(Service::default().ask()), start.elapsed())
    })
}

fn with(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

const NICS: &str = "ip link set lo up && ip addr add 169.254.169.254/32 dev lo
ip link add eth0 type veth peer name p0 && ip link add eth1 type veth peer name p1
ip addr add 10.4.2.101/24 dev eth0 && ip addr add 10.4.3.101/24 dev eth1";

#[test]
fn an_answer_maps_rules_to_nics() {
    in_namespace(&[NICS], || {
        let (imds, _) = serve(|path| {
            Some(if path.starts_with("/metadata/loadbalancer?api-version=") {
                with(
                    "200 OK",
                    r#"{"loadbalancer":{"inboundRules":[{"frontendIpAddress":"50.0.0.1","protocol":"tcp","frontendPort":80,"backendPort":8008,"privateIpAddress":"10.4.3.101"}]}}"#,
                )
            } else {
                // As chunks, and without closing the connection at the end.
                let body = r#"{"interface":[{"macAddress":"020000000003","ipv4":{"ipAddress":[{"privateIpAddress":"10.4.3.101"}]}}]}"#;
                format!(
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
                    body.len()
                )
            })
        });
        let facts = run(Facts::read()).unwrap();
        let index = |name: &str| facts.links.by_name(name).unwrap().index;
        let rules = imds.inbound(&facts, index("eth1")).expect("known");
        assert_eq!((rules.len(), rules[0].backend_port), (1, Some(8008)));
        assert_eq!(imds.inbound(&facts, index("eth0")), Some(Vec::new()));
        assert_eq!(imds.network.unwrap()[0].mac, Some([2, 0, 0, 0, 0, 3]));
    });
}

#[test]
fn refusals_and_rubbish_are_unknown_with_their_reason() {
    in_namespace(&[NICS], || {
        let both = |status: &'static str, body: &'static str| {
            let (imds, _) = serve(move |_| Some(with(status, body)));
            (imds.load_balancer.unwrap_err(), imds.network.unwrap_err())
        };
        assert_eq!(both("404 Not Found", "{}"), (Unavailable::NotFound, Unavailable::NotFound));
        assert_eq!(both("429 Too Many", ""), (Unavailable::Busy(429), Unavailable::Busy(429)));
        assert_eq!(both("503 No", "<html>"), (Unavailable::Busy(503), Unavailable::Busy(503)));
        assert!(matches!(both("200 OK", "<html>"), (Unavailable::Malformed(_), Unavailable::Malformed(_))));
        assert!(matches!(both("200 OK", "[]"), (Unavailable::Malformed(_), Unavailable::Malformed(_))));
        let (imds, _) = serve(|_| Some("\0\r\n\r\n".to_owned()));
        assert!(matches!(imds.load_balancer, Err(Unavailable::Malformed(_))));
    });
}

#[test]
fn one_document_may_fail_alone() {
    in_namespace(&[NICS], || {
        let (imds, took) =
            serve(|path| path.contains("network").then(|| with("200 OK", r#"{"interface":[]}"#)));
        assert_eq!((imds.load_balancer, imds.network), (Err(Unavailable::TimedOut), Ok(Vec::new())));
        assert!((Duration::from_millis(900)..Duration::from_millis(1400)).contains(&took), "{took:?}");
    });
}

#[test]
fn nobody_there_is_soon_found_out() {
    in_namespace(&["ip link set lo up"], || {
        let asked = || {
            let start = Instant::now();
            (run(Service::default().ask()).load_balancer.unwrap_err(), start.elapsed())
        };
        // No route, then nobody who listens, then silence.
        assert!(matches!(asked().0, Unavailable::Unreachable(_)));
        sh("ip addr add 169.254.169.254/32 dev lo");
        assert!(matches!(asked().0, Unavailable::Unreachable(_)));
        sh("nft 'table ip t { chain i { type filter hook input priority 0; tcp dport 80 drop; }; }'");
        let (why, took) = asked();
        assert!(matches!(why, Unavailable::Unreachable(_)));
        assert!((Duration::from_millis(250)..Duration::from_millis(700)).contains(&took), "{took:?}");
    });
}
