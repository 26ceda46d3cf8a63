//! The rules of the models, one test each; and what must hold for any packets.

use probe_common::observation::{Observation, flags};
use proptest::prelude::*;

use super::{
    Event,
    testing::{Flow, MS, SECOND, World},
};
use crate::report::document::{Protocol, Reply, Verdict};

/// A healthy TCP probe on `nic` whose reply leaves by `out`.
fn probe(flow: Flow, at: u64, out: u32) -> Vec<Observation> {
    vec![flow.syn(at), flow.syn_ack(at + MS, out), flow.ack(at + 2 * MS)]
}

#[test]
fn a_reply_by_the_same_nic_is_ok_and_by_another_asymmetric() {
    for (out, verdict, out_nic) in [(2, Verdict::Ok, None), (3, Verdict::Asymmetric, Some(3))] {
        let mut world = World::default();
        for n in 0..3 {
            world.see(probe(Flow::new(2, 50000 + n), u64::from(n) * 5 * SECOND, out));
        }
        world.finish(11 * SECOND);
        let series = world.only();
        assert_eq!(series.verdict(), verdict);
        assert_eq!(series.judgement().and_then(|j| j.out_nic), out_nic);
        assert_eq!(series.counts()[&verdict], 3);
        assert_eq!((series.interval_s(), series.confirmed), (Some(5.0), true));
    }
}

#[test]
fn a_misrouted_syn_ack_is_judged_at_once() {
    let mut world = World::default();
    let flow = Flow::new(2, 50000);
    world.see([flow.syn(0), flow.syn_ack(MS, 3)]);
    assert_eq!(world.said(), [(Verdict::Asymmetric, false)]);
}

/// S54: same port and sequence at t, +3 s and +9 s are one probe.
#[test]
fn retransmissions_belong_to_one_attempt() {
    let mut world = World::default();
    let flow = Flow::new(2, 50000);
    world.see([flow.syn(0), flow.syn(3 * SECOND), flow.syn(9 * SECOND)]);
    world.see([Flow::new(2, 50001).syn(15 * SECOND)]);
    world.tick(15 * SECOND);
    assert_eq!(world.said(), [(Verdict::NoReply, false)]);
    let series = world.only();
    assert_eq!(series.attempts, 2);
    assert_eq!(series.latest[&Verdict::NoReply].retransmits, 2);
}

#[test]
fn a_rst_is_refused_an_icmp_error_rejected_and_both_by_another_nic_asymmetric() {
    let flow = Flow::new(2, 50000);
    for (packet, verdict, reply) in [
        (flow.rst(MS, 2), Verdict::Refused, Reply::Rst),
        (flow.icmp(MS, 2), Verdict::IcmpReject, Reply::Icmp),
        (flow.rst(MS, 3), Verdict::Asymmetric, Reply::Rst),
        (flow.icmp(MS, 3), Verdict::Asymmetric, Reply::Icmp),
    ] {
        let mut world = World::default();
        world.see([flow.syn(0), packet]);
        let judged = world.only().judgement().expect("judged");
        assert_eq!((judged.verdict, judged.reply), (verdict, reply));
    }
}

#[test]
fn replies_that_acknowledge_another_syn_are_not_replies() {
    let mut world = World::default();
    let flow = Flow::new(2, 50000);
    let stale = Flow { sequence: flow.sequence - 77, ..flow };
    world.see([flow.syn(0), stale.syn_ack(MS, 2), stale.rst(MS, 2), stale.syn_ack(MS, 3)]);
    assert_eq!(world.said(), []);
}

#[test]
fn late_replies_of_an_old_probe_do_not_touch_a_new_one() {
    let mut world = World::default();
    let (old, new) = (Flow::new(2, 50000), Flow::new(2, 50001));
    world.see([old.syn(0), old.syn_ack(MS, 3)]);
    world.see([new.syn(5 * SECOND), old.syn_ack(5 * SECOND + 1, 3), new.syn_ack(5 * SECOND + MS, 2)]);
    world.tick(6 * SECOND);
    assert_eq!(world.only().verdict(), Verdict::Ok);
    assert_eq!(world.only().counts()[&Verdict::Asymmetric], 1);
}

