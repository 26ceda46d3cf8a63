//! Packets of a source that the kernel threw away, and what the kernel half must know to read them.

use crate::{
    counters::Outcome,
    follow::End,
    maps::Address,
    parse::{Fragment, Headers, Kind, protocol},
};

/// Where this kernel keeps what the tracepoint's program reads: offsets in bytes, from its BTF. Written once into
/// read-only data before loading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Layout {
    /// `sk_buff.head`
    pub skb_head: u32,
    /// `sk_buff.data`
    pub skb_data: u32,
    /// `sk_buff.len`
    pub skb_len: u32,
    /// `sk_buff.data_len`
    pub skb_data_len: u32,
    /// `sk_buff.protocol`
    pub skb_protocol: u32,
    /// How many bits `sk_buff.network_header` lies behind `protocol`: at most 48, so that one read of 8 bytes has both.
    pub skb_network_shift: u32,
    /// `sk_buff.dev`
    pub skb_dev: u32,
    /// `sk_buff.skb_iif`
    pub skb_iif: u32,
    /// `sk_buff.sk`
    pub skb_sk: u32,
    /// `sk_buff._skb_refdst`
    pub skb_refdst: u32,
    /// `net_device.ifindex`
    pub device_ifindex: u32,
    /// `net_device.nd_net.net`
    pub device_net: u32,
    /// `sock.__sk_common.skc_net.net`
    pub sock_net: u32,
    /// `dst_entry.dev`
    pub dst_dev: u32,
    /// `net.ns.inum`
    pub net_inum: u32,
    /// Inode of the network namespace to watch; drops in others are ignored.
    pub namespace: u32,
    /// 1 when the tracepoint also hands out the receiving socket (Linux 6.11 on).
    pub receiver: u32,
    pub pad: u32,
}

impl Layout {
    /// Nothing known: for a kernel where the program is not loaded.
    pub const EMPTY: Self = Self {
        skb_head: 0,
        skb_data: 0,
        skb_len: 0,
        skb_data_len: 0,
        skb_protocol: 0,
        skb_network_shift: 0,
        skb_dev: 0,
        skb_iif: 0,
        skb_sk: 0,
        skb_refdst: 0,
        device_ifindex: 0,
        device_net: 0,
        sock_net: 0,
        dst_dev: 0,
        net_inum: 0,
        namespace: 0,
        receiver: 0,
        pad: 0,
    };
}

/// Which way a dropped packet was going.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// Its source address is a probe source.
    FromProber,
    /// Its destination address is one.
    ToProber,
}

/// One packet from or to a source that the kernel dropped, with its reason.
///
/// Addresses and ports are as they were in the packet when it was dropped: after DNAT for one that was forwarded,
/// before the translation back for an answer that came from behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Dropped {
    /// `CLOCK_BOOTTIME`, ns.
    pub time_ns: u64,
    /// The prober's address.
    pub peer: Address,
    /// The other end's.
    pub local: Address,
    /// The reason as this kernel numbers it.
    pub reason: u32,
    /// ifindex of the device that the packet was on (`skb->dev`): the one it came in by, until it has been routed out.
    /// 0 where the kernel keeps none: before a packet of this host has a route out, and within TCP.
    pub device: u32,
    /// ifindex of the device that the packet came in by; 0 for this host's own.
    pub ingress: u32,
    /// Bytes from the IP header on.
    pub length: u32,
    /// Of the TCP header; for an ICMP error that of the packet it quotes.
    pub sequence: u32,
    pub acknowledgement: u32,
    pub peer_port: u16,
    pub local_port: u16,
    /// Which source matched.
    pub peer_id: u16,
    /// 0 from the prober, 1 to it: see [`Self::way`].
    pub way: u8,
    /// 4 or 6.
    pub family: u8,
    /// TCP flags, see [`crate::observation::flags`]; 0 for an ICMP error.
    pub flags: u8,
    /// Type and code of an ICMP or ICMPv6 error, whose TCP quote gave the ports; 0 for TCP.
    pub icmp_type: u8,
    pub icmp_code: u8,
    pub pad: [u8; 5],
}

