//! What the kernel would do with a packet: `RTM_GETROUTE`, as `ip route get` asks it.

use std::net::IpAddr;

use rtnetlink::packet_route::{
    AddressFamily,
    route::{RouteAddress, RouteAttribute, RouteFlags, RouteMessage},
};

use super::{
    Facts,
    netlink::{Failure, Netlink, collect},
    routes::{self, NextHop, Route},
    rules::Action,
    selection::{self, Answer, Choice, Packet},
};

/// The question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    pub from: Option<IpAddr>,
    pub to: IpAddr,
    /// For a forwarded packet: the device it came in by.
    pub iif: Option<u32>,
    /// For a packet of a bound socket: the device.
    pub oif: Option<u32>,
    pub mark: u32,
    /// Local TCP port, for rules that look at ports.
    pub port: Option<u16>,
}

impl Query {
    /// A packet that this host sends of its own accord to `to`.
    pub const fn own(to: IpAddr) -> Self {
        Self { from: None, to, iif: None, oif: None, mark: 0, port: None }
    }

    /// The reply of a listener at `from`:`port` to `to`, whose probe came in by the device `nic`.
    pub fn reply(from: IpAddr, port: u16, to: IpAddr, nic: u32) -> Self {
        // Linux binds the reply to a link-local peer to the device that the SYN came in by
        // (net/ipv6/tcp_ipv6.c, tcp_v6_init_req).
        let bound = matches!(to, IpAddr::V6(v6) if v6.is_unicast_link_local());
        Self { from: Some(from), to, iif: None, oif: bound.then_some(nic), mark: 0, port: Some(port) }
    }
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteLookup {
    pub query: Query,
    pub outcome: Outcome,
    /// The rule that led there.
    pub rule: Choice,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It leaves (or is delivered) this way.
    Route(Chosen),
    /// It goes nowhere; the route that says so, if one does.
    Rejected(Rejection, Option<Route>),
    /// The kernel could not be asked, or said something else: why.
    Failed(String),
}

/// The way chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    pub hop: NextHop,
    pub preferred_source: Option<IpAddr>,
    pub table: Option<u32>,
    /// The entry of the table that matched.
    pub matched: Option<Route>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    Unreachable,
    Blackhole,
    Prohibit,
    NoRoute,
    /// `from` is no address of this host.
    SourceNotLocal,
}

impl RouteLookup {
    pub(super) fn failed(query: Query, why: String) -> Self {
        Self { query, outcome: Outcome::Failed(why), rule: Choice::Unknown }
    }

    /// The way chosen, if there is one.
    pub fn chosen(&self) -> Option<&Chosen> {
        match &self.outcome {
            Outcome::Route(chosen) => Some(chosen),
            _ => None,
        }
    }
}

/// Asks the kernel and explains its answer with the snapshot.
pub(super) async fn ask(netlink: &Netlink, facts: &Facts, query: Query) -> RouteLookup {
    let oif = query.oif.and_then(|index| facts.links.by_index(index)).map(|link| link.name.as_str());
    let packet = Packet { from: query.from, to: query.to, oif, mark: query.mark, port: query.port };
    let way = collect(netlink.handle.route().get(message(&query, false)).execute()).await;
    let way = way.and_then(|messages| {
        messages.into_iter().next().ok_or_else(|| Failure::Other("netlink answered nothing".to_owned()))
    });
    match way {
        Ok(way) => {
            let Some(hop) = routes::next_hop(&way.attributes, None, &facts.links) else {
                return RouteLookup::failed(query, "the kernel named no device".to_owned());
            };
            let mut chosen = Chosen { hop, preferred_source: None, table: None, matched: None };
            for attribute in &way.attributes {
                match attribute {
                    RouteAttribute::PrefSource(address) => chosen.preferred_source = routes::ip(address),
                    RouteAttribute::Table(table) => chosen.table = Some(*table),
                    _ => {}
                }
            }
            // A kernel that does not honour RTM_F_FIB_MATCH answers with the way again, marked as cloned: no
            // entry of any table. Then the snapshot's best match stands in.
            let matched = collect(netlink.handle.route().get(message(&query, true)).execute()).await;
            chosen.matched = matched
                .ok()
                .and_then(|messages| messages.into_iter().next())
                .filter(|message| !message.header.flags.contains(RouteFlags::Cloned))
                .and_then(|message| routes::from_message(&message, &facts.links))
                .or_else(|| selection::best(&facts.routes, chosen.table?, &packet).cloned());
            let rule = match chosen.table {
                Some(table) => {
                    let length = chosen.matched.as_ref().map(|route| route.destination.prefix_len());
                    selection::select(&facts.rules, &facts.routes, &packet, Answer::Table(table, length)).0
                }
                None => Choice::Unknown,
            };
            RouteLookup { query, outcome: Outcome::Route(chosen), rule }
        }
        Err(Failure::Errno(errno)) => rejected(facts, query, &packet, errno),
        Err(failure) => RouteLookup::failed(query, failure.to_string()),
    }
}

