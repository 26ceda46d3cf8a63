//! Routes of every table.

use std::{fmt, net::IpAddr};

use futures_util::TryStreamExt;
use ipnet::IpNet;
use rtnetlink::{
    RouteMessageBuilder,
    packet_route::{
        AddressFamily,
        route::{RouteAddress, RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType, RouteVia},
    },
};

use super::netlink::{Netlink, NetlinkError, within};

/// RT_TABLE_LOCAL, RT_TABLE_MAIN, RT_TABLE_DEFAULT (linux/rtnetlink.h).
pub const TABLE_LOCAL: u32 = 255;
pub const TABLE_MAIN: u32 = 254;
pub const TABLE_DEFAULT: u32 = 253;

/// One route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destination prefix.
    pub destination: IpNet,
    pub gateway: Option<IpAddr>,
    /// ifindex it leaves by; `None` for types that go nowhere, and for multipath.
    pub device: Option<u32>,
    pub table: u32,
    pub metric: Option<u32>,
    /// Who installed it, as `ip route` prints it.
    pub protocol: String,
    /// `unicast`, `unreachable`, `blackhole`, …
    pub kind: String,
    /// `link` for on-link routes.
    pub on_link: bool,
    pub source: Option<IpAddr>,
    /// Next hops of a multipath route: device and gateway.
    pub next_hops: Vec<(u32, Option<IpAddr>)>,
}

/// A table's name as iproute2 prints it.
pub fn table_name(table: u32) -> String {
    match table {
        TABLE_LOCAL => "local".to_owned(),
        TABLE_MAIN => "main".to_owned(),
        TABLE_DEFAULT => "default".to_owned(),
        other => other.to_string(),
    }
}

impl Route {
    /// As `ip route` prints it; `name` turns an ifindex into a device name.
    pub fn text(&self, name: impl Fn(u32) -> String) -> String {
        use fmt::Write;
        let mut text = String::new();
        if self.kind != "unicast" {
            text.push_str(&self.kind);
            text.push(' ');
        }
        // Writing to a String cannot fail.
        let _ = match self.destination.prefix_len() {
            0 => write!(text, "default"),
            len if len == self.destination.max_prefix_len() => write!(text, "{}", self.destination.addr()),
            _ => write!(text, "{}", self.destination),
        };
        if let Some(gateway) = self.gateway {
            let _ = write!(text, " via {gateway}");
        }
        if let Some(device) = self.device {
            let _ = write!(text, " dev {}", name(device));
        }
        for (device, gateway) in &self.next_hops {
            let _ = write!(text, " nexthop");
            if let Some(gateway) = gateway {
                let _ = write!(text, " via {gateway}");
            }
            let _ = write!(text, " dev {}", name(*device));
        }
        let _ = write!(text, " proto {}", self.protocol);
        if self.on_link {
            text.push_str(" scope link");
        }
        if let Some(source) = self.source {
            let _ = write!(text, " src {source}");
        }
        if let Some(metric) = self.metric {
            let _ = write!(text, " metric {metric}");
        }
        text
    }
}

/// Lists the routes of every table, IPv4 and IPv6.
pub async fn read(netlink: &Netlink) -> Result<Vec<Route>, NetlinkError> {
    let mut routes = Vec::new();
    let v4 = RouteMessageBuilder::<std::net::Ipv4Addr>::new().build();
    let v6 = RouteMessageBuilder::<std::net::Ipv6Addr>::new().build();
    for mut message in [v4, v6] {
        // A dump's table filter would hide all but one table.
        message.header.table = 0;
        let request = netlink.handle.route().get(message).execute().try_collect::<Vec<_>>();
        routes.extend(within("routes", request).await?.iter().filter_map(route));
    }
    Ok(routes)
}

/// A netlink route message; `None` when it has a family or an address that is not IP.
pub(super) fn route(message: &RouteMessage) -> Option<Route> {
    let unspecified: IpAddr = match message.header.address_family {
        AddressFamily::Inet => IpAddr::from([0, 0, 0, 0]),
        AddressFamily::Inet6 => IpAddr::from([0u16; 8]),
        _ => return None,
    };
    let mut destination = unspecified;
    let mut route = Route {
        destination: IpNet::new(unspecified, 0).ok()?,
        gateway: None,
        device: None,
        table: u32::from(message.header.table),
        metric: None,
        protocol: protocol(message.header.protocol),
        kind: kind(message.header.kind),
        on_link: message.header.scope == RouteScope::Link,
        source: None,
        next_hops: Vec::new(),
    };
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(address) => destination = ip(address)?,
            RouteAttribute::Gateway(address) => route.gateway = ip(address),
            RouteAttribute::Via(RouteVia::Inet6(address)) => route.gateway = Some(IpAddr::V6(*address)),
            RouteAttribute::Via(RouteVia::Inet(address)) => route.gateway = Some(IpAddr::V4(*address)),
            RouteAttribute::PrefSource(address) => route.source = ip(address),
            RouteAttribute::Oif(device) => route.device = Some(*device),
            RouteAttribute::Priority(metric) => route.metric = Some(*metric),
            RouteAttribute::Table(table) => route.table = *table,
            RouteAttribute::MultiPath(hops) => {
                for hop in hops {
                    let gateway = hop.attributes.iter().find_map(|attribute| match attribute {
                        RouteAttribute::Gateway(address) => ip(address),
                        _ => None,
                    });
                    route.next_hops.push((hop.interface_index, gateway));
                }
            }
            _ => {}
        }
    }
    route.destination = IpNet::new(destination, message.header.destination_prefix_length).ok()?;
    Some(route)
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(v4) => Some(IpAddr::V4(*v4)),
        RouteAddress::Inet6(v6) => Some(IpAddr::V6(*v6)),
        _ => None,
    }
}

/// Names of iproute2's etc/iproute2/rt_protos.
fn protocol(protocol: RouteProtocol) -> String {
    match protocol {
        RouteProtocol::Kernel => "kernel".to_owned(),
        RouteProtocol::Boot => "boot".to_owned(),
        RouteProtocol::Static => "static".to_owned(),
        RouteProtocol::Dhcp => "dhcp".to_owned(),
        RouteProtocol::Ra => "ra".to_owned(),
        RouteProtocol::IcmpRedirect => "redirect".to_owned(),
        RouteProtocol::Zebra => "zebra".to_owned(),
        RouteProtocol::Bird => "bird".to_owned(),
        RouteProtocol::Bgp => "bgp".to_owned(),
        RouteProtocol::Ospf => "ospf".to_owned(),
        other => u8::from(other).to_string(),
    }
}

fn kind(kind: RouteType) -> String {
    match kind {
        RouteType::Unicast => "unicast",
        RouteType::Local => "local",
        RouteType::Broadcast => "broadcast",
        RouteType::Anycast => "anycast",
        RouteType::Multicast => "multicast",
        RouteType::BlackHole => "blackhole",
        RouteType::Unreachable => "unreachable",
        RouteType::Prohibit => "prohibit",
        RouteType::Throw => "throw",
        _ => "other",
    }
    .to_owned()
}
