//! The shapes around a transport header, against pnet: VLAN tags, IPv6 extension headers, ICMP errors. And valid packets
//! with a few bytes changed, which get much further into the parser than random bytes do.

use pnet::packet::{
    Packet,
    ethernet::{EtherType, EthernetPacket},
    icmp::{IcmpPacket, destination_unreachable::DestinationUnreachablePacket},
    icmpv6::Icmpv6Packet,
    ip::IpNextHeaderProtocols,
    ipv4::Ipv4Packet,
    ipv6::{ExtensionPacket, FragmentPacket, Ipv6Packet},
    tcp::TcpPacket,
    vlan::VlanPacket,
};
use probe_common::{
    bytes::{WINDOW, Window},
    maps::map_v4,
    parse::{Error, Fragment, Headers, Kind, LinkLayer, Network, headers},
};
use proptest::prelude::*;

const TCP: u8 = 6;
const FRAGMENT: u8 = 44;

fn parse(frame: &[u8]) -> Result<Headers, Error> {
    let mut into = Headers::default();
    headers(frame, LinkLayer::Ethernet, &mut into).map(|()| into)
}

fn ethernet(tags: &[(bool, u16)], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    for (service, tci) in tags {
        frame.extend(if *service { 0x88a8u16 } else { 0x8100 }.to_be_bytes());
        frame.extend(tci.to_be_bytes());
    }
    frame.extend(ethertype.to_be_bytes());
    frame.extend(payload);
    frame
}

fn segment() -> impl Strategy<Value = Vec<u8>> {
    (any::<[u8; 12]>(), any::<u8>(), any::<[u8; 6]>(), prop::collection::vec(any::<u8>(), 0..60)).prop_map(
        |(start, flags, end, payload)| {
            let mut bytes = start.to_vec();
            bytes.extend([0x50, flags]);
            bytes.extend(end);
            bytes.extend(payload);
            bytes
        },
    )
}

fn ip4(source: [u8; 4], destination: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x45, 0];
    bytes.extend((20 + payload.len() as u16).to_be_bytes());
    bytes.extend([0, 1, 0, 0, 64, protocol, 0, 0]);
    bytes.extend(source);
    bytes.extend(destination);
    bytes.extend(payload);
    bytes
}

/// An extension header: its type, the words beyond the first, and what is in it.
type Extension = (u8, u8, u8);

fn ip6(ends: ([u8; 16], [u8; 16]), extensions: &[Extension], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let next = |index: usize| extensions.get(index).map_or(protocol, |(kind, ..)| *kind);
    let mut body = Vec::new();
    for (index, (kind, words, filler)) in extensions.iter().enumerate() {
        body.push(next(index + 1));
        if *kind == FRAGMENT {
            // An atomic fragment (RFC 6946): the whole datagram in the only one.
            body.extend([0, 0, 0, *filler, *filler, *filler, *filler]);
        } else {
            body.push(*words);
            body.extend(vec![*filler; usize::from(*words) * 8 + 6]);
        }
    }
    body.extend(payload);
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend((body.len() as u16).to_be_bytes());
    bytes.extend([next(0), 64]);
    bytes.extend(ends.0);
    bytes.extend(ends.1);
    bytes.extend(body);
    bytes
}

fn extensions(most: usize) -> impl Strategy<Value = Vec<Extension>> {
    prop::collection::vec((prop::sample::select(vec![0u8, 43, 60, FRAGMENT]), 0u8..3, any::<u8>()), 0..=most)
}

/// Where pnet finds the transport header of an IPv6 packet: its protocol and its bytes.
fn through(packet: &[u8]) -> (u8, Vec<u8>) {
    let ip = Ipv6Packet::new(packet).expect("a packet");
    let mut next = ip.get_next_header();
    let mut rest = ip.payload().to_vec();
    loop {
        let (following, length) = match next {
            IpNextHeaderProtocols::Hopopt
            | IpNextHeaderProtocols::Ipv6Route
            | IpNextHeaderProtocols::Ipv6Opts => {
                let header = ExtensionPacket::new(&rest).expect("an extension header");
                (header.get_next_header(), header.payload().len() + 2)
            }
            IpNextHeaderProtocols::Ipv6Frag => {
                let header = FragmentPacket::new(&rest).expect("a fragment header");
                (header.get_next_header(), 8)
            }
            _ => return (next.0, rest),
        };
        next = following;
        rest.drain(..length);
    }
}

/// The quoted TCP tuple is the one that pnet reads in the quoted packet.
fn assert_quote(ours: &Headers, network: &Network, quoted: &[u8]) {
    assert_eq!(ours.transport.kind, Kind::Error);
    let quote = &ours.transport.error;
    assert_eq!(
        (quote.network.source, quote.network.destination, quote.network.protocol),
        (network.source, network.destination, network.protocol)
    );
    // Eight bytes are enough of a quote, and pnet wants a whole header: the rest is zero.
    let mut whole = quoted.to_vec();
    whole.resize(whole.len().max(20), 0);
    let oracle = TcpPacket::new(&whole).expect("a header");
    assert_eq!(quote.source_port, oracle.get_source());
    assert_eq!(quote.destination_port, oracle.get_destination());
    assert_eq!(quote.sequence, oracle.get_sequence());
}

