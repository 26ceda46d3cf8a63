//! Captures of every kind, made byte by byte: the verdicts, the names, and what a file could not tell.

use nvaprobe_tests::{
    captured::{
        Answer, MS, PORT, SECOND, START, Step, cut_pcap, framed, in_order, input, local, misrouted, named,
        pcap, pcapng, probes, replay, settings,
    },
    packets::{ACK, PROBER4, PROBER6, RST, SYN, Tcp, ip4, ip6, udp},
};
use probe_common::counters::Outcome;
use probe_user::{
    capture::file::{Order, write::PcapngWriter},
    config::Judging,
    probe::{Expected, Rules},
    replay::{Replayed, Settings, run},
    report::document::{ObserverState, Severity, Verdict},
};
use proptest::prelude::*;

/// NIC, verdict, the other NIC and the attempts of every series.
fn verdicts(replayed: &Replayed) -> Vec<(&str, Verdict, Option<&str>, u64)> {
    let series = replayed.report.probes.iter();
    series.map(|s| (s.nic.as_str(), s.verdict, s.out_nic.as_deref(), s.attempts)).collect()
}

fn reasons(replayed: &Replayed) -> Vec<&str> {
    replayed.report.observer.reasons.iter().map(|reason| reason.code.as_str()).collect()
}

fn reason<'a>(replayed: &'a Replayed, code: &str) -> &'a str {
    let reasons = &replayed.report.observer.reasons;
    let found = reasons.iter().find(|reason| reason.code == code);
    &found.unwrap_or_else(|| panic!("no reason {code} in {reasons:#?}")).text
}

fn errors(replayed: &Replayed) -> Vec<(&str, &str)> {
    let errors = replayed.report.findings.iter().filter(|finding| finding.severity == Severity::Error);
    errors.map(|finding| (finding.code.as_str(), finding.nic.as_deref().unwrap_or(""))).collect()
}

fn of_nic(steps: &[Step], nic: u32) -> Vec<Step> {
    steps.iter().filter(|step| step.nic == nic).cloned().collect()
}

const S01: [(&str, Verdict, Option<&str>, u64); 2] =
    [("eth0", Verdict::Ok, None, 6), ("eth1", Verdict::Asymmetric, Some("eth0"), 6)];

#[test]
fn a_capture_of_all_devices_tells_the_nic_by_number() {
    let file = pcap(276, &misrouted(6));
    let replayed = replay(&named(), vec![("any.pcap", file.clone())]).expect("a report");
    assert_eq!(verdicts(&replayed), S01);
    assert_eq!(replayed.report.observer.state, ObserverState::Complete);
    assert_eq!(errors(&replayed), [("ASYMMETRIC", "eth1")]);
    assert_eq!(replayed.report.window.from, "2025-12-01T03:04:05.000Z");
    assert_eq!(replayed.report.window.to, "2025-12-01T03:04:34.000Z");
    let nic = &replayed.report.nics[1];
    assert_eq!((nic.name.as_str(), nic.ingress.as_deref()), ("eth1", None));
    assert_eq!(nic.note, "named by --nic; ifindex 3 of any.pcap");

    let replayed = replay(&settings(), vec![("any.pcap", file)]).expect("a report");
    assert_eq!(verdicts(&replayed)[1], ("if3", Verdict::Asymmetric, Some("if2"), 6));
    assert_eq!(replayed.report.nics[0].note, "ifindex 2 of any.pcap, which does not name it");
}

#[test]
fn captures_of_one_nic_each_are_merged_by_time() {
    let steps = misrouted(6);
    for link in [1, 101, 12, 14, 228, 0, 108] {
        let files = (0..2).map(|nic| pcap(link, &of_nic(&steps, nic))).collect::<Vec<_>>();
        // The order of the files does not matter.
        for order in [[0, 1], [1, 0]] {
            let files = order.map(|nic| (["h.eth0.pcap", "h.eth1.pcap"][nic], files[nic].clone())).to_vec();
            let replayed = replay(&settings(), files).expect("a report");
            assert_eq!(
                verdicts(&replayed),
                if order[0] == 0 { S01 } else { [S01[1], S01[0]] },
                "link type {link}"
            );
            assert_eq!(replayed.report.observer.state, ObserverState::Complete);
        }
    }
}