#[test]
fn a_later_syn_ack_by_the_right_nic_revises() {
    let mut world = World::default();
    let flow = Flow::new(2, 50000);
    world.see([flow.syn(0), flow.syn_ack(MS, 3), flow.syn_ack(SECOND, 2), flow.ack(SECOND + MS)]);
    world.tick(2 * SECOND);
    assert_eq!(world.said(), [(Verdict::Asymmetric, false), (Verdict::Ok, true)]);
    assert_eq!(world.only().counts().into_iter().collect::<Vec<_>>(), [(Verdict::Ok, 1)]);
}

#[test]
fn silence_is_judged_at_the_limit_and_at_the_end_of_a_window() {
    let mut world = World::default();
    world.see([Flow::new(2, 50000).syn(0)]);
    world.tick(5 * SECOND - 1);
    assert_eq!(world.said(), []);
    world.tick(5 * SECOND);
    assert_eq!(world.said(), [(Verdict::NoReply, false)]);

    let mut world = World::default();
    world.see([Flow::new(2, 50000).syn(0)]);
    world.finish(2 * SECOND);
    assert_eq!(world.only().verdict(), Verdict::Pending);
    assert_eq!(world.only().counts()[&Verdict::Pending], 1);
    world.finish(3 * SECOND);
    assert_eq!(world.only().verdict(), Verdict::NoReply);
}

#[test]
fn two_probers_do_not_cut_each_other_short() {
    let mut world = World::default();
    let (a, b) = (Flow::new(2, 50000), Flow::new(2, 60000));
    world.see([a.syn(0), b.syn(MS), a.syn_ack(2 * MS, 2), b.syn_ack(3 * MS, 2)]);
    world.finish(SECOND);
    assert_eq!(world.said(), [(Verdict::Ok, false), (Verdict::Ok, false)]);
}

#[test]
fn an_http_probe_is_judged_at_its_answer() {
    let flow = Flow::new(2, 50000);
    let open = [flow.syn(0), flow.syn_ack(MS, 2), flow.ack(2 * MS), flow.request(3 * MS)];
    for (then, verdict, reply) in [
        (Some(flow.answer(4 * MS, 2)), Verdict::Ok, Reply::Data),
        (Some(flow.answer(4 * MS, 3)), Verdict::Asymmetric, Reply::Data),
        (Some(flow.rst(4 * MS, 2)), Verdict::Refused, Reply::Rst),
        (Some(flow.host_fin(4 * MS, 2)), Verdict::Refused, Reply::None),
        (None, Verdict::NoReply, Reply::None),
    ] {
        let mut world = World::default();
        world.see(open);
        world.see(then);
        world.tick(5 * SECOND);
        let judged = world.only().judgement().expect("judged");
        assert_eq!((judged.verdict, judged.reply), (verdict, reply));
        assert_eq!(world.only().protocol, Some(Protocol::Http));
        assert_eq!(judged.timed_out, verdict == Verdict::NoReply);
        assert_eq!(judged.closed_by_application, verdict == Verdict::Refused);
        assert_eq!(world.said().len(), 1, "said once");
    }
}

#[test]
fn who_closes_a_tcp_probe_changes_nothing() {
    let mut world = World::default();
    let flow = Flow::new(2, 50000);
    world.see(probe(flow, 0, 2));
    world.see([flow.host_fin(10 * MS, 2), flow.rst(20 * MS, 3), flow.fin(5 * SECOND)]);
    world.finish(6 * SECOND);
    assert_eq!(world.said(), [(Verdict::Ok, false)]);
}

#[test]
fn what_the_observer_missed_the_beginning_of_is_nobodys() {
    let mut world = World::default();
    let flow = Flow::new(2, 50000);
    world.see([flow.ack(0), flow.syn_ack(1, 3), flow.answer(2, 3), flow.rst(3, 3), flow.icmp(4, 3)]);
    assert_eq!(world.tracker.series().count(), 0);
}

#[test]
fn only_judged_nics_have_attempts() {
    let mut world = World::judging(&[2]);
    world.see(probe(Flow::new(3, 50000), 0, 3));
    assert_eq!(world.tracker.series().count(), 0);
}

