//! Attempts to the end: what an answer says, when it came, and what must not change a verdict.

use std::time::Duration;

use super::{
    Config, Event, Rules,
    request::Proxy,
    rules::{Expected, Limit, Role, Statuses},
    testing::{Flow, MS, SECOND, World},
};
use crate::report::document::{LbState, Protocol, Reply, Verdict};

/// Handshake and request, at once.
fn asked(world: &mut World, flow: Flow, at: u64) {
    world.see([flow.syn(at), flow.syn_ack(at + MS, 2), flow.ack(at + 2 * MS), flow.request(at + 3 * MS)]);
}

/// `n` probes five seconds apart, each answered with `text` after `delay`.
fn answered(n: u16, text: &[u8], delay: u64) -> World {
    let mut world = World::default();
    for n in 0..n {
        let (flow, at) = (Flow::new(2, 50000 + n), u64::from(n) * 5 * SECOND);
        asked(&mut world, flow, at);
        world.see([flow.say(at + 3 * MS + delay, 2, 0, text)]);
        world.tick(at + 4 * SECOND);
    }
    world
}

fn verdict(world: &World) -> (Verdict, Option<u16>) {
    let judged = world.only().judgement().expect("judged");
    (judged.verdict, judged.http_status)
}

#[test]
fn only_an_accepted_status_is_ok() {
    for status in [200u16, 204, 299, 301, 302, 307, 401, 403, 404, 500, 503] {
        let world = answered(1, format!("HTTP/1.1 {status} X\r\n\r\n").as_bytes(), MS);
        let expected = if status == 200 { Verdict::Ok } else { Verdict::HttpStatus };
        assert_eq!(verdict(&world), (expected, Some(status)));
        assert_eq!(world.only().judgement().map(|j| j.reply), Some(Reply::Data));
    }
    let rules = Rules { statuses: "200-399".parse::<Statuses>().expect("valid"), ..Rules::default() };
    let mut world = World::with(Config { rules, ..Config::default() });
    let flow = Flow::new(2, 50000);
    asked(&mut world, flow, 0);
    world.see([flow.say(4 * MS, 2, 0, b"HTTP/1.0 302 Found\r\n")]);
    assert_eq!(verdict(&world), (Verdict::Ok, Some(302)));
}

#[test]
fn an_answer_that_is_not_http_has_no_status() {
    assert_eq!(verdict(&answered(1, b"SSH-2.0-OpenSSH_9.2\r\n", MS)), (Verdict::HttpStatus, None));
    // A banner may come before the request.
    let mut world = World::default();
    let flow = Flow::new(2, 50000);
    world.see([flow.syn(0), flow.syn_ack(MS, 2), flow.ack(2 * MS)]);
    world.see([flow.say(2 * MS, 2, 0, b"220 smtp ready\r\n"), flow.request(3 * MS)]);
    assert_eq!(verdict(&world), (Verdict::HttpStatus, None));
}

#[test]
fn an_answer_in_pieces_is_put_together_in_any_order() {
    let text = b"HTTP/1.1 404 Not Found\r\n\r\n";
    let mut world = World::default();
    let flow = Flow::new(2, 50000);
    asked(&mut world, flow, 0);
    world.see((0..text.len()).map(|n| flow.say((4 + n as u64) * MS, 2, n as u32, &text[n..=n])));
    assert_eq!(verdict(&world), (Verdict::HttpStatus, Some(404)));
    let mut world = World::default();
    asked(&mut world, flow, 0);
    let late = [flow.say(4 * MS, 2, 9, &text[9..]), flow.say(5 * MS, 2, 0, &text[..9])];
    world.see([late[0]]);
    assert_eq!(world.said(), []);
    world.see([late[1]]);
    assert_eq!(verdict(&world), (Verdict::HttpStatus, Some(404)));
}