#[test]
fn interfaces_of_blocks_have_names_and_directions() {
    let replayed = replay(&settings(), vec![("x.pcapng", pcapng(1, &["eth0", "eth1"], &misrouted(6)))])
        .expect("a report");
    assert_eq!(verdicts(&replayed), S01);
    assert_eq!(replayed.report.nics[0].note, "named in x.pcapng");
}

#[test]
fn names_given_by_the_user_come_first() {
    let steps = misrouted(6);
    let inputs = vec![
        input("a.pcap", Some("wan"), pcap(1, &of_nic(&steps, 0))),
        input("b.pcapng", Some("lan"), pcapng(1, &["eth1"], &of_nic(&steps, 1))),
    ];
    let replayed = run(&settings(), inputs).expect("a report");
    assert_eq!(verdicts(&replayed)[1], ("lan", Verdict::Asymmetric, Some("wan"), 6));
    assert_eq!(replayed.report.nics[1].note, "named by --nic; interface eth1 of b.pcapng");

    // The parts of a rotated capture are one NIC.
    let (early, late) = steps.split_at(steps.len() / 2);
    let part = |file, steps: &[Step]| input(file, Some("eth0"), pcap(1, &of_nic(steps, 0)));
    let replayed = run(&settings(), vec![part("1.pcap", late), part("0.pcap", early)]).expect("a report");
    assert_eq!(verdicts(&replayed)[0], ("eth0", Verdict::Ok, None, 6));
}

#[test]
fn a_file_of_several_nics_cannot_be_called_one() {
    let steps = misrouted(2);
    for (file, says) in [
        (
            pcap(276, &steps),
            "--nic eth9=x: the file holds packets of more than one NIC (ifindex 2 and ifindex 3)",
        ),
        (pcapng(1, &["eth0", "eth1"], &steps), "(interface eth0 and interface eth1)"),
    ] {
        let error =
            run(&settings(), vec![input("x", Some("eth9"), file)]).expect_err("several NICs").to_string();
        assert!(error.contains(says), "{error}");
    }
}

/// A version 1 header has the direction, and no NIC: a probe that was accepted and acknowledged is still known to be OK.
#[test]
fn where_the_nic_is_unknown_that_is_said() {
    let name = |file: Vec<u8>| replay(&settings(), vec![("any.pcap", file)]).expect("a report");
    for file in [pcap(113, &misrouted(6)), pcapng(113, &["any"], &misrouted(6))] {
        let replayed = name(file);
        assert_eq!(reasons(&replayed), ["nic-unknown"]);
        assert!(reason(&replayed, "nic-unknown").contains("-y LINUX_SLL2"));
        assert!(!replayed.nics[0].known);
        assert_eq!(verdicts(&replayed)[0], ("any", Verdict::Ok, None, 6));
        assert_ne!(verdicts(&replayed)[1].1, Verdict::Ok, "nobody acknowledged these");
        assert_ne!(verdicts(&replayed)[1].1, Verdict::Asymmetric, "nobody saw by which NIC they left");
    }
    // A cooked capture of one device, and one that the user names.
    let ppp =
        replay(&settings(), vec![("x.pcapng", pcapng(113, &["ppp0"], &probes(0, 0, Answer::Accept, 3)))]);
    assert_eq!(verdicts(&ppp.expect("a report")), [("ppp0", Verdict::Ok, None, 3)]);
    let file = pcap(113, &probes(0, 0, Answer::Accept, 3));
    let replayed = run(&settings(), vec![input("x", Some("eth0"), file)]).expect("a report");
    assert_eq!((verdicts(&replayed)[0].0, replayed.report.observer.state), ("eth0", ObserverState::Complete));
}

/// With one NIC captured, a missing reply may have left by another.
#[test]
fn what_was_not_captured_is_said() {
    let replayed =
        replay(&settings(), vec![("eth1.pcap", pcap(1, &of_nic(&misrouted(6), 1)))]).expect("a report");
    assert_eq!(verdicts(&replayed), [("eth1", Verdict::NoReply, None, 6)]);
    let evidence = |replayed: &Replayed| format!("{:?}", replayed.report.findings[0].evidence);
    assert!(evidence(&replayed).contains("captured was eth1 only"), "{}", evidence(&replayed));
    // A file without a packet was captured all the same.
    let files = vec![("eth1.pcap", pcap(1, &of_nic(&misrouted(6), 1))), ("eth0.pcap", pcap(1, []))];
    let replayed = replay(&settings(), files).expect("a report");
    assert!(evidence(&replayed).contains("captured was eth1, eth0 only"), "{}", evidence(&replayed));
    // A capture of all devices leaves none out.
    let everywhere =
        replay(&named(), vec![("any.pcap", pcap(276, &probes(1, 1, Answer::Nothing, 6)))]).expect("a report");
    assert_eq!(verdicts(&everywhere)[0].1, Verdict::NoReply);
    assert!(!evidence(&everywhere).contains("captured was"), "{}", evidence(&everywhere));
}

