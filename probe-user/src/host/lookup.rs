//! What the kernel would do with a reply: a route look-up by the kernel itself.

use std::net::IpAddr;

use futures_util::TryStreamExt;
use rtnetlink::{
    RouteMessageBuilder,
    packet_route::route::{RouteAddress, RouteAttribute, RouteFlags, RouteMessage},
};

use super::{
    Facts,
    netlink::{Netlink, NetlinkError, within},
    routes::{Route, route},
    rules::{self, Rule},
};

/// The kernel's answer for one pair of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    pub from: IpAddr,
    pub to: IpAddr,
    pub outcome: Outcome,
}

/// Where a packet would go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Out of a device.
    Leaves {
        device: u32,
        gateway: Option<IpAddr>,
        table: u32,
        /// The route that matched; `None` when this kernel does not tell (before 4.20 for IPv4).
        route: Option<Box<Route>>,
        /// The rule that picked the table; `None` when it cannot be told for sure.
        rule: Option<Box<Rule>>,
    },
    /// Nowhere: the error of the look-up (no route, unreachable, prohibit, blackhole, a source that is not ours).
    Refused(String),
}

/// Asks the kernel where a packet from `from` to `to` that this host sends would leave. `oif` binds it to a device.
pub async fn reply(
    netlink: &Netlink,
    facts: &Facts,
    from: IpAddr,
    to: IpAddr,
    oif: Option<u32>,
) -> Result<Lookup, NetlinkError> {
    let resolved = ask(netlink, from, to, oif, RouteFlags::LookupTable).await;
    let answer = match resolved {
        Ok(answer) => answer,
        Err(NetlinkError::Request { source: rtnetlink::Error::NetlinkError(message), .. }) => {
            return Ok(Lookup { from, to, outcome: Outcome::Refused(message.to_io().to_string()) });
        }
        Err(error) => return Err(error),
    };
    let Some(answer) = answer.as_ref().and_then(route) else {
        return Ok(Lookup { from, to, outcome: Outcome::Refused("no answer".to_owned()) });
    };
    let Some(device) = answer.device else {
        return Ok(Lookup { from, to, outcome: Outcome::Refused(answer.kind) });
    };
    // RTM_F_FIB_MATCH gives the entry of the table instead of the resolved route; without RTM_F_LOOKUP_TABLE the kernel
    // calls every table main (net/ipv4/route.c, inet_rtm_getroute).
    let matched =
        ask(netlink, from, to, oif, RouteFlags::FibMatch | RouteFlags::LookupTable).await.ok().flatten();
    let matched = matched.as_ref().and_then(route);
    let table = matched.as_ref().map_or(answer.table, |matched| matched.table);
    let rule = rules::selecting(&facts.rules, from, to, table).cloned().map(Box::new);
    Ok(Lookup {
        from,
        to,
        outcome: Outcome::Leaves {
            device,
            gateway: answer.gateway,
            table,
            route: matched.map(Box::new),
            rule,
        },
    })
}

async fn ask(
    netlink: &Netlink,
    from: IpAddr,
    to: IpAddr,
    oif: Option<u32>,
    flags: RouteFlags,
) -> Result<Option<RouteMessage>, NetlinkError> {
    let mut message = match to {
        IpAddr::V4(_) => RouteMessageBuilder::<std::net::Ipv4Addr>::new().build(),
        IpAddr::V6(_) => RouteMessageBuilder::<std::net::Ipv6Addr>::new().build(),
    };
    let address = |ip: IpAddr| match ip {
        IpAddr::V4(v4) => RouteAddress::Inet(v4),
        IpAddr::V6(v6) => RouteAddress::Inet6(v6),
    };
    let whole = if to.is_ipv4() { 32 } else { 128 };
    // A look-up has no table, protocol, scope or type of its own (net/ipv4/route.c, inet_rtm_valid_getroute_req).
    message.header.table = 0;
    message.header.protocol = 0.into();
    message.header.scope = 0.into();
    message.header.kind = 0.into();
    message.header.flags = flags;
    message.header.destination_prefix_length = whole;
    message.header.source_prefix_length = whole;
    message.attributes =
        vec![RouteAttribute::Destination(address(to)), RouteAttribute::Source(address(from))];
    message.attributes.extend(oif.map(RouteAttribute::Oif));
    let request = netlink.handle.route().get(message).execute().try_collect::<Vec<_>>();
    Ok(within("a route", request).await?.pop())
}