#[test]
fn half_a_status_line_is_no_answer() {
    let mut world = World::default();
    let flow = Flow::new(2, 50000);
    asked(&mut world, flow, 0);
    world.see([flow.say(4 * MS, 2, 0, b"HTTP/1.1 20")]);
    world.tick(5 * SECOND);
    let judged = world.only().judgement().expect("judged");
    assert_eq!((judged.verdict, judged.timed_out, judged.reply), (Verdict::NoReply, true, Reply::Data));
    let mut world = World::default();
    asked(&mut world, flow, 0);
    world.see([flow.say(4 * MS, 2, 0, b"HTTP/1.1 20"), flow.host_fin(5 * MS, 2)]);
    let judged = world.only().judgement().expect("judged");
    assert_eq!((judged.verdict, judged.closed_by_application), (Verdict::Refused, true));
}

#[test]
fn what_was_not_captured_is_not_judged() {
    let mut world = World::default();
    let flow = Flow::new(2, 50000);
    asked(&mut world, flow, 0);
    let mut cut = flow.answer(4 * MS, 2);
    cut.captured = 4;
    world.see([cut]);
    world.tick(6 * SECOND);
    assert_eq!(world.said(), []);
    assert_eq!((world.only().voided, world.only().unreadable), (1, 1));
    assert!(world.only().counts().is_empty());
}

#[test]
fn a_proxy_header_is_no_garbage() {
    let v2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xa8\x3f\x81\x10\x0a\x04\x02\x65\xc3\x50\x1f\x48";
    let mut world = World::default();
    let flow = Flow::new(2, 50000);
    world.see([flow.syn(0), flow.syn_ack(MS, 2), flow.ask(2 * MS, 0, v2)]);
    world.see([flow.ask(3 * MS, v2.len() as u32, b"GET / HTTP/1.1\r\n\r\n")]);
    world.see([flow.say(4 * MS, 2, 0, b"HTTP/1.1 400 Bad Request\r\n\r\n")]);
    assert_eq!(verdict(&world), (Verdict::HttpStatus, Some(400)));
    assert_eq!((world.only().proxy, world.only().protocol), (Some(Proxy::V2), Some(Protocol::Http)));
}

#[test]
fn a_tls_handshake_is_ok_at_the_server_hello_and_fails_at_an_alert() {
    let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    let judge = |answer: &[u8], then: Option<&[u8]>| {
        let mut world = World::default();
        let flow = Flow::new(2, 50000);
        world.see([flow.syn(0), flow.syn_ack(MS, 2), flow.ask(2 * MS, 0, hello)]);
        world.see([flow.say(3 * MS, 2, 0, answer)]);
        world.see(then.map(|text| flow.ask(4 * MS, 517, text)));
        assert_eq!(world.only().protocol, Some(Protocol::Https));
        let judged = world.only().judgement().expect("judged");
        (judged.verdict, judged.tls_alert, judged.http_status)
    };
    let server_hello = b"\x16\x03\x03\x00\x5a\x02\x00\x00\x56";
    assert_eq!(judge(server_hello, None), (Verdict::Ok, None, None));
    assert_eq!(judge(b"\x15\x03\x01\x00\x02\x02\x46", None), (Verdict::TlsFail, Some((70, false)), None));
    assert_eq!(judge(b"HTTP/1.1 400 Bad Request\r\n", None), (Verdict::TlsFail, None, None));
    let unknown_ca: &[u8] = b"\x15\x03\x03\x00\x02\x02\x30";
    assert_eq!(judge(server_hello, Some(unknown_ca)), (Verdict::TlsFail, Some((48, true)), None));
    let close: &[u8] = b"\x15\x03\x03\x00\x02\x01\x00";
    assert_eq!(judge(server_hello, Some(close)), (Verdict::Ok, None, None));
}