#[test]
fn refusals_and_forwarded_probes_are_told_by_direction() {
    let mut steps = probes(0, 0, Answer::Refuse, 4);
    // DNAT to a machine behind eth1, and its way back.
    for (number, at) in (0..4).map(|n| (n, START + n * 5 * SECOND + SECOND)) {
        let port = 51_000 + number as u16;
        let syn = |to| ip4(PROBER4, to, 6, &Tcp::new(port, 80, SYN).bytes());
        let reply = |from| {
            ip4(from, PROBER4, 6, &Tcp { acknowledgement: 1001, ..Tcp::new(80, port, SYN | ACK) }.bytes())
        };
        let back_end = [10, 9, 0, 10];
        steps.push(Step { at, nic: 0, out: false, ip: syn(local(0)) });
        steps.push(Step { at: at + MS, nic: 1, out: true, ip: syn(back_end) });
        steps.push(Step { at: at + 2 * MS, nic: 1, out: false, ip: reply(back_end) });
        steps.push(Step { at: at + 3 * MS, nic: 0, out: true, ip: reply(local(0)) });
    }
    let steps = in_order(steps);
    let replayed = replay(&named(), vec![("any.pcap", pcap(276, &steps))]).expect("a report");
    let by_port: Vec<_> =
        replayed.report.probes.iter().map(|s| (s.nic.as_str(), s.port, s.verdict)).collect();
    assert_eq!(by_port, [("eth0", 80, Verdict::Ok), ("eth0", PORT, Verdict::Refused)]);
    assert_eq!((replayed.tally.syn, replayed.tally.syn_ack, replayed.tally.rst), (12, 8, 4));
    let proxied: Vec<_> =
        replayed.report.findings.iter().filter(|finding| finding.code == "PROXIED").collect();
    assert_eq!(proxied.iter().map(|finding| finding.port).collect::<Vec<_>>(), [Some(80)], "{proxied:#?}");
    assert!(proxied[0].summary.contains("10.9.0.10"), "{}", proxied[0].summary);
}

#[test]
fn what_this_host_asks_is_no_probe() {
    let mut steps = probes(0, 0, Answer::Accept, 3);
    for at in [START + SECOND, START + 6 * SECOND] {
        let ask = ip4(local(0), PROBER4, 6, &Tcp::new(40_000, 80, SYN).bytes());
        steps.push(Step { at, nic: 0, out: true, ip: ask });
        steps.push(Step {
            at: at + MS,
            nic: 0,
            out: false,
            ip: ip4(PROBER4, local(0), 17, &udp(53, 40_001)),
        });
    }
    let replayed = replay(&settings(), vec![("eth0.pcap", pcap(1, &in_order(steps)))]).expect("a report");
    assert_eq!(verdicts(&replayed), [("eth0", Verdict::Ok, None, 3)]);
    assert_eq!((replayed.report.platform.packets_out, replayed.report.platform.packets_in), (2, 2));
}

