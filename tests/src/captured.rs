//! Stories of probes as captures of every kind, for replaying.

use std::io::Cursor;

use probe_user::{
    capture::file::{
        Order,
        write::{PcapWriter, PcapngWriter},
    },
    replay::{self, Input, ReplayError, Replayed, Settings},
    source::{self, Profile},
};

use crate::packets::{ACK, FIN, PROBE_OPTIONS, PROBER4, RST, SYN, Tcp, frame, ip4};

/// 2025-12-01, 03:04:05 UTC.
pub const START: u64 = 1_764_558_245_000_000_000;
pub const SECOND: u64 = 1_000_000_000;
pub const MS: u64 = 1_000_000;
pub const PORT: u16 = 8008;

/// One packet at one NIC.
#[derive(Clone, Debug)]
pub struct Step {
    pub at: u64,
    /// 0 is eth0, 1 is eth1.
    pub nic: u32,
    pub out: bool,
    pub ip: Vec<u8>,
}

/// How the host answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Accept,
    Refuse,
    Nothing,
}

pub fn local(nic: u32) -> [u8; 4] {
    [10, 4, 2 + nic as u8, 101]
}

/// Probes of one NIC every 5 s, answered by NIC `by`.
pub fn probes(nic: u32, by: u32, answer: Answer, count: u64) -> Vec<Step> {
    let mut steps = Vec::new();
    for number in 0..count {
        let at = START + number * 5 * SECOND + u64::from(nic) * 700 * MS;
        let port = 50_000 + 100 * nic as u16 + number as u16;
        let sequence = 1_000_000 * (number as u32 + 1);
        let syn = Tcp { sequence, options: PROBE_OPTIONS.to_vec(), ..Tcp::new(port, PORT, SYN) };
        let prober =
            |flags| Tcp { sequence: sequence + 1, acknowledgement: 78, ..Tcp::new(port, PORT, flags) };
        let host = |flags| Tcp { sequence: 77, acknowledgement: sequence + 1, ..Tcp::new(PORT, port, flags) };
        let mut inward = |after, tcp: &Tcp| {
            steps.push(Step {
                at: at + after,
                nic,
                out: false,
                ip: ip4(PROBER4, local(nic), 6, &tcp.bytes()),
            });
        };
        inward(0, &syn);
        if answer == Answer::Accept && nic == by {
            inward(MS, &prober(ACK));
            inward(4 * SECOND, &prober(FIN | ACK));
        }
        let reply = match answer {
            Answer::Accept => host(SYN | ACK),
            Answer::Refuse => host(RST | ACK),
            Answer::Nothing => continue,
        };
        let ip = ip4(local(nic), PROBER4, 6, &reply.bytes());
        steps.push(Step { at: at + MS / 10, nic: by, out: true, ip });
    }
    in_order(steps)
}

pub fn in_order(mut steps: Vec<Step>) -> Vec<Step> {
    steps.sort_by_key(|step| step.at);
    steps
}

/// S01: eth0 is fine, eth1's replies leave by eth0.
pub fn misrouted(count: u64) -> Vec<Step> {
    in_order([probes(0, 0, Answer::Accept, count), probes(1, 0, Answer::Accept, count)].concat())
}

/// The frame of a packet by its link type.
pub fn framed(link: u32, step: &Step) -> Vec<u8> {
    let ethertype: [u8; 2] = if step.ip[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
    let kind = if step.out { 4 } else { 0 };
    let mac = [0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0, 0];
    let ifindex = (step.nic + 2).to_be_bytes();
    let header = match link {
        1 => return frame(&step.ip),
        113 => [[0, kind].as_slice(), &[0, 1, 0, 6], &mac, &ethertype].concat(),
        276 => [ethertype.as_slice(), &[0, 0], &ifindex, &[0, 1, kind, 6], &mac].concat(),
        0 => vec![2, 0, 0, 0],
        108 => vec![0, 0, 0, 2],
        _ => Vec::new(),
    };
    [header, step.ip.clone()].concat()
}

/// A classic capture of these packets.
pub fn pcap<'a>(link: u32, steps: impl IntoIterator<Item = &'a Step>) -> Vec<u8> {
    cut_pcap(link, usize::MAX, steps)
}

/// The same with a snap length.
pub fn cut_pcap<'a>(link: u32, snap: usize, steps: impl IntoIterator<Item = &'a Step>) -> Vec<u8> {
    let mut writer = PcapWriter::new(Vec::new(), Order::Little, true, link).expect("memory");
    for step in steps {
        let frame = framed(link, step);
        writer.packet(step.at, &frame[..snap.min(frame.len())], frame.len()).expect("memory");
    }
    writer.into_inner()
}

/// A capture of named interfaces, one a NIC, with directions.
pub fn pcapng(link: u16, names: &[&str], steps: &[Step]) -> Vec<u8> {
    let mut writer = PcapngWriter::new(Vec::new(), Order::Big).expect("memory");
    for name in names {
        writer.named(link, name).expect("memory");
    }
    for step in steps {
        let frame = framed(u32::from(link), step);
        let interface = step.nic.min(names.len() as u32 - 1);
        let flags = if step.out { 2 } else { 1 };
        writer.packet(interface, step.at, &frame, frame.len(), Some(flags)).expect("memory");
    }
    writer.into_inner()
}

/// Azure's sources and rules.
pub fn settings() -> Settings {
    let sources = source::collect(Profile::AzureLb, false, &[]).expect("the profile has sources");
    Settings { sources, ..Settings::default() }
}

/// The same, with names for interface numbers 2 and 3.
pub fn named() -> Settings {
    let indexes = [(2, "eth0".to_owned()), (3, "eth1".to_owned())].into();
    Settings { indexes, ..settings() }
}

/// A file, and the name of its NIC if it has one.
pub fn input(file: &str, nic: Option<&str>, bytes: Vec<u8>) -> Input {
    Input { file: file.to_owned(), nic: nic.map(str::to_owned), source: Box::new(Cursor::new(bytes)) }
}

/// Replays files with these names.
pub fn replay(settings: &Settings, files: Vec<(&str, Vec<u8>)>) -> Result<Replayed, ReplayError> {
    let inputs = files.into_iter().map(|(file, bytes)| input(file, None, bytes)).collect();
    let replayed = replay::run(settings, inputs)?;
    assert!(replayed.tally.counters.reconciles(), "{:?}", replayed.tally);
    Ok(replayed)
}
