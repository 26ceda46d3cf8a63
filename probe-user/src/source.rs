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
