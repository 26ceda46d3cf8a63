//! The first look at a packet: is one of its ends a source? Most packets of a capture are nobody's probe, and end here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use probe_common::{
    bytes::Bytes,
    follow::End,
    maps::{LINEAR_SOURCES, Peer},
    parse::{self, ETHERTYPE_IPV4, ETHERTYPE_IPV6, Error, Link, LinkLayer},
};

use crate::source::Source;

/// A source as numbers.
#[derive(Clone, Copy, Debug)]
struct Net<N> {
    address: N,
    mask: N,
    peer: Peer,
}

/// Which beginnings of an address, 16 bits each, any source has.
#[derive(Clone, Debug)]
struct Beginnings(Box<[u64; 1024]>);

impl Beginnings {
    fn new() -> Self {
        Self(Box::new([0; 1024]))
    }

    fn add(&mut self, first: u16, prefix_length: u8) {
        let span = 0xffff_u32 >> prefix_length.min(16);
        for beginning in u32::from(first)..=u32::from(first).saturating_add(span).min(0xffff) {
            if let Some(word) = self.0.get_mut(beginning as usize / 64) {
                *word |= 1 << (beginning % 64);
            }
        }
    }

    #[inline]
    fn have(&self, beginning: u16) -> bool {
        self.0.get(usize::from(beginning) / 64).is_some_and(|word| word >> (beginning % 64) & 1 != 0)
    }
}

/// The sources, ready for being compared.
#[derive(Clone, Debug)]
pub struct Matcher {
    v4: Vec<Net<u32>>,
    v6: Vec<Net<u128>>,
    begin4: Beginnings,
    begin6: Beginnings,
}

impl Matcher {
    /// A short list is compared in its order, a long one by the longest prefix: as the kernel half does.
    pub fn new(sources: &[Source]) -> Self {
        let mut matcher =
            Self { v4: Vec::new(), v6: Vec::new(), begin4: Beginnings::new(), begin6: Beginnings::new() };
        let mut sources: Vec<&Source> = sources.iter().collect();
        let of_v4 = sources.iter().filter(|source| source.net.addr().is_ipv4()).count();
        if of_v4 > LINEAR_SOURCES || sources.len() - of_v4 > LINEAR_SOURCES {
            sources.sort_by_key(|source| std::cmp::Reverse(source.net.prefix_len()));
        }
        for source in sources {
            let peer = Peer { id: source.peer_id, prefix: u16::from(!source.is_exact()) };
            match source.net {
                IpNet::V4(net) => {
                    let (address, mask) = (u32::from(net.network()), u32::from(net.netmask()));
                    matcher.begin4.add((address >> 16) as u16, net.prefix_len());
                    matcher.v4.push(Net { address, mask, peer });
                }
                IpNet::V6(net) => {
                    let (address, mask) = (u128::from(net.network()), u128::from(net.netmask()));
                    matcher.begin6.add((address >> 112) as u16, net.prefix_len());
                    matcher.v6.push(Net { address, mask, peer });
                }
            }
        }
        matcher
    }

    /// The end that is a source; `None` when neither is.
    #[inline]
    pub fn find<B: Bytes + ?Sized>(&self, bytes: &B, layer: LinkLayer) -> Result<Option<(End, Peer)>, Error> {
        let mut link = Link::default();
        parse::link(bytes, layer, &mut link)?;
        match link.ethertype {
            ETHERTYPE_IPV4 => {
                let (from, to) = parse::v4_addresses(bytes, link.offset)?;
                let (from, to) = (u32::from_be(from), u32::from_be(to));
                if !self.begin4.have((from >> 16) as u16) && !self.begin4.have((to >> 16) as u16) {
                    return Ok(None);
                }
                Ok(either(self.v4(from), || self.v4(to)))
            }
            ETHERTYPE_IPV6 => {
                let (from, to) = parse::v6_addresses(bytes, link.offset)?;
                let (from, to) = (whole(from), whole(to));
                if !self.begin6.have((from >> 112) as u16) && !self.begin6.have((to >> 112) as u16) {
                    return Ok(None);
                }
                Ok(either(self.v6(from), || self.v6(to)))
            }
            _ => Err(Error::NotIp),
        }
    }

    fn v4(&self, address: u32) -> Option<Peer> {
        self.v4.iter().find(|net| address & net.mask == net.address).map(|net| net.peer)
    }

    fn v6(&self, address: u128) -> Option<Peer> {
        self.v6.iter().find(|net| address & net.mask == net.address).map(|net| net.peer)
    }

    /// The source of an address.
    pub fn peer(&self, address: IpAddr) -> Option<Peer> {
        match address {
            IpAddr::V4(v4) => self.v4(Ipv4Addr::to_bits(v4)),
            IpAddr::V6(v6) => self.v6(Ipv6Addr::to_bits(v6)),
        }
    }
}

fn either(from: Option<Peer>, to: impl FnOnce() -> Option<Peer>) -> Option<(End, Peer)> {
    from.map(|peer| (End::From, peer)).or_else(|| to().map(|peer| (End::To, peer)))
}

/// An address from its halves as loaded.
fn whole([high, low]: [u64; 2]) -> u128 {
    u128::from(u64::from_be(high)) << 64 | u128::from(u64::from_be(low))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::source;

    fn frame4(from: u32, to: u32) -> Vec<u8> {
        let mut bytes = vec![0; 34];
        bytes[12..14].copy_from_slice(&[8, 0]);
        bytes[14] = 0x45;
        bytes[26..30].copy_from_slice(&from.to_be_bytes());
        bytes[30..34].copy_from_slice(&to.to_be_bytes());
        bytes
    }

    proptest! {
        /// Against the plain way to ask: does the prefix contain the address?
        #[test]
        fn the_quick_look_misses_nothing(
            nets in prop::collection::vec((any::<u32>(), 0_u8..=32), 1..12),
            from in any::<u32>(), to in any::<u32>(), near in any::<bool>(),
        ) {
            let sources: Vec<Source> = (1..).zip(&nets).map(|(peer_id, (address, length))| {
                let net = ipnet::Ipv4Net::new(Ipv4Addr::from(*address), *length).expect("a length").trunc();
                Source { net: net.into(), peer_id }
            }).collect();
            // Half of the time, an address beside a source's.
            let from = if near { nets[0].0 ^ (from & 0xff) } else { from };
            let matcher = Matcher::new(&sources);
            let found = matcher.find(frame4(from, to).as_slice(), LinkLayer::Ethernet).expect("IPv4");
            let has = |address: u32| sources.iter().any(|s| s.net.contains(&IpAddr::from(Ipv4Addr::from(address))));
            let end = if has(from) { Some(End::From) } else if has(to) { Some(End::To) } else { None };
            prop_assert_eq!(found.map(|(end, _)| end), end);
        }
    }

    #[test]
    fn a_long_list_goes_by_the_longest_prefix() {
        let more: Vec<IpNet> = ["10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24"]
            .iter()
            .map(|text| source::parse(text).expect("a prefix"))
            .chain((0..10).map(|n| source::parse(&format!("192.0.2.{n}")).expect("an address")))
            .collect();
        let sources = source::collect(source::Profile::Custom, false, &more).expect("sources");
        let matcher = Matcher::new(&sources);
        let of = |text: &str| matcher.peer(text.parse().expect("an address")).map(|peer| peer.id);
        assert_eq!(
            [of("10.1.2.3"), of("10.1.9.9"), of("10.9.9.9"), of("11.0.0.1")],
            [Some(3), Some(2), Some(1), None]
        );
    }
}
