use std::io::{Cursor, Write};

use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;

use super::{
    write::{PcapWriter, PcapngWriter},
    *,
};

const ORDERS: [Order; 2] = [Order::Little, Order::Big];
const TIME: u64 = 1_764_558_245_678_901_234;

/// A packet that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owned {
    time_ns: u64,
    name: Option<String>,
    link: LinkType,
    direction: Option<Direction>,
    length: usize,
    captured: Vec<u8>,
}

/// Everything that is read, and how the reading ended.
fn read(bytes: &[u8]) -> Result<(Vec<Owned>, Reader), FileError> {
    let mut reader = Reader::open("a.pcap", Box::new(Cursor::new(bytes.to_vec())))?;
    let mut packets = Vec::new();
    while let Some(packet) = reader.next() {
        packets.push(Owned {
            time_ns: packet.time_ns,
            name: packet.interface.name.clone(),
            link: packet.link,
            direction: packet.direction,
            length: packet.length,
            captured: packet.captured.to_vec(),
        });
    }
    assert!(reader.next().is_none(), "the end stays the end");
    Ok((packets, reader))
}

fn sound(bytes: &[u8]) -> Vec<Owned> {
    let (packets, reader) = read(bytes).unwrap_or_else(|error| panic!("{error}"));
    assert!(reader.damage().is_none(), "{:?}", reader.damage());
    packets
}

fn error(bytes: &[u8]) -> String {
    read(bytes).map(|(packets, _)| packets).expect_err("the file is no capture").to_string()
}

fn damage(bytes: &[u8]) -> (usize, String) {
    let (packets, reader) = read(bytes).unwrap_or_else(|error| panic!("{error}"));
    (packets.len(), reader.damage().map(ToString::to_string).unwrap_or_default())
}

fn payload(number: u8) -> Vec<u8> {
    vec![number; 20 + usize::from(number)]
}

/// Three packets, the last one cut by the snap length.
fn pcap(order: Order, nanoseconds: bool, link: u32) -> Vec<u8> {
    let mut writer = PcapWriter::new(Vec::new(), order, nanoseconds, link).expect("memory");
    for number in 0..3 {
        let length = payload(number).len() + if number == 2 { 1000 } else { 0 };
        writer.packet(TIME + u64::from(number), &payload(number), length).expect("memory");
    }
    writer.into_inner()
}

/// A section of either byte order, each with two interfaces and every kind of block.
fn pcapng(order: Order) -> Vec<u8> {
    let mut writer = PcapngWriter::new(Vec::new(), order).expect("memory");
    let other = if order == Order::Little { Order::Big } else { Order::Little };
    for (section, order) in [(0, order), (1, other)] {
        if section == 1 {
            writer.section(order).expect("memory");
        }
        writer.named(1, &format!("eth{section}")).expect("memory");
        writer.packet(0, TIME, &payload(1), 21, Some(1)).expect("memory");
        writer.block(0xbad, b"whatever").expect("memory");
        // Microseconds, an hour late.
        writer.interface(276, 96, &[(1, b"a comment"), (14, &offset(order, 3600))]).expect("memory");
        writer.packet(1, TIME / 1000, &payload(2), 1022, Some(2)).expect("memory");
        writer.simple(&payload(3), 23).expect("memory");
        writer.obsolete(0, TIME + 7, &payload(4), 24, Some(2)).expect("memory");
        writer.packet(0, TIME + 8, &payload(5), 25, None).expect("memory");
        writer.statistics(0, 17).expect("memory");
    }
    writer.into_inner()
}