#[test]
fn tagged_and_version_6_packets_of_cooked_captures_are_read() {
    let tagged = |link: usize, step: &Step| {
        let mut frame = framed(link as u32, step);
        let (at, behind) = if link == 113 { (14, 16) } else { (0, 20) };
        frame[at..at + 2].copy_from_slice(&[0x81, 0]);
        frame.splice(behind..behind, [0, 7, 8, 0]);
        frame
    };
    for link in [113_u16, 276] {
        let mut writer = PcapngWriter::new(Vec::new(), Order::Little).expect("memory");
        writer.named(link, "eth0").expect("memory");
        for step in probes(0, 0, Answer::Accept, 3) {
            let frame = tagged(usize::from(link), &step);
            writer.packet(0, step.at, &frame, frame.len(), None).expect("memory");
        }
        let replayed = replay(&named(), vec![("x", writer.into_inner())]).expect("a report");
        assert_eq!(verdicts(&replayed), [("eth0", Verdict::Ok, None, 3)], "link type {link}");
    }
    let to = [0xfd, 0, 0, 4, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1];
    let mut steps = Vec::new();
    for (number, at) in (0..3).map(|n| (n, START + n * 5 * SECOND)) {
        let port = 50_000 + number as u16;
        steps.push(Step {
            at,
            nic: 1,
            out: false,
            ip: ip6(PROBER6, to, 6, &[], &Tcp::new(port, PORT, SYN).bytes()),
        });
        let reply = Tcp { acknowledgement: 1001, ..Tcp::new(PORT, port, RST | ACK) };
        steps.push(Step { at: at + MS, nic: 1, out: true, ip: ip6(to, PROBER6, 6, &[], &reply.bytes()) });
    }
    for (link, nic) in [(276, "eth1"), (229, "x"), (1, "x"), (101, "x")] {
        let replayed = replay(&named(), vec![("x.pcap", pcap(link, &steps))]).expect("a report");
        assert_eq!(verdicts(&replayed), [(nic, Verdict::Refused, None, 3)], "link type {link}");
    }
}

#[test]
fn packets_cut_by_the_snap_length_are_judged_while_their_headers_last() {
    let steps = probes(0, 0, Answer::Accept, 3);
    let replayed = replay(&settings(), vec![("eth0.pcap", cut_pcap(1, 54, &steps))]).expect("a report");
    assert_eq!(verdicts(&replayed), [("eth0", Verdict::Ok, None, 3)]);
    assert_eq!(replayed.report.observer.state, ObserverState::Complete);
    let replayed = replay(&settings(), vec![("eth0.pcap", cut_pcap(1, 40, &steps))]).expect("a report");
    assert_eq!(verdicts(&replayed), []);
    assert!(reason(&replayed, "snap-length").contains("the headers of 12 packets"));
    assert_eq!(replayed.tally.counters.outcome(Outcome::FailedTooDeep), 12);
}

#[test]
fn a_little_disorder_is_put_right_and_more_is_said() {
    let steps = probes(0, 0, Answer::Accept, 6);
    let ordered = replay(&settings(), vec![("eth0.pcap", pcap(1, &steps))]).expect("a report");
    // Each reply 0.1 ms before its probe: another processor's ring was read first.
    let mut swapped = steps.clone();
    for pair in 0..6 {
        let syn = swapped.iter().position(|step| step.at == START + pair * 5 * SECOND).expect("a probe");
        swapped.swap(syn, syn + 1);
    }
    assert_ne!(pcap(1, &swapped), pcap(1, &steps));
    let replayed = replay(&settings(), vec![("eth0.pcap", pcap(1, &swapped))]).expect("a report");
    assert_eq!(replayed.report, ordered.report);

    let mut late = steps;
    let moved = late.remove(0);
    late.insert(8, moved);
    let replayed = replay(&settings(), vec![("eth0.pcap", pcap(1, &late))]).expect("a report");
    assert!(reason(&replayed, "time-order").contains("reordercap"));
}

#[test]
fn a_cut_capture_is_judged_up_to_the_damage() {
    let steps = misrouted(3);
    let whole = pcap(276, &steps);
    // Where each record ends, and the probes up to there.
    let mut ends = vec![(24, 0)];
    for step in &steps {
        let (end, probes) = ends[ends.len() - 1];
        let is_probe = step.ip[20 + 13] & (SYN | ACK) == SYN;
        ends.push((end + 16 + framed(276, step).len(), probes + u64::from(is_probe)));
    }
    for cut in 0..=whole.len() {
        let before = ends.iter().rev().find(|(end, _)| *end <= cut);
        let Ok(replayed) = replay(&named(), vec![("any.pcap", whole[..cut].to_vec())]) else {
            assert!(before.is_none_or(|(_, probes)| *probes == 0), "cut at {cut}");
            continue;
        };
        let attempts: u64 = replayed.report.probes.iter().map(|series| series.attempts).sum();
        assert_eq!(Some(attempts), before.map(|(_, probes)| *probes), "cut at {cut}");
        let complete = ends.iter().any(|(end, _)| *end == cut);
        assert_eq!(replayed.report.observer.state == ObserverState::Complete, complete, "cut at {cut}");
        if replayed.report.observer.state == ObserverState::Degraded {
            let text = reason(&replayed, "capture-damaged");
            assert!(
                text.contains("any.pcap is damaged at byte ") && text.contains("everything before"),
                "{text}"
            );
            assert!(replayed.report.findings.iter().any(|finding| finding.code == "DEGRADED_OBSERVER"));
        }
    }
}