/// Tells the errors apart: route types and rule actions each have theirs (net/ipv4/fib_semantics.c,
/// `fib_props`; net/ipv4/fib_rules.c, `fib4_rule_action`).
fn rejected(facts: &Facts, query: Query, packet: &Packet<'_>, errno: i32) -> RouteLookup {
    let (rule, route) = selection::select(&facts.rules, &facts.routes, packet, Answer::Rejected);
    let by_rule = match &rule {
        Choice::Rule(rule) => match rule.action {
            Action::Blackhole => Some(Rejection::Blackhole),
            Action::Unreachable => Some(Rejection::Unreachable),
            Action::Prohibit => Some(Rejection::Prohibit),
            _ => None,
        },
        _ => None,
    };
    let explained = by_rule.is_some() || route.is_some();
    let rejection = match errno {
        // IPv4 looks up only for its own addresses (net/ipv4/route.c, ip_route_output_key_hash_rcu).
        libc::ENETUNREACH | libc::EINVAL if !explained && !is_local(facts, query.from) => {
            Rejection::SourceNotLocal
        }
        libc::EHOSTUNREACH => Rejection::Unreachable,
        libc::EACCES => Rejection::Prohibit,
        libc::EINVAL if explained => Rejection::Blackhole,
        libc::ENETUNREACH => by_rule.unwrap_or(Rejection::NoRoute),
        other => {
            let error = std::io::Error::from_raw_os_error(other);
            return RouteLookup::failed(query, format!("the kernel refused the lookup: {error}"));
        }
    };
    RouteLookup { query, outcome: Outcome::Rejected(rejection, route.cloned()), rule }
}

/// Whether an IPv4 address is one of this host's; true when that is not known.
fn is_local(facts: &Facts, address: Option<IpAddr>) -> bool {
    let Some(address @ IpAddr::V4(_)) = address else { return true };
    !facts.knows("addresses")
        || facts.addresses.iter().any(|known| known.net.addr() == address)
        || facts
            .routes
            .iter()
            .any(|route| route.kind == routes::RouteKind::Local && route.destination.contains(&address))
}

fn message(query: &Query, fib_match: bool) -> RouteMessage {
    const TCP: u8 = 6;
    let length = if query.to.is_ipv4() { 32 } else { 128 };
    let mut message = RouteMessage::default();
    message.header.address_family =
        if query.to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    message.header.flags = RouteFlags::LookupTable;
    if fib_match {
        message.header.flags |= RouteFlags::FibMatch;
    }
    message.header.destination_prefix_length = length;
    message.attributes.push(RouteAttribute::Destination(RouteAddress::from(query.to)));
    if let Some(from) = query.from {
        message.header.source_prefix_length = length;
        message.attributes.push(RouteAttribute::Source(RouteAddress::from(from)));
    }
    message.attributes.extend(query.iif.map(RouteAttribute::Iif));
    message.attributes.extend(query.oif.map(RouteAttribute::Oif));
    if query.mark != 0 {
        message.attributes.push(RouteAttribute::Mark(query.mark));
    }
    if let Some(port) = query.port {
        message.attributes.extend([RouteAttribute::IpProto(TCP), RouteAttribute::Sport(port)]);
    }
    message
}