const _: () = assert!(size_of::<Dropped>() == 80 && align_of::<Dropped>() == 8);
// The two records share a ring and are told apart by their length.
const _: () = assert!(size_of::<Dropped>() != size_of::<crate::observation::Observation>());
const _: () = assert!(size_of::<Layout>() == 18 * 4);

impl Dropped {
    /// Which way it was going.
    pub const fn way(&self) -> Way {
        if self.way == 0 { Way::FromProber } else { Way::ToProber }
    }

    /// Whether it was an ICMP error rather than TCP.
    pub const fn is_icmp(&self) -> bool {
        self.icmp_type != 0
    }

    /// Reads a record as the kernel half wrote it; `None` when the length is another's.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != size_of::<Self>() {
            return None;
        }
        // SAFETY: the length was checked, the read is unaligned, and every bit pattern is a valid Dropped (integers
        // and byte arrays only).
        Some(unsafe { core::ptr::read_unaligned(bytes.as_ptr().cast::<Self>()) })
    }
}

/// What a dropped packet with a source at `end` is: `Followed` when it is TCP, or an ICMP error about TCP.
#[inline(always)]
pub fn classify(headers: &Headers) -> Outcome {
    let transport = &headers.transport;
    if matches!(headers.network.fragment, Fragment::Later) {
        return Outcome::IgnoredFragment;
    }
    match transport.kind {
        Kind::Tcp => Outcome::Followed,
        Kind::Error if transport.error.network.protocol == protocol::TCP => Outcome::Followed,
        Kind::Udp => Outcome::IgnoredPlatform,
        Kind::Echo | Kind::Error | Kind::Other => Outcome::IgnoredOtherProtocol,
    }
}

/// Fills in what the headers of a packet that is `Followed` say, into an all-zero record.
#[inline(always)]
pub fn describe(headers: &Headers, end: End, into: &mut Dropped) {
    let Headers { network, transport, .. } = headers;
    let from_prober = matches!(end, End::From);
    into.way = !from_prober as u8;
    into.family = network.family;
    let quote = &transport.error;
    let (source, destination) = if matches!(transport.kind, Kind::Error) {
        into.icmp_type = quote.icmp_type;
        into.icmp_code = quote.icmp_code;
        into.sequence = quote.sequence;
        // An error's receiver sent what it quotes.
        ((&quote.network.destination, quote.destination_port), (&quote.network.source, quote.source_port))
    } else {
        let tcp = &transport.tcp;
        into.sequence = tcp.sequence;
        into.acknowledgement = tcp.acknowledgement;
        into.flags = tcp.flags;
        ((&network.source, transport.source_port), (&network.destination, transport.destination_port))
    };
    let (peer, local) = if from_prober { (source, destination) } else { (destination, source) };
    into.peer = *peer.0;
    into.peer_port = peer.1;
    into.local = *local.0;
    into.local_port = local.1;
}