proptest! {
    #[test]
    fn tags_are_what_pnet_says(
        tags in prop::collection::vec(any::<(bool, u16)>(), 0..4),
        ends: ([u8; 4], [u8; 4]),
        segment in segment(),
    ) {
        let frame = ethernet(&tags, 0x0800, &ip4(ends.0, ends.1, TCP, &segment));
        let result = parse(&frame);
        if tags.len() > 2 {
            prop_assert_eq!(result, Err(Error::TooDeep));
            return Ok(());
        }
        let ours = result.expect("a whole packet parses");
        let outer = EthernetPacket::new(&frame).expect("a frame");
        let (mut ethertype, mut rest, mut vlan) = (outer.get_ethertype(), outer.payload().to_vec(), [0; 2]);
        for place in &mut vlan {
            if [EtherType(0x8100), EtherType(0x88a8)].contains(&ethertype) {
                let tag = VlanPacket::new(&rest).expect("a tag");
                *place = tag.get_vlan_identifier() | 0x1000;
                (ethertype, rest) = (tag.get_ethertype(), tag.payload().to_vec());
            }
        }
        prop_assert_eq!(ours.link.vlan, vlan);
        prop_assert_eq!(ours.link.ethertype, ethertype.0);
        prop_assert_eq!(&frame[ours.link.offset..], &rest[..]);
        let packet = Ipv4Packet::new(&rest).expect("a packet");
        prop_assert_eq!(&frame[ours.network.transport..], packet.payload());
    }

    #[test]
    fn a_stripped_tag_counts_as_one_in_the_frame(
        outer: u16,
        inner in prop::collection::vec(any::<(bool, u16)>(), 0..3),
        segment in segment(),
    ) {
        let ip = ip4([1; 4], [2; 4], TCP, &segment);
        let all = [vec![(false, outer)], inner.clone()].concat();
        let mut stripped = parse(&ethernet(&inner, 0x0800, &ip)).expect("a whole packet parses");
        let pushed = stripped.link.push_outer_tag(outer);
        let whole = parse(&ethernet(&all, 0x0800, &ip));
        prop_assert_eq!(pushed.map(|()| stripped.link.vlan), whole.map(|headers| headers.link.vlan));
    }

    #[test]
    fn extension_headers_end_where_pnet_says(
        ends: ([u8; 16], [u8; 16]),
        chain in extensions(8),
        segment in segment(),
    ) {
        let ip = ip6(ends, &chain, TCP, &segment);
        let frame = ethernet(&[], 0x86dd, &ip);
        let result = parse(&frame);
        if chain.len() > 6 {
            prop_assert_eq!(result, Err(Error::TooDeep));
            return Ok(());
        }
        let ours = result.expect("a whole packet parses");
        let (protocol, rest) = through(&ip);
        prop_assert_eq!(ours.network.protocol, protocol);
        prop_assert_eq!(&frame[ours.network.transport..ours.network.end], &rest[..]);
        prop_assert_eq!(ours.network.fragment, Fragment::Whole);
        let oracle = TcpPacket::new(&rest).expect("a segment");
        prop_assert_eq!(ours.transport.tcp.sequence, oracle.get_sequence());
        prop_assert_eq!(ours.transport.tcp.payload_length, oracle.payload().len());
    }

    #[test]
    fn ipv6_fragments_are_what_pnet_says(field: u16, segment in segment()) {
        let mut ip = ip6(([1; 16], [2; 16]), &[(FRAGMENT, 0, 0)], TCP, &segment);
        ip[42..44].copy_from_slice(&field.to_be_bytes());
        let ours = parse(&ethernet(&[], 0x86dd, &ip)).expect("a whole packet parses");
        let oracle = FragmentPacket::new(&ip[40..]).expect("a fragment header");
        // The upper 13 bits (RFC 8200, 4.5).
        let expected = match (oracle.get_fragment_offset_with_flags() >> 3, oracle.is_last_fragment()) {
            (0, true) => Fragment::Whole,
            (0, false) => Fragment::First,
            _ => Fragment::Later,
        };
        prop_assert_eq!(ours.network.fragment, expected);
        prop_assert_eq!(ours.transport.kind == Kind::Tcp, expected != Fragment::Later);
    }

    #[test]
    fn icmp_errors_quote_what_pnet_says(
        kind in prop::sample::select(vec![3u8, 4, 5, 11, 12]),
        code: u8,
        ends: ([u8; 4], [u8; 4]),
        segment in segment(),
        quoted in 8usize..80,
        padding in 0usize..20,
    ) {
        let original = ip4(ends.0, ends.1, TCP, &segment);
        let quote = &original[..original.len().min(20 + quoted)];
        let error = [&[kind, code, 0, 0, 0, 0, 0, 0], quote].concat();
        let ip = ip4(ends.1, ends.0, 1, &error);
        let mut frame = ethernet(&[], 0x0800, &ip);
        frame.resize(frame.len() + padding, 0xee);
        let ours = parse(&frame).expect("a whole packet parses");
        let oracle = Ipv4Packet::new(&ip).expect("a packet");
        let icmp = IcmpPacket::new(oracle.payload()).expect("an error");
        prop_assert_eq!(ours.transport.error.icmp_type, icmp.get_icmp_type().0);
        prop_assert_eq!(ours.transport.error.icmp_code, icmp.get_icmp_code().0);
        let unreachable = DestinationUnreachablePacket::new(oracle.payload()).expect("an error");
        let inner = Ipv4Packet::new(unreachable.payload()).expect("the quoted packet");
        let network = Network {
            source: map_v4(inner.get_source().octets()),
            destination: map_v4(inner.get_destination().octets()),
            protocol: inner.get_next_level_protocol().0,
            ..Network::default()
        };
        assert_quote(&ours, &network, &quote[20..]);
    }

    #[test]
    fn icmpv6_errors_quote_what_pnet_says(
        kind in 1u8..5,
        code: u8,
        ends: ([u8; 16], [u8; 16]),
        chain in extensions(2),
        segment in segment(),
    ) {
        let original = ip6(ends, &chain, TCP, &segment);
        let error = [&[kind, code, 0, 0, 0, 0, 0, 0], &original[..]].concat();
        let ip = ip6((ends.1, ends.0), &[], 58, &error);
        let ours = parse(&ethernet(&[], 0x86dd, &ip)).expect("a whole packet parses");
        let oracle = Ipv6Packet::new(&ip).expect("a packet");
        let icmp = Icmpv6Packet::new(oracle.payload()).expect("an error");
        prop_assert_eq!(ours.transport.error.icmp_type, icmp.get_icmpv6_type().0);
        prop_assert_eq!(ours.transport.error.icmp_code, icmp.get_icmpv6_code().0);
        let inner = Ipv6Packet::new(&icmp.payload()[4..]).expect("the quoted packet");
        let (protocol, rest) = through(&original);
        let network = Network {
            source: inner.get_source().octets(),
            destination: inner.get_destination().octets(),
            protocol,
            ..Network::default()
        };
        assert_quote(&ours, &network, &rest);
    }

    #[test]
    fn a_quote_does_not_go_on_in_the_padding(kept in 0usize..8, segment in segment()) {
        let original = ip4([1; 4], [2; 4], TCP, &segment);
        let error = [&[3, 3, 0, 0, 0, 0, 0, 0], &original[..20 + kept]].concat();
        let mut frame = ethernet(&[], 0x0800, &ip4([2; 4], [1; 4], 1, &error));
        frame.extend([0xee; 40]);
        prop_assert_eq!(parse(&frame), Err(Error::Malformed));
    }

    #[test]
    fn damaged_packets_are_parsed_alike_whole_and_through_a_window(
        tags in prop::collection::vec(any::<(bool, u16)>(), 0..3),
        chain in extensions(4),
        six: bool,
        error: bool,
        segment in segment(),
        changes in prop::collection::vec((0usize..200, any::<u8>()), 0..4),
        keep in 0usize..300,
    ) {
        let ends = ([1; 16], [2; 16]);
        let inner = if six { ip6(ends, &chain, TCP, &segment) } else { ip4([1; 4], [2; 4], TCP, &segment) };
        let body = [&[if six { 1 } else { 3 }, 3, 0, 0, 0, 0, 0, 0], &inner[..]].concat();
        let ip = match (error, six) {
            (false, _) => inner,
            (true, false) => ip4([2; 4], [1; 4], 1, &body),
            (true, true) => ip6(ends, &chain, 58, &body),
        };
        let mut frame = ethernet(&tags, if six { 0x86dd } else { 0x0800 }, &ip);
        for (at, value) in changes {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        frame.truncate(keep.max(20));
        let whole = parse(&frame);
        let mut bytes = [0; WINDOW];
        let readable = frame.len().min(WINDOW);
        bytes[..readable].copy_from_slice(&frame[..readable]);
        let mut part = Headers::default();
        let seen = Window { bytes: &bytes, readable, length: frame.len() };
        let result = headers(&seen, LinkLayer::Ethernet, &mut part).map(|()| part);
        if result != Err(Error::TooDeep) {
            prop_assert_eq!(result, whole);
        }
        if let Ok(headers) = whole
            && headers.transport.kind == Kind::Tcp
        {
            let tcp = headers.transport.tcp;
            prop_assert!(tcp.options <= tcp.payload && tcp.payload + tcp.payload_length <= frame.len());
        }
    }
}