#[test]
fn losses_void_what_was_open_and_nothing_else() {
    let mut world = World::default();
    let (lost, next) = (Flow::new(2, 50000), Flow::new(2, 50001));
    world.see([lost.syn(0)]);
    world.tracker.lost(7, MS, &mut world.events);
    world.tick(6 * SECOND);
    assert_eq!(world.said(), [], "its silence proves nothing");
    assert!(world.events.contains(&Event::Lost { count: 7, at_ns: MS }));
    world.see(probe(next, 7 * SECOND, 2));
    world.finish(8 * SECOND);
    assert_eq!(world.said(), [(Verdict::Ok, false)]);
    assert_eq!((world.only().attempts, world.only().voided), (2, 1));
}

/// A stalled reader finds the next probe's SYN behind the loss of the last one's reply, in one batch: only the loss counter,
/// read after the batch, tells. Until then silence must not be judged.
#[test]
fn silence_is_not_judged_before_losses_were_looked_at() {
    let mut world = World::default();
    let (answered_unseen, next) = (Flow::new(2, 50000), Flow::new(2, 50001));
    world.see([answered_unseen.syn(0), next.syn(5 * SECOND), next.syn_ack(5 * SECOND + MS, 2)]);
    assert_eq!(world.said(), []);
    world.tracker.lost(3, 5 * SECOND + 2 * MS, &mut world.events);
    world.tick(6 * SECOND);
    assert_eq!(world.said(), [(Verdict::Ok, false)]);
    assert_eq!(world.only().counts().into_iter().collect::<Vec<_>>(), [(Verdict::Ok, 1)]);
}

#[test]
fn failures_are_told_apart_by_how_they_lie() {
    let run = |outs: &[u32]| {
        let mut world = World::default();
        for (n, out) in outs.iter().enumerate() {
            world.see(probe(Flow::new(2, 50000 + n as u16), n as u64 * SECOND, *out));
        }
        world.finish(outs.len() as u64 * SECOND);
        world.only().failures()
    };
    let all = run(&[3, 3, 3]);
    assert!(all.failing() && !all.intermittent() && !all.recovered());
    let recovered = run(&[2, 3, 3, 2, 2]);
    assert!(recovered.recovered() && !recovered.failing());
    let intermittent = run(&[3, 2, 2, 3, 2, 2, 3, 2, 2]);
    assert!(intermittent.intermittent() && intermittent.failing());
    assert_eq!((intermittent.failed, intermittent.judged), (3, 9));
    let turned_bad = run(&[2, 2, 3, 3]);
    assert!(turned_bad.failing() && !turned_bad.intermittent());
}

#[test]
fn tables_stay_bounded() {
    let mut world = World::default();
    for n in 0..5000u16 {
        let flow = Flow { port: n, ..Flow::new(2, 50000) };
        world.see([flow.syn(u64::from(n))]);
    }
    assert_eq!(world.tracker.series().count(), 4096);
    assert_eq!(world.tracker.dropped(), 5000 - 4096);
    let mut world = World::default();
    for n in 0..1000u16 {
        world.see([Flow::new(2, n).syn(u64::from(n) * SECOND)]);
    }
    world.tick(2000 * SECOND);
    assert_eq!(world.only().counts()[&Verdict::NoReply], 1000, "dropped attempts were judged first");
}

/// Any packet of a few tuples on a few NICs.
fn any_packet() -> impl Strategy<Value = Observation> {
    (
        (0u64..20 * SECOND, 2u32..5, 0u8..6, any::<u8>(), 8000u16..8003),
        (50000u16..50004, prop_oneof![Just(0u32), Just(1), any::<u32>()], 0u32..3),
        (0u32..3, prop::collection::vec(any::<u8>(), 0..16)),
    )
        .prop_map(|((at, nic, role, flags, port), (peer_port, sequence, offset), (length, payload))| {
            let mut packet = Flow { nic: 2, port, peer_port, sequence }.syn(at);
            (packet.nic, packet.role, packet.flags) = (nic, role, flags);
            packet.acknowledgement = sequence.wrapping_add(offset);
            packet.payload_length = length;
            packet.captured = payload.len() as u16;
            packet.payload[..payload.len()].copy_from_slice(&payload);
            packet
        })
}