#[cfg(feature = "user")]
// SAFETY: `repr(C)` of u32 only: no padding, every bit pattern is valid.
unsafe impl aya::Pod for Layout {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        maps::map_v4,
        observation::flags,
        parse::{self, LinkLayer},
    };

    const PROBER: [u8; 4] = [168, 63, 129, 16];
    const LOCAL: [u8; 4] = [10, 4, 2, 101];

    fn packet(source: [u8; 4], destination: [u8; 4], protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x45, 0];
        bytes.extend(((20 + payload.len()) as u16).to_be_bytes());
        bytes.extend([0, 1]);
        bytes.extend(fragment.to_be_bytes());
        bytes.extend([64, protocol, 0, 0]);
        bytes.extend(source);
        bytes.extend(destination);
        bytes.extend(payload);
        bytes
    }

    /// From port 8008 to 50000, with sequence number 7 and acknowledgement 9.
    fn syn_ack() -> Vec<u8> {
        let mut bytes = vec![0x1f, 0x48, 0xc3, 0x50, 0, 0, 0, 7, 0, 0, 0, 9];
        bytes.extend([0x50, flags::SYN | flags::ACK, 0x20, 0, 0, 0, 0, 0]);
        bytes
    }

    fn headers(bytes: &[u8]) -> Headers {
        let mut headers = Headers::default();
        parse::headers(bytes, LinkLayer::Raw, &mut headers).expect("a whole packet");
        headers
    }

    fn described(bytes: &[u8], end: End) -> Dropped {
        let headers = headers(bytes);
        assert_eq!(classify(&headers), Outcome::Followed);
        let mut dropped = Dropped::default();
        describe(&headers, end, &mut dropped);
        dropped
    }

    #[test]
    fn a_reply_is_turned_to_the_probers_view() {
        let dropped = described(&packet(LOCAL, PROBER, protocol::TCP, 0, &syn_ack()), End::To);
        assert_eq!(dropped.way(), Way::ToProber);
        assert_eq!((dropped.peer, dropped.local), (map_v4(PROBER), map_v4(LOCAL)));
        assert_eq!((dropped.peer_port, dropped.local_port), (50000, 8008));
        assert_eq!((dropped.sequence, dropped.acknowledgement, dropped.flags), (7, 9, 0x12));
        assert!(!dropped.is_icmp() && dropped.family == 4);
    }

    #[test]
    fn the_same_segment_from_the_prober_has_its_ends_turned() {
        let dropped = described(&packet(PROBER, LOCAL, protocol::TCP, 0, &syn_ack()), End::From);
        assert_eq!(dropped.way(), Way::FromProber);
        assert_eq!((dropped.peer, dropped.local), (map_v4(PROBER), map_v4(LOCAL)));
        assert_eq!((dropped.peer_port, dropped.local_port), (8008, 50000));
    }

    #[test]
    fn an_icmp_error_has_the_connection_that_it_quotes_whoever_sent_it() {
        let error = |quoted: Vec<u8>| [vec![3, 10, 0, 0, 0, 0, 0, 0], quoted].concat();
        // To the prober: about its own packet, here from port 8008 of it.
        let quoted = packet(PROBER, LOCAL, protocol::TCP, 0, &syn_ack());
        let ours = described(&packet(LOCAL, PROBER, protocol::ICMP, 0, &error(quoted)), End::To);
        assert_eq!((ours.peer, ours.peer_port, ours.local_port), (map_v4(PROBER), 8008, 50000));
        // From the prober: about a reply of ours.
        let quoted = packet(LOCAL, PROBER, protocol::TCP, 0, &syn_ack());
        let theirs = described(&packet(PROBER, LOCAL, protocol::ICMP, 0, &error(quoted)), End::From);
        assert_eq!((theirs.peer, theirs.peer_port, theirs.local_port), (map_v4(PROBER), 50000, 8008));
        for dropped in [ours, theirs] {
            assert!(dropped.is_icmp());
            assert_eq!(
                (dropped.icmp_type, dropped.icmp_code, dropped.sequence, dropped.flags),
                (3, 10, 7, 0)
            );
        }
    }

    #[test]
    fn what_is_no_probe_has_its_own_outcome() {
        let udp = packet(LOCAL, PROBER, protocol::UDP, 0, &[0, 68, 0, 67, 0, 8, 0, 0]);
        assert_eq!(classify(&headers(&udp)), Outcome::IgnoredPlatform);
        let echo = packet(LOCAL, PROBER, protocol::ICMP, 0, &[8, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(classify(&headers(&echo)), Outcome::IgnoredOtherProtocol);
        let later = packet(LOCAL, PROBER, protocol::TCP, 64, &syn_ack());
        assert_eq!(classify(&headers(&later)), Outcome::IgnoredFragment);
        let about_udp = [vec![3, 3, 0, 0, 0, 0, 0, 0], udp].concat();
        let error = packet(PROBER, LOCAL, protocol::ICMP, 0, &about_udp);
        assert_eq!(classify(&headers(&error)), Outcome::IgnoredOtherProtocol);
    }

    #[test]
    fn a_record_of_another_length_is_none() {
        assert_eq!(Dropped::from_bytes(&[0; size_of::<Dropped>()]), Some(Dropped::default()));
        assert_eq!(Dropped::from_bytes(&[0; size_of::<crate::observation::Observation>()]), None);
    }
}