#[test]
fn s42_an_answer_after_the_limit_is_slow() {
    let world = answered(4, b"HTTP/1.1 200 OK\r\n\r\n", 6 * SECOND);
    assert_eq!(verdict(&world), (Verdict::Slow, Some(200)));
    assert_eq!(world.only().counts().into_iter().collect::<Vec<_>>(), [(Verdict::Slow, 4)]);
    // At most 30 s, whatever the interval.
    let mut world = World::default();
    for n in 0..4u16 {
        let (flow, at) = (Flow::new(2, 50000 + n), u64::from(n) * 120 * SECOND);
        asked(&mut world, flow, at);
        world.tick(at + 30 * SECOND + 3 * MS);
        world.see([flow.answer(at + 31 * SECOND, 2)]);
    }
    assert_eq!((verdict(&world).0, world.only().limit_s()), (Verdict::Slow, Some(30.0)));
    assert_eq!(world.only().counts().into_iter().collect::<Vec<_>>(), [(Verdict::Slow, 4)]);
}

#[test]
fn silence_judged_too_early_for_want_of_an_interval_is_put_right() {
    let mut world = World::default();
    for n in 0..4u16 {
        let (flow, at) = (Flow::new(2, 50000 + n), u64::from(n) * 15 * SECOND);
        asked(&mut world, flow, at);
        world.tick(at + 7 * SECOND);
        world.see([flow.answer(at + 8 * SECOND, 2)]);
    }
    assert_eq!(world.only().counts().into_iter().collect::<Vec<_>>(), [(Verdict::Ok, 4)]);
}

#[test]
fn a_slow_syn_ack_is_slow_too() {
    let mut world = World::default();
    for n in 0..4u16 {
        let (flow, at) = (Flow::new(2, 50000 + n), u64::from(n) * SECOND);
        world.see([flow.syn(at), flow.syn_ack(at + 3 * SECOND / 2, 2), flow.ack(at + 3 * SECOND / 2)]);
    }
    world.tick(6 * SECOND);
    assert_eq!(world.only().verdict(), Verdict::Slow);
}

/// The rule was mended while the host still repeated its SYN-ACK: too late for this probe.
#[test]
fn a_right_reply_after_the_limit_does_not_excuse_a_wrong_one_in_time() {
    let mut world = World::default();
    for n in 0..4u16 {
        let (flow, at) = (Flow::new(2, 50000 + n), u64::from(n) * SECOND);
        world.see([flow.syn(at), flow.syn_ack(at + MS, 3), flow.syn_ack(at + 3 * SECOND / 2, 2)]);
    }
    world.tick(6 * SECOND);
    assert_eq!(world.only().counts().into_iter().collect::<Vec<_>>(), [(Verdict::Asymmetric, 4)]);
    let mut world = World::default();
    let flow = Flow::new(2, 50000);
    asked(&mut world, flow, 0);
    world.see([flow.answer(MS, 3), flow.answer(6 * SECOND, 2)]);
    assert_eq!(world.only().verdict(), Verdict::Asymmetric);
}

#[test]
fn a_prober_with_a_timeout_of_its_own_is_judged_by_it() {
    let rules = Rules { limit: Limit::Fixed(Duration::from_secs(2)), ..Rules::default() };
    let mut world = World::with(Config { rules, ..Config::default() });
    for n in 0..4u16 {
        let (flow, at) = (Flow::new(2, 50000 + n), u64::from(n) * 5 * SECOND);
        asked(&mut world, flow, at);
        let delay = if n % 2 == 0 { 24 * SECOND / 10 } else { SECOND };
        world.see([flow.answer(at + delay, 2)]);
    }
    assert_eq!(world.only().counts().into_iter().collect::<Vec<_>>(), [(Verdict::Ok, 2), (Verdict::Slow, 2)]);
    assert_eq!(world.only().limit_s(), Some(2.0));
}

#[test]
fn a_prober_that_resets_has_given_up() {
    let mut world = World::default();
    let flow = Flow::new(2, 50000);
    asked(&mut world, flow, 0);
    world.see([flow.prober_rst(2 * SECOND)]);
    assert_eq!(world.said(), [], "losses are looked at first");
    assert_eq!(world.tracker.next_deadline(), Some(0), "and at once");
    world.tick(2 * SECOND + 1);
    let judged = world.only().judgement().expect("judged");
    assert_eq!((judged.verdict, judged.timed_out, judged.decided_ns), (Verdict::NoReply, true, 2 * SECOND));
}