proptest! {
    #[test]
    fn every_attempt_is_counted_exactly_once(
        mut packets in prop::collection::vec(any_packet(), 0..200),
        losses in prop::collection::vec(0usize..200, 0..3),
    ) {
        packets.sort_by_key(|packet| packet.time_ns);
        let mut world = World::default();
        for (n, packet) in packets.iter().enumerate() {
            world.see([*packet]);
            if losses.contains(&n) {
                world.tracker.lost(1, packet.time_ns, &mut world.events);
            }
            world.tick(packet.time_ns);
        }
        world.finish(60 * SECOND);
        for series in world.tracker.series() {
            let counted: u64 = series.counts().values().sum();
            prop_assert_eq!(counted, series.attempts - series.voided);
            prop_assert_eq!(series.failures().judged + series.counts().get(&Verdict::Pending).copied().unwrap_or(0), counted);
        }
    }

    #[test]
    fn any_interleaving_gives_each_tuple_its_own_verdict(
        outs in prop::collection::vec(2u32..5, 1..8),
        order in prop::collection::vec(0usize..8, 0..40),
    ) {
        // Three packets a tuple, dealt out in any order between the tuples.
        let flows: Vec<Flow> =
            (0..outs.len()).map(|n| Flow { port: 8000 + n as u16, ..Flow::new(2, 50000) }).collect();
        let mut queues: Vec<_> =
            flows.iter().zip(&outs).map(|(flow, out)| probe(*flow, 0, *out).into_iter()).collect();
        let mut world = World::default();
        for which in order {
            if let Some(packet) = queues.get_mut(which).and_then(Iterator::next) {
                world.see([packet]);
            }
        }
        for queue in queues {
            world.see(queue);
        }
        world.finish(SECOND);
        for (flow, out) in flows.iter().zip(&outs) {
            let series = world.tracker.series().find(|s| s.key.local_port == flow.port).expect("seen");
            let expected = if *out == 2 { Verdict::Ok } else { Verdict::Asymmetric };
            prop_assert_eq!(series.verdict(), expected);
        }
    }

    #[test]
    fn retransmissions_change_no_verdict(extra in prop::collection::vec(0u64..5000, 0..10), out in 2u32..4) {
        let flow = Flow::new(2, 50000);
        let mut packets = probe(flow, 0, out);
        packets.extend(extra.iter().map(|ms| flow.syn(ms * MS + 3 * MS)));
        packets.sort_by_key(|packet| packet.time_ns);
        let mut world = World::default();
        world.see(packets);
        world.finish(10 * SECOND);
        prop_assert_eq!(world.only().attempts, 1);
        prop_assert_eq!(world.only().verdict(), if out == 2 { Verdict::Ok } else { Verdict::Asymmetric });
        prop_assert_eq!(world.said().len(), 1);
    }

    #[test]
    fn mirrored_nics_give_mirrored_verdicts(packets in prop::collection::vec(any_packet(), 0..100)) {
        let mirror = |nic: u32| if nic == 2 { 3 } else if nic == 3 { 2 } else { nic };
        let run = |packets: Vec<Observation>| {
            let mut world = World::default();
            world.see(packets);
            world.finish(60 * SECOND);
            let mut rows: Vec<_> = world
                .tracker
                .series()
                .map(|s| (s.key.nic, s.key.local_port, s.verdict(), s.counts(), s.judgement().and_then(|j| j.out_nic)))
                .collect();
            rows.sort_by_key(|row| (row.0, row.1));
            rows
        };
        let plain = run(packets.clone());
        let mut mirrored = run(packets
            .into_iter()
            .map(|packet| Observation { nic: mirror(packet.nic), ..packet })
            .collect());
        for row in &mut mirrored {
            row.0 = mirror(row.0);
            row.4 = row.4.map(mirror);
        }
        mirrored.sort_by_key(|row| (row.0, row.1));
        prop_assert_eq!(plain, mirrored);
    }
}

#[test]
fn flags_of_a_vm_initiated_syn_never_begin_an_attempt() {
    let mut world = World::default();
    let mut own = Flow::new(2, 80).syn_ack(0, 2);
    own.flags = flags::SYN;
    world.see([own]);
    assert_eq!(world.tracker.series().count(), 0);
}
