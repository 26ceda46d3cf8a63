//! Routes and rules over rtnetlink, in the words of iproute2.

use std::net::IpAddr;

use ipnet::IpNet;
use rtnetlink::packet_route::{
    AddressFamily,
    route::{RouteAttribute, RouteFlags, RouteMessage, RouteProtocol, RouteScope, RouteType},
    rule::{RuleAction, RuleAttribute, RuleMessage},
};

use super::{Result, netlink::Netlink};

/// The main routing table.
pub const MAIN: u32 = 254;
/// The table of this host's own addresses.
pub const LOCAL: u32 = 255;

/// What a route does with its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Unicast,
    Unreachable,
    Blackhole,
    Prohibit,
    /// The destination is this host.
    Local,
}

/// `ip route add …`
#[derive(Clone, Debug)]
pub struct Route {
    to: IpNet,
    kind: Kind,
    via: Option<IpAddr>,
    dev: Option<String>,
    prefer: Option<IpAddr>,
    metric: Option<u32>,
    table: u32,
    onlink: bool,
    protocol: u8,
}

impl Route {
    /// A route in table main, protocol static.
    pub fn to(to: impl Into<IpNet>) -> Self {
        Self {
            to: to.into(),
            kind: Kind::Unicast,
            via: None,
            dev: None,
            prefer: None,
            metric: None,
            table: MAIN,
            onlink: false,
            protocol: RouteProtocol::Static.into(),
        }
    }

    #[must_use]
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    #[must_use]
    pub fn via(mut self, gateway: impl Into<IpAddr>) -> Self {
        self.via = Some(gateway.into());
        self
    }

    #[must_use]
    pub fn dev(mut self, name: impl Into<String>) -> Self {
        self.dev = Some(name.into());
        self
    }

    /// The preferred source address (`src`).
    #[must_use]
    pub fn prefer(mut self, source: impl Into<IpAddr>) -> Self {
        self.prefer = Some(source.into());
        self
    }

    #[must_use]
    pub fn metric(mut self, metric: u32) -> Self {
        self.metric = Some(metric);
        self
    }

    #[must_use]
    pub fn table(mut self, table: u32) -> Self {
        self.table = table;
        self
    }

    #[must_use]
    pub fn onlink(mut self) -> Self {
        self.onlink = true;
        self
    }

    /// Who installed it: 4 static (the default), 16 DHCP, 9 router advertisement, …
    #[must_use]
    pub fn protocol(mut self, protocol: u8) -> Self {
        self.protocol = protocol;
        self
    }

    fn message(&self, netlink: &Netlink) -> Result<RouteMessage> {
        let mut message = RouteMessage::default();
        let header = &mut message.header;
        header.address_family = family(self.to);
        header.destination_prefix_length = self.to.prefix_len();
        header.table = u8::try_from(self.table).unwrap_or(0);
        header.protocol = RouteProtocol::from(self.protocol);
        header.kind = match self.kind {
            Kind::Unicast => RouteType::Unicast,
            Kind::Unreachable => RouteType::Unreachable,
            Kind::Blackhole => RouteType::BlackHole,
            Kind::Prohibit => RouteType::Prohibit,
            Kind::Local => RouteType::Local,
        };
        // A gateway must be reachable by a route of narrower scope; a route without one is on-link (fib_check_nh).
        let on_link = self.kind == Kind::Unicast && self.via.is_none() && self.to.addr().is_ipv4();
        header.scope = match self.kind {
            Kind::Local => RouteScope::Host,
            _ if on_link => RouteScope::Link,
            _ => RouteScope::Universe,
        };
        if self.onlink {
            header.flags.insert(RouteFlags::Onlink);
        }
        let attributes = &mut message.attributes;
        attributes.push(RouteAttribute::Table(self.table));
        if self.to.prefix_len() > 0 {
            attributes.push(RouteAttribute::Destination(self.to.network().into()));
        }
        if let Some(gateway) = self.via {
            attributes.push(RouteAttribute::Gateway(gateway.into()));
        }
        if let Some(source) = self.prefer {
            attributes.push(RouteAttribute::PrefSource(source.into()));
        }
        if let Some(dev) = &self.dev {
            attributes.push(RouteAttribute::Oif(netlink.index(dev)?));
        }
        if let Some(metric) = self.metric {
            attributes.push(RouteAttribute::Priority(metric));
        }
        Ok(message)
    }
}

/// `ip rule add …`. The family is that of `from` or `to`, else IPv4.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    pub from: Option<IpNet>,
    pub to: Option<IpNet>,
    pub iif: Option<String>,
    pub oif: Option<String>,
    pub fwmark: Option<u32>,
    /// The bits of the mark that count; all when `None`.
    pub fwmask: Option<u32>,
    pub priority: Option<u32>,
    pub table: u32,
    pub ipv6: bool,
}

impl Rule {
    fn message(&self) -> RuleMessage {
        let mut message = RuleMessage::default();
        let ipv6 = self.ipv6 || [self.from, self.to].iter().flatten().any(|net| net.addr().is_ipv6());
        message.header.family = if ipv6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
        message.header.action = RuleAction::ToTable;
        message.header.table = u8::try_from(self.table).unwrap_or(0);
        message.attributes.push(RuleAttribute::Table(self.table));
        if let Some(from) = self.from {
            message.header.src_len = from.prefix_len();
            message.attributes.push(RuleAttribute::Source(from.network()));
        }
        if let Some(to) = self.to {
            message.header.dst_len = to.prefix_len();
            message.attributes.push(RuleAttribute::Destination(to.network()));
        }
        let attributes = [
            self.iif.clone().map(RuleAttribute::Iifname),
            self.oif.clone().map(RuleAttribute::Oifname),
            self.fwmark.map(RuleAttribute::FwMark),
            self.fwmask.map(RuleAttribute::FwMask),
            self.priority.map(RuleAttribute::Priority),
        ];
        message.attributes.extend(attributes.into_iter().flatten());
        message
    }
}

impl Netlink {
    pub fn route_add(&self, route: &Route) -> Result<()> {
        let message = route.message(self)?;
        self.wait(format!("add {route:?}"), self.handle.route().add(message).execute())
    }

    /// Adds the route, or changes the one with the same destination, metric and table.
    pub fn route_replace(&self, route: &Route) -> Result<()> {
        let message = route.message(self)?;
        self.wait(format!("replace {route:?}"), self.handle.route().add(message).replace().execute())
    }

    pub fn route_del(&self, route: &Route) -> Result<()> {
        let message = route.message(self)?;
        self.wait(format!("delete {route:?}"), self.handle.route().del(message).execute())
    }

    pub fn rule_add(&self, rule: &Rule) -> Result<()> {
        let mut request = self.handle.rule().add();
        *request.message_mut() = rule.message();
        self.wait(format!("add {rule:?}"), request.execute())
    }

    pub fn rule_del(&self, rule: &Rule) -> Result<()> {
        self.wait(format!("delete {rule:?}"), self.handle.rule().del(rule.message()).execute())
    }
}

fn family(net: IpNet) -> AddressFamily {
    if net.addr().is_ipv6() { AddressFamily::Inet6 } else { AddressFamily::Inet }
}