#[test]
fn each_request_on_one_connection_is_an_attempt() {
    let mut world = World::default();
    let flow = Flow::new(2, 50000);
    asked(&mut world, flow, 0);
    world.see([flow.answer(4 * MS, 2)]);
    let mut asked_so_far = 26;
    let mut said_so_far = 19;
    for n in 1..4u64 {
        let text: &[u8] = if n == 2 { b"HTTP/1.1 503 Busy\r\n\r\n" } else { b"HTTP/1.1 200 OK\r\n\r\n" };
        let at = n * 5 * SECOND;
        let mut request = flow.ask(at, asked_so_far, b"GET /health HTTP/1.1\r\n\r\n");
        request.acknowledgement = flow.say(0, 2, said_so_far, b"").sequence;
        world.see([request, request, flow.say(at + MS, 2, said_so_far, text)]);
        asked_so_far += 26;
        said_so_far += text.len() as u32;
    }
    world.finish(20 * SECOND);
    let series = world.only();
    assert_eq!(series.counts().into_iter().collect::<Vec<_>>(), [(Verdict::Ok, 3), (Verdict::HttpStatus, 1)]);
    assert_eq!((series.attempts, series.interval_s(), series.confirmed), (4, Some(5.0), true));
    assert_eq!(series.latency().map(hdrhistogram::Histogram::len), Some(1), "one handshake");
    assert_eq!(series.answers().map(hdrhistogram::Histogram::len), Some(4));
}

#[test]
fn what_belongs_to_the_previous_probe_changes_nothing() {
    let mut world = World::default();
    for n in 0..4u16 {
        let (flow, at) = (Flow::new(2, 50000 + n), u64::from(n) * 5 * SECOND);
        world.see([flow.syn(at), flow.syn_ack(at + MS, 2), flow.ack(at + 2 * MS)]);
        if n > 0 {
            let old = Flow::new(2, 50000 + n - 1);
            // The prober closes the last connection at the next probe; the host answers in kind, late and by any NIC.
            world.see([old.fin(at + 3 * MS), old.host_fin(at + 4 * MS, 3), old.rst(at + 5 * MS, 3)]);
            world.see([old.syn_ack(at + 6 * MS, 3), old.prober_rst(at + 7 * MS)]);
        }
        world.tick(at + SECOND);
    }
    assert_eq!(world.only().counts().into_iter().collect::<Vec<_>>(), [(Verdict::Ok, 4)]);
    assert_eq!(world.said().len(), 4);
}

#[test]
fn a_rst_without_acknowledgement_before_the_handshake_is_nobodys() {
    let mut world = World::default();
    let flow = Flow::new(2, 50000);
    let mut bare = flow.rst(MS, 2);
    bare.flags = probe_common::observation::flags::RST;
    world.see([flow.syn(0), bare]);
    assert_eq!(world.said(), []);
}

#[test]
fn a_syn_seen_on_a_member_and_its_master_is_one_packet() {
    let mut world = World::default();
    let flow = Flow::new(2, 50000);
    let mut on_master = flow.syn(1000);
    (on_master.nic, on_master.device) = (7, 7);
    world.see([flow.syn(0), on_master, flow.syn_ack(MS, 7), flow.ack(2 * MS)]);
    world.finish(SECOND);
    assert_eq!(world.said(), [(Verdict::Ok, false)]);
    assert_eq!(world.only().latest[&Verdict::Ok].retransmits, 0);
}

#[test]
fn where_the_nic_is_not_known_only_the_prober_tells() {
    let mut world = World::default();
    world.tracker.merge(2);
    let (good, lost, refused) = (Flow::new(2, 50000), Flow::new(2, 50001), Flow::new(2, 50002));
    world.see([good.syn(0), good.syn_ack(MS, 2), good.ack(2 * MS)]);
    world.see([lost.syn(5 * SECOND), lost.syn_ack(5 * SECOND + MS, 2), lost.syn_ack(6 * SECOND, 2)]);
    world.see([refused.syn(10 * SECOND), refused.rst(10 * SECOND + MS, 2)]);
    world.tick(20 * SECOND);
    let counts: Vec<_> = world.only().counts().into_iter().collect();
    assert_eq!(counts, [(Verdict::Ok, 1), (Verdict::Refused, 1), (Verdict::Pending, 1)]);
}

