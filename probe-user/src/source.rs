//! Sources: the addresses and prefixes that probes come from.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};

use ipnet::IpNet;
use probe_common::maps::{Address, map_v4};

/// A source with the id of the prober it spells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub net: IpNet,
    /// Several spellings of one prober share an id; ids start at 1.
    pub peer_id: u16,
}

impl Source {
    /// Whether this is one address, not a prefix.
    pub fn is_exact(&self) -> bool {
        self.net.prefix_len() == self.net.max_prefix_len()
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_exact() { self.net.addr().fmt(f) } else { self.net.fmt(f) }
    }
}

/// The address or prefix of a `--source` argument. Host bits of a prefix are cleared.
pub fn parse(text: &str) -> Result<IpNet, String> {
    if let Ok(address) = IpAddr::from_str(text) {
        return Ok(IpNet::from(address));
    }
    IpNet::from_str(text)
        .map(|net| net.trunc())
        .map_err(|_| format!("'{text}' is neither an IP address nor a prefix such as 35.191.0.0/16"))
}

/// The sources of the `azure-lb` profile: one prober, two spellings.
/// <https://learn.microsoft.com/azure/load-balancer/load-balancer-custom-probe-overview>
pub fn azure_lb() -> Vec<IpNet> {
    vec![
        IpNet::from(IpAddr::from([168, 63, 129, 16])),
        IpNet::from(IpAddr::from(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0x1234, 0x5678, 0x9abc))),
    ]
}

/// An address as maps and observations carry it.
pub fn to_mapped(address: IpAddr) -> Address {
    match address {
        IpAddr::V4(v4) => map_v4(v4.octets()),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The inverse of [`to_mapped`].
pub fn from_mapped(address: &Address) -> IpAddr {
    Ipv6Addr::from(*address).to_canonical()
}

/// Whose probes to expect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Profile {
    /// Azure Load Balancer: 168.63.129.16 and fe80::1234:5678:9abc
    #[default]
    AzureLb,
    /// No sources of its own; name them with --source
    Custom,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SourceError {
    #[error("no source is left to watch for; name one with --source ADDR, or drop --no-default-sources")]
    None,
    #[error("{0} sources; at most 4096 fit into the kernel's table")]
    TooMany(usize),
}

/// The sources to watch, each with its peer id: the profile's spellings share id 1, every other has its own.
pub fn collect(profile: Profile, without_default: bool, more: &[IpNet]) -> Result<Vec<Source>, SourceError> {
    let mut sources: Vec<Source> = Vec::new();
    if profile == Profile::AzureLb && !without_default {
        sources.extend(azure_lb().into_iter().map(|net| Source { net, peer_id: 1 }));
    }
    let mut next = 2;
    for net in more {
        if sources.iter().all(|source| source.net != *net) {
            sources.push(Source { net: *net, peer_id: next });
            next += 1;
        }
    }
    match sources.len() {
        0 => Err(SourceError::None),
        count if count > 4096 => Err(SourceError::TooMany(count)),
        _ => Ok(sources),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_azure_prober_has_two_spellings_and_one_id() {
        let sources = collect(Profile::AzureLb, false, &[]).expect("a profile has sources");
        let spelled: Vec<_> = sources.iter().map(ToString::to_string).collect();
        assert_eq!(spelled, ["168.63.129.16", "fe80::1234:5678:9abc"]);
        assert!(sources.iter().all(|source| source.peer_id == 1 && source.is_exact()));
    }

    #[test]
    fn further_sources_add_and_repeats_do_not() {
        let more = [
            parse("10.4.2.1").expect("valid"),
            parse("10.4.2.1/32").expect("valid"),
            parse("35.191.9.9/16").expect("valid"),
        ];
        let sources = collect(Profile::AzureLb, true, &more).expect("sources were named");
        let spelled: Vec<_> = sources.iter().map(|s| (s.to_string(), s.peer_id)).collect();
        assert_eq!(spelled, [("10.4.2.1".to_owned(), 2), ("35.191.0.0/16".to_owned(), 3)]);
    }

    #[test]
    fn nothing_to_watch_is_an_error() {
        assert_eq!(collect(Profile::Custom, false, &[]), Err(SourceError::None));
        assert_eq!(collect(Profile::AzureLb, true, &[]), Err(SourceError::None));
    }

    #[test]
    fn mapped_addresses_round_trip() {
        for text in ["168.63.129.16", "fe80::1234:5678:9abc"] {
            let address: IpAddr = text.parse().expect("valid");
            assert_eq!(from_mapped(&to_mapped(address)), address);
        }
    }

    #[test]
    fn what_is_no_address_is_named() {
        for bad in ["", "eth0", "10.0.0.0/33", "300.1.1.1"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
