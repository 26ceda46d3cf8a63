//! Sources: the addresses and prefixes that probes come from.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};

use ipnet::IpNet;
use probe_common::maps::{Address, map_v4};

pub use crate::profile::Profile;

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

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SourceError {
    #[error("no source is left to watch for; name one with --source ADDR, or drop --no-default-sources")]
    None,
    #[error("profile {profile} has no sources of its own; name {from}")]
    NoneOfItsOwn { profile: &'static str, from: &'static str },
    #[error("{0} sources; at most 4096 fit into the kernel's table")]
    TooMany(usize),
}

/// The sources to watch, each with its peer id: the profile's spellings of one prober share one, every other source
/// has its own.
pub fn collect(profile: Profile, without_default: bool, more: &[IpNet]) -> Result<Vec<Source>, SourceError> {
    let own = if without_default { &[] } else { profile.sources() };
    let mut sources: Vec<Source> = (1..)
        .zip(own)
        .flat_map(|(peer_id, group)| group.iter().map(move |net| Source { net: *net, peer_id }))
        .collect();
    // Ids are 16 bits wide and 0 is nobody's; the limit is checked below.
    let mut next = profile.sources().len() as u16 + 1;
    for net in more {
        if sources.iter().all(|source| source.net != *net) {
            sources.push(Source { net: *net, peer_id: next });
            next = next.saturating_add(1);
        }
    }
    match sources.len() {
        0 if profile.sources().is_empty() => {
            Err(SourceError::NoneOfItsOwn { profile: profile.name(), from: profile.where_from() })
        }
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
    fn ranges_of_a_profile_are_probers_of_their_own() {
        let more = [parse("10.4.2.1").expect("valid"), parse("35.191.0.0/16").expect("valid")];
        let sources = collect(Profile::Gcp, false, &more).expect("a profile has sources");
        let ids: Vec<u16> = sources.iter().map(|source| source.peer_id).collect();
        assert_eq!(ids, (1..=7).collect::<Vec<u16>>());
        assert_eq!(sources[6].to_string(), "10.4.2.1");
    }

    #[test]
    fn nothing_to_watch_is_an_error() {
        assert_eq!(collect(Profile::AzureLb, true, &[]), Err(SourceError::None));
        for (profile, says) in [
            (Profile::Custom, "--source ADDR"),
            (Profile::Aws, "load balancer's nodes"),
            (Profile::AzureTrafficManager, "--service-tags FILE"),
        ] {
            let error = collect(profile, false, &[]).expect_err("nothing to watch").to_string();
            assert!(error.contains(profile.name()) && error.contains(says), "{error}");
        }
        let many: Vec<IpNet> =
            (0..5000u32).map(|n| IpNet::from(IpAddr::from((0x0a00_0000 + n).to_be_bytes()))).collect();
        assert_eq!(collect(Profile::Custom, false, &many), Err(SourceError::TooMany(5000)));
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