fn view(world: &World) -> (LbState, &'static str) {
    (world.only().view().state(), world.only().view().code(world.only().protocol))
}

#[test]
fn the_load_balancers_view_follows_the_verdicts() {
    let mut world = answered(3, b"HTTP/1.1 200 OK\r\n\r\n", MS);
    assert_eq!(view(&world), (LbState::Up, "Up_Probe_Success"));
    let flow = Flow::new(2, 51000);
    asked(&mut world, flow, 15 * SECOND);
    world.see([flow.say(15 * SECOND + 9 * MS, 2, 0, b"HTTP/1.1 500 X\r\n\r\n")]);
    assert_eq!(view(&world), (LbState::Down, "Down_Probe_HttpStatusCodeError"));
    assert_eq!(world.only().view().since_ns(), Some(15 * SECOND + 9 * MS));
    let changes: Vec<_> = world
        .events
        .iter()
        .filter_map(|event| match event {
            Event::View { from, to, at_ns, .. } => Some((*from, *to, at_ns / SECOND)),
            _ => None,
        })
        .collect();
    // The first attempt alone is no probe yet.
    let expected = [(LbState::Unknown, LbState::Up, 5), (LbState::Up, LbState::Down, 15)];
    assert_eq!(changes, expected);
}

#[test]
fn what_is_old_is_stale() {
    let mut world = World::default();
    for n in 0..4u16 {
        let (flow, at) = (Flow::new(2, 50000 + n), u64::from(n) * 15 * SECOND);
        world.see([flow.syn(at), flow.syn_ack(at + MS, 2), flow.ack(at + 2 * MS)]);
    }
    assert!(!world.only().is_stale(90 * SECOND) && world.only().is_stale(91 * SECOND));
}

#[test]
fn a_revised_verdict_revises_the_view() {
    let mut world = World::default();
    for n in 0..3u16 {
        let (flow, at) = (Flow::new(2, 50000 + n), u64::from(n) * 5 * SECOND);
        world.see([flow.syn(at), flow.syn_ack(at + MS, if n == 2 { 3 } else { 2 })]);
        world.tick(at + SECOND);
    }
    assert_eq!(view(&world), (LbState::Down, "Down_Probe_TcpProbeTimeout"));
    let flow = Flow::new(2, 50002);
    world.see([flow.syn_ack(11 * SECOND, 2), flow.ack(11 * SECOND + MS)]);
    world.tick(12 * SECOND);
    assert_eq!(view(&world).0, LbState::Up);
    assert!(world.only().out_nics.is_empty());
}

#[test]
fn expectations_confirm_at_once_and_bring_their_own_rules() {
    let rules = Rules { fall: 3, interval: Some(Duration::from_secs(15)), ..Rules::default() };
    let expected =
        Expected { nic: "eth1".to_owned(), port: 8008, protocol: None, role: Role::Standby, rules };
    let mut world = World::default();
    world.tracker.expect(vec![(2, expected)]);
    let flow = Flow::new(2, 50000);
    world.see([flow.syn(0), flow.rst(MS, 2)]);
    assert!(world.only().confirmed);
    assert_eq!((world.only().limit_s(), world.only().plan.role), (Some(15.0), Some(Role::Standby)));
    assert_eq!(view(&world).0, LbState::Unknown, "one of three");
    let other = Flow { port: 9000, ..Flow::new(2, 50001) };
    world.see([other.syn(SECOND), other.rst(SECOND + MS, 2)]);
    let plain = world.tracker.series().find(|s| s.key.local_port == 9000).expect("seen");
    assert_eq!((plain.confirmed, plain.view().state()), (false, LbState::Down));
}
