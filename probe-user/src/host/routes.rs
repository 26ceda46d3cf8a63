//! Routes of every table.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use rtnetlink::{
    RouteMessageBuilder,
    packet_route::{
        AddressFamily,
        route::{RouteAddress, RouteAttribute, RouteMessage, RouteType, RouteVia},
    },
};

use super::{
    links::Links,
    netlink::{Netlink, collect},
    tables::TableNames,
};

/// What a route does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouteKind {
    Unicast,
    Local,
    Broadcast,
    Anycast,
    Multicast,
    Blackhole,
    Unreachable,
    Prohibit,
    Throw,
    Other,
}

impl RouteKind {
    const fn word(self) -> Option<&'static str> {
        Some(match self {
            Self::Unicast | Self::Other => return None,
            Self::Local => "local",
            Self::Broadcast => "broadcast",
            Self::Anycast => "anycast",
            Self::Multicast => "multicast",
            Self::Blackhole => "blackhole",
            Self::Unreachable => "unreachable",
            Self::Prohibit => "prohibit",
            Self::Throw => "throw",
        })
    }
}

/// One way that a route leads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NextHop {
    /// ifindex of the device.
    pub link: u32,
    pub device: String,
    pub gateway: Option<IpAddr>,
}

impl NextHop {
    fn text(&self, v4: bool) -> String {
        match self.gateway {
            Some(gateway @ IpAddr::V6(_)) if v4 => format!("via inet6 {gateway} dev {}", self.device),
            Some(gateway) => format!("via {gateway} dev {}", self.device),
            None => format!("dev {}", self.device),
        }
    }
}

/// One route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    pub table: u32,
    pub kind: RouteKind,
    pub destination: IpNet,
    /// IPv6 only: the route holds for these source addresses.
    pub source: Option<IpNet>,
    /// Empty for `blackhole` and its like; several for multipath.
    pub next_hops: Vec<NextHop>,
    pub preferred_source: Option<IpAddr>,
    /// `RTPROT_*`: who added it.
    pub protocol: u8,
    /// `RT_SCOPE_*`: 0 universe, 253 link, 254 host.
    pub scope: u8,
    pub metric: u32,
}

impl Route {
    /// The route in the words of `ip route`, without its table.
    pub fn text(&self) -> String {
        let v4 = self.destination.addr().is_ipv4();
        let mut words = Vec::new();
        words.extend(self.kind.word().map(str::to_owned));
        words.push(if self.destination.prefix_len() == 0 {
            "default".to_owned()
        } else {
            net_text(&self.destination)
        });
        words.extend(self.source.as_ref().map(|source| format!("from {}", net_text(source))));
        if let [only] = &*self.next_hops {
            words.push(only.text(v4));
        }
        // `ip route` hides what the administrator adds (`boot`).
        if !matches!(self.protocol, 0 | 3) {
            words.push(format!("proto {}", protocol_name(self.protocol)));
        }
        match self.scope {
            253 if v4 => words.push("scope link".to_owned()),
            254 if v4 => words.push("scope host".to_owned()),
            _ => {}
        }
        words.extend(self.preferred_source.map(|source| format!("src {source}")));
        if self.metric != 0 {
            words.push(format!("metric {}", self.metric));
        }
        if self.next_hops.len() > 1 {
            words.extend(self.next_hops.iter().map(|hop| format!("nexthop {}", hop.text(v4))));
        }
        words.join(" ")
    }

    /// The route and its table, as evidence.
    pub fn evidence(&self, tables: &TableNames) -> String {
        format!("{}, table {}", self.text(), tables.name(self.table))
    }

    /// Whether the route covers this packet.
    pub fn covers(&self, from: Option<IpAddr>, to: IpAddr) -> bool {
        self.destination.contains(&to)
            && self.source.is_none_or(|source| from.is_some_and(|from| source.contains(&from)))
    }
}

/// A prefix as `ip` prints it: a host prefix without its length.
pub fn net_text(net: &IpNet) -> String {
    if net.prefix_len() == net.max_prefix_len() { net.addr().to_string() } else { net.to_string() }
}

/// Names of `RTPROT_*` as in iproute2's rt_protos.
pub(super) fn protocol_name(protocol: u8) -> String {
    match protocol {
        1 => "redirect",
        2 => "kernel",
        3 => "boot",
        4 => "static",
        8 => "gated",
        9 => "ra",
        10 => "mrt",
        11 => "zebra",
        12 => "bird",
        15 => "ntk",
        16 => "dhcp",
        18 => "keepalived",
        42 => "babel",
        99 => "openr",
        186 => "bgp",
        187 => "isis",
        188 => "ospf",
        189 => "rip",
        192 => "eigrp",
        other => return other.to_string(),
    }
    .to_owned()
}

