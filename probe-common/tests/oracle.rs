//! The parser against pnet, which shares no code with it; and against bytes that are no packets at all.

use pnet::{
    packet::{
        Packet,
        ethernet::{EtherTypes, EthernetPacket, MutableEthernetPacket},
        ip::{IpNextHeaderProtocol, IpNextHeaderProtocols},
        ipv4::{Ipv4Packet, MutableIpv4Packet},
        ipv6::{Ipv6Packet, MutableIpv6Packet},
        tcp::{MutableTcpPacket, TcpOption, TcpOptionPacket, TcpPacket},
        udp::{MutableUdpPacket, UdpPacket},
    },
    util::MacAddr,
};
use probe_common::{
    bytes::{Bytes, WINDOW, Window},
    maps::map_v4,
    parse::{Error, Fragment, Headers, Kind, LinkLayer, Options, headers},
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Segment {
    ports: (u16, u16),
    sequence: u32,
    acknowledgement: u32,
    flags: u8,
    window: u16,
    options: Vec<TcpOption>,
    payload: Vec<u8>,
}

fn segment() -> impl Strategy<Value = Segment> {
    let option = prop_oneof![
        Just(TcpOption::nop()),
        any::<u16>().prop_map(TcpOption::mss),
        any::<u8>().prop_map(TcpOption::wscale),
        Just(TcpOption::sack_perm()),
        (any::<u32>(), any::<u32>()).prop_map(|(a, b)| TcpOption::timestamp(a, b)),
    ];
    (
        any::<((u16, u16), u32, u32, u8, u16)>(),
        prop::collection::vec(option, 0..4),
        prop::collection::vec(any::<u8>(), 0..300),
    )
        .prop_map(|((ports, sequence, acknowledgement, flags, window), options, payload)| Segment {
            ports,
            sequence,
            acknowledgement,
            flags,
            window,
            options,
            payload,
        })
}

fn tcp(segment: &Segment) -> Vec<u8> {
    let options: usize = segment.options.iter().map(TcpOptionPacket::packet_size).sum();
    let header = 20 + options.div_ceil(4) * 4;
    let mut buffer = vec![0; header + segment.payload.len()];
    let mut packet = MutableTcpPacket::new(&mut buffer).expect("room for a header");
    packet.set_source(segment.ports.0);
    packet.set_destination(segment.ports.1);
    packet.set_sequence(segment.sequence);
    packet.set_acknowledgement(segment.acknowledgement);
    packet.set_flags(segment.flags);
    packet.set_window(segment.window);
    packet.set_data_offset((header / 4) as u8);
    packet.set_options(&segment.options);
    packet.set_payload(&segment.payload);
    buffer
}

fn ip4(ends: ([u8; 4], [u8; 4]), protocol: u8, options: usize, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let header = 20 + options * 4;
    let mut buffer = vec![1; header + payload.len()];
    let mut packet = MutableIpv4Packet::new(&mut buffer).expect("room for a header");
    packet.set_version(4);
    packet.set_header_length((header / 4) as u8);
    packet.set_total_length((header + payload.len()) as u16);
    packet.set_next_level_protocol(IpNextHeaderProtocol(protocol));
    packet.set_flags((fragment >> 13) as u8);
    packet.set_fragment_offset(fragment & 0x1fff);
    packet.set_source(ends.0.into());
    packet.set_destination(ends.1.into());
    packet.set_payload(payload);
    buffer
}

fn ip6(ends: ([u8; 16], [u8; 16]), protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut buffer = vec![0; 40 + payload.len()];
    let mut packet = MutableIpv6Packet::new(&mut buffer).expect("room for a header");
    packet.set_version(6);
    packet.set_payload_length(payload.len() as u16);
    packet.set_next_header(IpNextHeaderProtocol(protocol));
    packet.set_source(ends.0.into());
    packet.set_destination(ends.1.into());
    packet.set_payload(payload);
    buffer
}

fn ethernet(ip: &[u8], padding: usize) -> Vec<u8> {
    let mut buffer = vec![0; 14 + ip.len() + padding];
    let mut packet = MutableEthernetPacket::new(&mut buffer).expect("room for a header");
    packet.set_source(MacAddr::new(1, 2, 3, 4, 5, 6));
    packet.set_destination(MacAddr::new(7, 8, 9, 10, 11, 12));
    packet.set_ethertype(if ip[0] >> 4 == 4 { EtherTypes::Ipv4 } else { EtherTypes::Ipv6 });
    packet.set_payload(ip);
    buffer
}

fn parse(frame: &[u8], layer: LinkLayer) -> Headers {
    let mut into = Headers::default();
    headers(frame, layer, &mut into).expect("a whole packet parses");
    into
}

/// What pnet says of a TCP segment is what we say.
fn assert_tcp(frame: &[u8], ours: &Headers, segment: &[u8]) {
    let oracle = TcpPacket::new(segment).expect("a whole segment");
    assert_eq!(ours.transport.kind, Kind::Tcp);
    assert_eq!(ours.transport.source_port, oracle.get_source());
    assert_eq!(ours.transport.destination_port, oracle.get_destination());
    let tcp = &ours.transport.tcp;
    assert_eq!(tcp.sequence, oracle.get_sequence());
    assert_eq!(tcp.acknowledgement, oracle.get_acknowledgement());
    assert_eq!(tcp.flags, oracle.get_flags());
    assert_eq!(tcp.window, oracle.get_window());
    assert_eq!(&frame[tcp.payload..tcp.payload + tcp.payload_length], oracle.payload());
    let options = Options::parse(&frame[tcp.options..tcp.payload]);
    let all: Vec<_> = oracle.get_options_iter().map(|o| (o.get_number().0, o.payload().to_vec())).collect();
    let last = |kind: u8| all.iter().rev().find(|(number, _)| *number == kind).map(|(_, data)| data.clone());
    assert_eq!(options.mss.map(|mss| mss.to_be_bytes().to_vec()), last(2));
    assert_eq!(options.window_scale.map(|shift| vec![shift]), last(3));
    assert_eq!(options.sack_permitted, last(4).is_some());
    assert_eq!(options.timestamps, last(8).is_some());
}

proptest! {
    #[test]
    fn tcp_over_ipv4_is_what_pnet_says(
        ends: ([u8; 4], [u8; 4]),
        options in 0usize..10,
        segment in segment(),
        padding in 0usize..40,
    ) {
        let ip = ip4(ends, 6, options, 0, &tcp(&segment));
        let frame = ethernet(&ip, padding);
        let ours = parse(&frame, LinkLayer::Ethernet);
        let oracle = EthernetPacket::new(&frame).expect("a frame");
        prop_assert_eq!(ours.link.source_mac, oracle.get_source().octets());
        prop_assert_eq!(ours.link.destination_mac, oracle.get_destination().octets());
        let oracle = Ipv4Packet::new(&ip).expect("a packet");
        prop_assert_eq!(ours.network.source, map_v4(oracle.get_source().octets()));
        prop_assert_eq!(ours.network.destination, map_v4(oracle.get_destination().octets()));
        prop_assert_eq!(ours.network.protocol, oracle.get_next_level_protocol().0);
        assert_tcp(&frame, &ours, oracle.payload());
        // The same packet on a device without Ethernet header.
        assert_tcp(&ip, &parse(&ip, LinkLayer::Raw), oracle.payload());
    }

    #[test]
    fn tcp_over_ipv6_is_what_pnet_says(ends: ([u8; 16], [u8; 16]), segment in segment()) {
        let ip = ip6(ends, 6, &tcp(&segment));
        let frame = ethernet(&ip, 0);
        let ours = parse(&frame, LinkLayer::Ethernet);
        let oracle = Ipv6Packet::new(&ip).expect("a packet");
        prop_assert_eq!(ours.network.source, oracle.get_source().octets());
        prop_assert_eq!(ours.network.destination, oracle.get_destination().octets());
        assert_tcp(&frame, &ours, oracle.payload());
    }

    #[test]
    fn udp_and_fragments_are_what_pnet_says(
        ends: ([u8; 4], [u8; 4]),
        ports: (u16, u16),
        fragment in prop_oneof![Just(0u16), Just(0x2000), 1u16..0x2000, 0x2001u16..0x4000],
        length in 0usize..100,
    ) {
        let mut datagram = vec![0; 8 + length];
        let mut udp = MutableUdpPacket::new(&mut datagram).expect("room for a header");
        udp.set_source(ports.0);
        udp.set_destination(ports.1);
        udp.set_length(8 + length as u16);
        let ip = ip4(ends, IpNextHeaderProtocols::Udp.0, 0, fragment, &datagram);
        let ours = parse(&ethernet(&ip, 0), LinkLayer::Ethernet);
        let oracle = Ipv4Packet::new(&ip).expect("a packet");
        let expected = match (oracle.get_fragment_offset(), oracle.get_flags() & 1) {
            (0, 0) => Fragment::Whole,
            (0, _) => Fragment::First,
            _ => Fragment::Later,
        };
        prop_assert_eq!(ours.network.fragment, expected);
        if expected != Fragment::Later {
            let oracle = UdpPacket::new(oracle.payload()).expect("a datagram");
            prop_assert_eq!(ours.transport.kind, Kind::Udp);
            prop_assert_eq!(ours.transport.source_port, oracle.get_source());
            prop_assert_eq!(ours.transport.destination_port, oracle.get_destination());
        }
    }

    #[test]
    fn a_truncated_packet_is_an_error_and_never_another_packet(
        segment in segment(),
        ends: ([u8; 4], [u8; 4]),
        keep in 0usize..100,
    ) {
        let frame = ethernet(&ip4(ends, 6, 0, 0, &tcp(&segment)), 0);
        prop_assume!(keep < frame.len());
        prop_assert!(headers(&frame[..keep], LinkLayer::Ethernet, &mut Headers::default()).is_err());
    }

    #[test]
    fn any_bytes_are_parsed_or_refused_and_a_window_of_them_likewise(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        raw: bool,
    ) {
        let layer = if raw { LinkLayer::Raw } else { LinkLayer::Ethernet };
        let mut whole = Headers::default();
        let result = headers(bytes.as_slice(), layer, &mut whole);
        // The kernel half sees the first bytes only: it agrees, or says that headers lie too deep.
        let mut window = [0; WINDOW];
        let readable = bytes.len().min(WINDOW);
        window[..readable].copy_from_slice(&bytes[..readable]);
        let seen = Window { bytes: &window, readable, length: bytes.len() };
        let mut part = Headers::default();
        let of_part = headers(&seen, layer, &mut part);
        if of_part != Err(Error::TooDeep) {
            prop_assert_eq!(of_part, result);
            prop_assert_eq!(part, whole);
        }
        if result.is_ok() && whole.transport.kind == Kind::Tcp {
            let tcp = whole.transport.tcp;
            prop_assert!(tcp.payload + tcp.payload_length <= bytes.len());
        }
        Options::parse(&bytes);
    }

    #[test]
    fn a_window_never_reads_what_is_not_there(readable in 0usize..=WINDOW, offset in 0usize..600) {
        let bytes = [7; WINDOW];
        let window = Window { bytes: &bytes, readable, length: readable };
        prop_assert_eq!(window.load::<4>(offset).is_some(), offset + 4 <= readable);
    }
}