#[test]
fn nothing_to_judge_is_an_error_that_says_why() {
    let error =
        |file: Vec<u8>| replay(&settings(), vec![("x", file)]).expect_err("nothing to judge").to_string();
    assert_eq!(error(pcap(1, [])), "there is no packet in x");
    let mut writer = PcapngWriter::new(Vec::new(), Order::Little).expect("memory");
    writer.named(189, "usb0").expect("memory");
    writer.packet(0, START, &[0; 20], 20, None).expect("memory");
    assert!(error(writer.into_inner()).contains("1 packets of link type 189"));
    let cut = pcap(1, &misrouted(1))[..30].to_vec();
    assert!(error(cut).contains("damaged at byte 24"));
}

#[test]
fn expected_probes_and_chosen_nics_go_by_name() {
    let expected = |nic: &str| Expected {
        nic: nic.to_owned(),
        port: 443,
        protocol: None,
        role: probe_user::probe::rules::Role::Active,
        rules: Rules::default(),
    };
    let judging = Judging { expected: vec![expected("eth0")], ..Judging::default() };
    let nics = vec!["eth0".to_owned(), "eth7".to_owned()];
    let replayed =
        replay(&Settings { judging, nics, ..named() }, vec![("any.pcap", pcap(276, &misrouted(6)))]);
    let replayed = replayed.expect("a report");
    assert_eq!(verdicts(&replayed), [S01[0]]);
    assert_eq!(errors(&replayed), [("NOT_ARRIVING", "eth0")]);
    assert!(reason(&replayed, "nic-missing").contains("eth7"));
    assert_eq!(replayed.report.nics.len(), 1);
}

#[test]
fn any_number_of_nics_takes_bounded_memory() {
    let steps: Vec<Step> = (0..3000)
        .map(|number| Step {
            at: START + u64::from(number),
            nic: number,
            out: false,
            ip: ip4(PROBER4, local(0), 17, &udp(53, 1)),
        })
        .collect();
    let replayed = replay(&settings(), vec![("any.pcap", pcap(276, &steps))]).expect("a report");
    assert_eq!(replayed.nics.len(), 1024);
    assert!(reason(&replayed, "capture-damaged").contains("more than 1024 NICs"));
}

fn any_step() -> impl Strategy<Value = Step> {
    let ends = prop::sample::select(vec![PROBER4, local(0), local(1), [192, 0, 2, 9]]);
    let ports = prop::sample::select(vec![50_000_u16, 50_001, PORT, 80, 53]);
    let kind = prop::sample::select(vec![6_u8, 17, 1, 47]);
    let tcp = (ports.clone(), ports, any::<u8>(), 0_u32..3, 0_u32..3);
    (0..20_000 * MS, 0_u32..2, any::<bool>(), ends.clone(), ends, kind, tcp).prop_map(
        |(at, nic, out, from, to, kind, (source, destination, flags, sequence, acknowledgement))| {
            let tcp = Tcp { sequence, acknowledgement, ..Tcp::new(source, destination, flags) };
            Step { at: START + at, nic, out, ip: ip4(from, to, kind, &tcp.bytes()) }
        },
    )
}

proptest! {
    /// Any packets in any order, in any capture: every one is counted once, and the same replay says the same.
    #[test]
    fn any_traffic_is_survived_and_reconciles(
        steps in prop::collection::vec(any_step(), 1..60),
        link in prop::sample::select(vec![1_u32, 113, 276, 101]),
        snap in 1_usize..80,
    ) {
        let file = cut_pcap(link, snap, &steps);
        let once = replay(&settings(), vec![("x.pcap", file.clone())]).expect("a report");
        prop_assert_eq!(once.tally.counters.seen, steps.len() as u64);
        let again = replay(&settings(), vec![("x.pcap", file)]).expect("a report");
        prop_assert_eq!(once.report, again.report);
    }
}