/// Every route of both families.
pub(super) async fn read(netlink: &Netlink, links: &Links) -> Result<Vec<Route>, String> {
    let route = netlink.handle.route();
    let mut messages = collect(route.get(RouteMessageBuilder::<Ipv4Addr>::new().build()).execute())
        .await
        .map_err(|error| error.to_string())?;
    // A kernel without IPv6 (ipv6.disable=1) refuses; then there is none to list.
    if let Ok(v6) = collect(route.get(RouteMessageBuilder::<Ipv6Addr>::new().build()).execute()).await {
        messages.extend(v6);
    }
    Ok(messages.iter().filter_map(|message| from_message(message, links)).collect())
}

/// A netlink route; `None` for families that are not IP.
pub(super) fn from_message(message: &RouteMessage, links: &Links) -> Option<Route> {
    let header = &message.header;
    let any = match header.address_family {
        AddressFamily::Inet => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        AddressFamily::Inet6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        _ => return None,
    };
    let mut route = Route {
        table: u32::from(header.table),
        kind: kind(header.kind),
        destination: IpNet::new(any, header.destination_prefix_length).ok()?,
        source: None,
        next_hops: Vec::new(),
        preferred_source: None,
        protocol: u8::from(header.protocol),
        scope: u8::from(header.scope),
        metric: 0,
    };
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(address) => {
                if let Some(address) = ip(address) {
                    route.destination = IpNet::new(address, header.destination_prefix_length).ok()?;
                }
            }
            RouteAttribute::Source(address) if header.source_prefix_length > 0 => {
                route.source =
                    ip(address).and_then(|address| IpNet::new(address, header.source_prefix_length).ok());
            }
            RouteAttribute::PrefSource(address) => route.preferred_source = ip(address),
            RouteAttribute::Priority(metric) => route.metric = *metric,
            RouteAttribute::Table(table) => route.table = *table,
            RouteAttribute::MultiPath(hops) => {
                route.next_hops.extend(
                    hops.iter().filter_map(|hop| next_hop(&hop.attributes, Some(hop.interface_index), links)),
                );
            }
            _ => {}
        }
    }
    if route.next_hops.is_empty() {
        route.next_hops.extend(next_hop(&message.attributes, None, links));
    }
    // The kernel lists the reject routes of IPv6 with `dev lo`, which leads nowhere.
    if matches!(route.kind, RouteKind::Blackhole | RouteKind::Unreachable | RouteKind::Prohibit) {
        route.next_hops.clear();
    }
    Some(route)
}

/// The next hop that attributes describe.
pub(super) fn next_hop(attributes: &[RouteAttribute], link: Option<u32>, links: &Links) -> Option<NextHop> {
    let mut link = link;
    let mut gateway = None;
    for attribute in attributes {
        match attribute {
            RouteAttribute::Oif(index) => link = Some(*index),
            RouteAttribute::Gateway(address) => gateway = ip(address),
            RouteAttribute::Via(RouteVia::Inet6(address)) => gateway = Some(IpAddr::V6(*address)),
            RouteAttribute::Via(RouteVia::Inet(address)) => gateway = Some(IpAddr::V4(*address)),
            _ => {}
        }
    }
    let link = link?;
    Some(NextHop { link, device: links.name(link), gateway })
}

pub(super) fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(v4) => Some(IpAddr::V4(*v4)),
        RouteAddress::Inet6(v6) => Some(IpAddr::V6(*v6)),
        _ => None,
    }
}

const fn kind(kind: RouteType) -> RouteKind {
    match kind {
        RouteType::Unicast => RouteKind::Unicast,
        RouteType::Local => RouteKind::Local,
        RouteType::Broadcast => RouteKind::Broadcast,
        RouteType::Anycast => RouteKind::Anycast,
        RouteType::Multicast => RouteKind::Multicast,
        RouteType::BlackHole => RouteKind::Blackhole,
        RouteType::Unreachable => RouteKind::Unreachable,
        RouteType::Prohibit => RouteKind::Prohibit,
        RouteType::Throw => RouteKind::Throw,
        _ => RouteKind::Other,
    }
}