fn offset(order: Order, seconds: i64) -> [u8; 8] {
    if order == Order::Little { seconds.to_le_bytes() } else { seconds.to_be_bytes() }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// Every format, with the number of its packets.
fn formats() -> Vec<(Vec<u8>, usize)> {
    let mut all = Vec::new();
    for order in ORDERS {
        all.push((pcap(order, false, 1), 3));
        all.push((pcap(order, true, 276), 3));
        all.push((pcapng(order), 10));
    }
    all
}

#[test]
fn every_classic_variant_is_read() {
    for order in ORDERS {
        for nanoseconds in [false, true] {
            let packets = sound(&pcap(order, nanoseconds, 101));
            assert_eq!(packets.len(), 3);
            for (number, packet) in (0..).zip(&packets) {
                let time = TIME + u64::from(number);
                let time_ns = if nanoseconds { time } else { time / 1000 * 1000 };
                let length = payload(number).len() + if number == 2 { 1000 } else { 0 };
                let expected = Owned {
                    time_ns,
                    name: None,
                    link: LinkType::Raw,
                    direction: None,
                    length,
                    captured: payload(number),
                };
                assert_eq!(*packet, expected);
            }
        }
    }
}

#[test]
fn sections_interfaces_and_every_kind_of_packet_block_are_read() {
    for order in ORDERS {
        let packets = sound(&pcapng(order));
        assert_eq!(packets.len(), 10);
        for (section, packets) in packets.chunks(5).enumerate() {
            let told: Vec<_> =
                packets.iter().map(|p| (p.time_ns, p.name.as_deref(), p.direction, p.length)).collect();
            let name = format!("eth{section}");
            let late = TIME / 1000 * 1000 + 3_600_000_000_000;
            let expected = [
                (TIME, Some(name.as_str()), Some(Direction::Ingress), 21),
                (late, None, Some(Direction::Egress), 1022),
                // A simple packet is of the first interface, and has no time.
                (late, Some(name.as_str()), None, 23),
                (TIME + 7, Some(name.as_str()), Some(Direction::Egress), 24),
                (TIME + 8, Some(name.as_str()), None, 25),
            ];
            assert_eq!(told, expected);
            for (number, packet) in (1..).zip(packets) {
                assert_eq!(packet.captured, payload(number));
            }
        }
        let (_, reader) = read(&pcapng(order)).expect("sound");
        assert_eq!((reader.untimed(), reader.dropped(), reader.section()), (2, 17, 2));
    }
}

#[test]
fn gzip_is_seen_through_also_in_several_members() {
    for (bytes, count) in formats() {
        let whole = sound(&bytes);
        assert_eq!(whole.len(), count);
        assert_eq!(sound(&gzip(&bytes)), whole);
        let (first, second) = bytes.split_at(bytes.len() / 2);
        assert_eq!(sound(&[gzip(first), gzip(second)].concat()), whole);
    }
}

/// The packets that end before a byte are read; the rest of the file is called damaged, where its record begins.
#[test]
fn a_file_cut_at_any_byte_gives_everything_before() {
    for (bytes, _) in formats() {
        let whole = sound(&bytes);
        let mut most = 0;
        for cut in 0..bytes.len() {
            let part = &bytes[..cut];
            match read(part) {
                Err(error) => {
                    assert!(cut < 28, "{cut}: {error}");
                    assert!(error.to_string().starts_with("a.pcap: "), "{error}");
                }
                Ok((packets, reader)) => {
                    assert_eq!(packets, whole[..packets.len()], "cut at {cut}");
                    assert!(packets.len() >= most, "cut at {cut}: fewer packets than with less of the file");
                    most = packets.len();
                    if let Some(damage) = reader.damage() {
                        assert!(damage.offset < cut as u64, "cut at {cut}: {damage}");
                        // From there on, the file is a remainder without a whole record.
                        assert!(damage.to_string().contains("the file ends"), "cut at {cut}: {damage}");
                        let (again, clean) = read(&bytes[..damage.offset as usize]).expect("a header");
                        assert_eq!(again, packets);
                        assert!(clean.damage().is_none(), "{:?}", clean.damage());
                    }
                }
            }
        }
        assert!(most + 1 >= whole.len());
    }
}

#[test]
fn a_gzip_file_cut_at_any_byte_gives_everything_before() {
    for (bytes, _) in formats() {
        let whole = sound(&bytes);
        let packed = gzip(&bytes);
        for cut in 1..packed.len() {
            match read(&packed[..cut]) {
                Err(error) => assert!(error.to_string().starts_with("a.pcap: "), "{error}"),
                Ok((packets, reader)) => {
                    assert_eq!(packets, whole[..packets.len()], "cut at {cut}");
                    let damage = reader.damage().unwrap_or_else(|| panic!("cut at {cut}: no damage"));
                    assert!(damage.to_string().contains("of its decompressed content"), "{damage}");
                }
            }
        }
    }
}

#[test]
fn what_is_no_capture_is_named() {
    assert!(error(b"").contains("is empty"));
    assert!(error(&gzip(b"")).contains("is empty"));
    assert!(error(b"\xd4\xc3").contains("begins with d4 c3"));
    assert!(error(b"#!/bin/sh\n").contains("begins with 23 21 2f 62"));
    assert!(error(b"\x28\xb5\x2f\xfd....").contains("zstd"));
    assert!(error(b"BZh9....").contains("bzip2"));
    assert!(error(b"\xfd7zXZ\0").contains("xz"));
    assert!(error(&[0x04, 0x22, 0x4d, 0x18, 0]).contains("lz4"));
    assert!(error(&[0x34, 0xcd, 0xb2, 0xa1, 0]).contains("editcap"));
    assert!(error(&pcap(Order::Little, false, 195)).contains("link type 195"));
    assert!(
        error(&pcap(Order::Big, false, 1)[..10]).contains("ends at byte 10, inside its file header of 24")
    );
    assert!(error(&pcapng(Order::Big)[..20]).contains("ends at byte 20, inside its file header of 24"));
    let mut other = pcap(Order::Little, false, 1);
    other[4] = 3;
    assert!(error(&other).contains("version 3.4"), "{}", error(&other));
    let mut other = pcapng(Order::Little);
    other[12] = 2;
    assert!(error(&other).contains("version 2.0"), "{}", error(&other));
    other[8] = 0;
    assert!(error(&other).contains("byte-order magic 1a2b3c00"), "{}", error(&other));
}

/// High bits of the link type tell about frame check sequences.
#[test]
fn a_frame_check_sequence_is_no_other_link_type() {
    assert_eq!(sound(&pcap(Order::Little, false, 1 | 0x2400_0000 << 2))[0].link, LinkType::Ethernet);
}

#[test]
fn huge_claims_are_damage_not_memory() {
    let mut bytes = pcap(Order::Little, false, 1);
    let second = 24 + 16 + 20;
    bytes[second + 8..second + 12].copy_from_slice(&0xffff_fff0_u32.to_le_bytes());
    let (count, text) = damage(&bytes);
    assert_eq!(count, 1);
    assert_eq!(
        text,
        "a.pcap is damaged at byte 60: a packet claims 4294967280 bytes, and 262144 is the most it may have"
    );

    // A block that nobody needs is passed over, whatever it claims; the file ends inside it.
    let mut writer = PcapngWriter::new(Vec::new(), Order::Big).expect("memory");
    writer.named(1, "eth0").expect("memory");
    writer.packet(0, TIME, &payload(1), 21, None).expect("memory");
    let at = writer.into_inner();
    let with = |kind: u32, length: u32| {
        [&at, kind.to_be_bytes().as_slice(), &length.to_be_bytes(), &[0; 40]].concat()
    };
    let (count, text) = damage(&with(0xbad, 0xffff_fffc));
    assert_eq!(count, 1);
    let begins = format!("a.pcap is damaged at byte {}: the file ends 48 bytes into a block", at.len());
    assert!(text.starts_with(&begins), "{text}");
    for kind in [1, 2, 3, 5, 6] {
        let (count, text) = damage(&with(kind, 0xffff_fffc));
        assert_eq!(count, 1);
        assert!(text.contains("claims 4294967292 bytes, and 524288 is the most"), "{text}");
    }
    for (length, says) in
        [(11, "a length of 11"), (0, "a length of 0"), (45, "a length of 45"), (48, "lengths differ, 48")]
    {
        let (count, text) = damage(&with(6, length));
        assert_eq!(count, 1);
        assert!(text.contains(says), "{text}");
    }
}

#[test]
fn impossible_packets_are_damage() {
    let begin = || {
        let mut writer = PcapngWriter::new(Vec::new(), Order::Little).expect("memory");
        writer.named(1, "eth0").expect("memory");
        writer.packet(0, TIME, &payload(1), 21, None).expect("memory");
        writer
    };
    let mut writer = begin();
    writer.packet(1, TIME, &payload(1), 21, None).expect("memory");
    assert!(damage(&writer.into_inner()).1.contains("of interface 1, which no block describes"));

    let mut writer = begin();
    let mut body = vec![0; 20];
    body[12] = 1;
    writer.block(6, &body).expect("memory");
    assert!(
        damage(&writer.into_inner()).1.contains("a packet in its block claims 1 bytes, and 0 is the most")
    );

    let mut writer = begin();
    writer.block(6, &[0; 8]).expect("memory");
    assert!(damage(&writer.into_inner()).1.contains("a block of type 6 has 20 bytes, too few"));

    let mut writer = begin();
    for _ in 0..5000 {
        writer.named(1, "eth0").expect("memory");
    }
    assert!(damage(&writer.into_inner()).1.contains("more than 4096 interfaces"));
}

#[test]
fn an_unsupported_interface_is_counted_and_others_are_read() {
    let mut writer = PcapngWriter::new(Vec::new(), Order::Little).expect("memory");
    writer.named(189, "usb0").expect("memory");
    writer.named(1, "eth0").expect("memory");
    for interface in [0, 1, 0] {
        writer.packet(interface, TIME, &payload(1), 21, None).expect("memory");
    }
    let (packets, reader) = read(&writer.into_inner()).expect("a capture");
    assert_eq!((packets.len(), reader.unsupported()), (1, Some((189, 2))));
}

proptest! {
    /// Whatever bytes follow a header, reading ends, and ends inside the file.
    #[test]
    fn any_bytes_are_survived(head in 0_usize..7, tail in prop::collection::vec(any::<u8>(), 0..400)) {
        let formats = formats();
        let start: &[u8] = formats.get(head).map_or(&[], |(bytes, _)| &bytes[..if head % 3 == 2 { 28 } else { 24 }]);
        let bytes = [start, &tail].concat();
        if let Ok((_, reader)) = read(&bytes) {
            prop_assert!(reader.damage().is_none_or(|damage| damage.offset <= bytes.len() as u64));
        }
    }

    /// A few bytes changed anywhere: everything before the first of them is read as it was.
    #[test]
    fn mutated_files_give_what_is_before_the_change(
        which in 0_usize..6,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        packed in any::<bool>(),
    ) {
        let (mut bytes, _) = formats().swap_remove(which);
        let whole = sound(&bytes);
        if packed {
            bytes = gzip(&bytes);
        }
        let mut first = bytes.len();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            if bytes[at] != value {
                first = first.min(at);
            }
            bytes[at] = value;
        }
        let untouched = if packed { 0 } else { read(&formats()[which].0[..first]).map_or(0, |(packets, _)| packets.len()) };
        if let Ok((packets, _)) = read(&bytes) {
            prop_assert!(packets.len() >= untouched);
            prop_assert_eq!(&packets[..untouched], &whole[..untouched]);
        } else {
            prop_assert_eq!(untouched, 0);
        }
    }
}
