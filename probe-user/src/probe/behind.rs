//! Probes that are passed on: which attempt a packet on the far side belongs to, and what it says.

use probe_common::{
    maps::map_v4,
    observation::{Observation, Role, flags},
};

use super::testing::{Flow, MS, SECOND, World};
use crate::report::document::Verdict;

const BEHIND: u32 = 4;

/// The SYN on its way to 10.9.0.10:80.
fn onward(flow: Flow, at: u64) -> Observation {
    let syn = flow.syn(at);
    Observation {
        role: Role::Forwarded as u8,
        device: BEHIND,
        nic: BEHIND,
        local: map_v4([10, 9, 0, 10]),
        local_port: 80,
        ..syn
    }
}

fn back(flow: Flow, at: u64, flags: u8) -> Observation {
    let (sequence, acknowledgement) = (7, flow.sequence.wrapping_add(1));
    Observation { role: Role::Returned as u8, flags, sequence, acknowledgement, ..onward(flow, at) }
}

fn through(flow: Flow, at: u64) -> [Observation; 4] {
    let answer = back(flow, at + 2 * MS, flags::SYN | flags::ACK);
    [flow.syn(at), onward(flow, at + MS), answer, flow.syn_ack(at + 3 * MS, flow.nic)]
}

#[test]
fn a_probe_that_goes_through_and_comes_back_is_ok_and_known_to_be_passed_on() {
    let mut world = World::judging(&[2]);
    for n in 0..3 {
        let flow = Flow::new(2, 50000 + n);
        world.see(through(flow, u64::from(n) * SECOND));
    }
    world.tick(10 * SECOND);
    let series = world.only();
    assert_eq!(series.verdict(), Verdict::Ok);
    assert_eq!((series.passed_on.probes, series.passed_on.returned), (3, 3));
    let forwarded = series.forwarded.expect("passed on");
    assert_eq!((forwarded.device, forwarded.to), (BEHIND, (map_v4([10, 9, 0, 10]), 80)));
    assert_eq!(forwarded.returned.map(|left| left.nic), Some(BEHIND));
}

#[test]
fn an_answer_that_never_leaves_is_withheld() {
    let mut world = World::judging(&[2]);
    for n in 0..2 {
        let flow = Flow::new(2, 50000 + n);
        world.see(through(flow, u64::from(n) * SECOND).into_iter().take(3));
        // A repeated SYN is passed on again, and is still one probe.
        world.see([flow.syn(u64::from(n) * SECOND + 10 * MS), onward(flow, u64::from(n) * SECOND + 11 * MS)]);
    }
    world.tick(20 * SECOND);
    let series = world.only();
    assert_eq!((series.passed_on.probes, series.passed_on.returned), (2, 2));
    let failed = series.latest.get(&Verdict::NoReply).expect("silence");
    assert!(failed.is_withheld(), "{failed:#?}");
}

#[test]
fn nothing_comes_back() {
    let mut world = World::judging(&[2]);
    let flow = Flow::new(2, 50000);
    world.see([flow.syn(0), onward(flow, MS)]);
    // The answer of another machine, or of none of our probes, is nobody's.
    let stranger =
        Observation { local: map_v4([10, 9, 0, 11]), ..back(flow, 2 * MS, flags::SYN | flags::ACK) };
    let other = back(Flow::new(2, 50009), 2 * MS, flags::SYN | flags::ACK);
    world.see([stranger, other]);
    world.tick(20 * SECOND);
    let series = world.only();
    assert_eq!((series.passed_on.probes, series.passed_on.returned), (1, 0));
    assert!(!series.latest[&Verdict::NoReply].is_withheld());
}

#[test]
fn two_nics_probed_from_one_port_are_told_apart_by_sequence() {
    let mut world = World::judging(&[2, 3]);
    let here = Flow::new(2, 50000);
    let there = Flow { sequence: 77, ..Flow::new(3, 50000) };
    world.see([here.syn(0), there.syn(0), onward(there, MS), back(there, 2 * MS, flags::RST | flags::ACK)]);
    // Renumbered on the way: it may be either's.
    world.see([Observation { sequence: 5, ..onward(here, 3 * MS) }]);
    let passed: Vec<_> =
        world.tracker.series().map(|s| (s.key.nic, s.passed_on.probes, s.passed_on.returned)).collect();
    assert_eq!(passed, [(2, 0, 0), (3, 1, 1)]);
    // With nobody else on that port it is clear.
    let mut world = World::judging(&[2]);
    world.see([here.syn(0), Observation { sequence: 5, ..onward(here, MS) }]);
    assert_eq!(world.only().passed_on.probes, 1);
}

#[test]
fn a_fall_is_remembered_from_the_last_success_to_the_first_failure() {
    let mut world = World::judging(&[2]);
    for n in 0..3 {
        let flow = Flow::new(2, 50000 + n);
        let at = u64::from(n) * SECOND;
        world.see([flow.syn(at), flow.syn_ack(at + MS, 2)]);
    }
    world.tick(2 * SECOND + 400 * MS);
    assert_eq!(world.only().fell(), None);
    for n in 3..6 {
        let flow = Flow::new(2, 50000 + n);
        let at = u64::from(n) * SECOND;
        world.see([flow.syn(at), flow.syn_ack(at + MS, 3)]);
    }
    assert_eq!(world.only().fell(), Some((2 * SECOND, 3 * SECOND + MS)));
}
