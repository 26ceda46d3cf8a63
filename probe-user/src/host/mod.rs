//! What the system says about itself: links, addresses, rules, routes, and what the kernel would do with a
//! reply. The only part of nvaprobe that asks; everything it returns is plain data that models and tests
//! can make by hand.
//!
//! Netlink and ioctl sockets belong to the network namespace of the thread that opens them: call
//! [`Facts::read`] and [`Facts::lookup`] on a thread (or current-thread runtime) inside the namespace meant.

pub mod addresses;
pub mod changes;
pub mod counters;
mod driver;
mod dump;
pub mod firewall;
#[cfg(test)]
pub(crate) mod fixture;
pub mod imds;
pub mod links;
pub mod lookup;
pub mod managers;
pub mod neighbours;
pub mod netlink;
pub mod qdisc;
pub mod routes;
pub mod rules;
pub mod selection;
mod sock_diag;
pub mod sockets;
pub mod sysctls;
pub mod tables;
pub mod watch;
pub mod xfrm;

use std::collections::BTreeSet;

use ipnet::IpNet;

use addresses::Address;
use counters::Counters;
use firewall::Ruleset;
use imds::Imds;
use links::Links;
use lookup::{Query, RouteLookup};
use managers::Managers;
use neighbours::Neighbour;
use netlink::Netlink;
use routes::Route;
use rules::Rule;
use sockets::{Connecting, Listener, Request};
use sysctls::Sysctls;
use tables::TableNames;
use xfrm::Policy;

/// Why the host could not be read at all. What is merely missing lands in [`Facts::unread`].
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error(
        "cannot open a netlink socket: {0}; run on Linux with AF_NETLINK allowed (seccomp, systemd RestrictAddressFamilies)"
    )]
    Socket(#[source] std::io::Error),
    #[error("cannot list the network devices over netlink: {0}")]
    Links(String),
}

/// A snapshot of the host, as far as it could be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub links: Links,
    pub addresses: Vec<Address>,
    /// IPv4 and IPv6 rules, each family in the order that the kernel tries them.
    pub rules: Vec<Rule>,
    /// Every table, local included.
    pub routes: Vec<Route>,
    pub tables: TableNames,
    /// Who configures the NICs.
    pub managers: Managers,
    pub neighbours: Vec<Neighbour>,
    pub sysctls: Sysctls,
    pub listeners: Vec<Listener>,
    /// Half-open requests at the moment of reading: for one probe ask [`requests`] again.
    pub requests: Vec<Request>,
    /// Since the namespace began; see [`Counters::since`].
    pub counters: Counters,
    pub xfrm: Vec<Policy>,
    pub firewall: Ruleset,
    /// Asked for by [`imds::Service::ask`] only: reading the host sends no packet.
    pub imds: Imds,
    /// What could not be read. An empty list beside an entry here means "not looked at", not "none".
    pub unread: Vec<Unread>,
}

/// One kind of fact that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// `addresses`, `rules`, `routes`, `neighbours`, `sysctls`, `listeners`, `requests`, `counters`, `xfrm`, `firewall`.
    pub what: &'static str,
    pub why: String,
}

/// Reads the devices alone.
pub async fn links() -> Result<Links, HostError> {
    let netlink = Netlink::open().map_err(HostError::Socket)?;
    links::read(&netlink, &driver::Drivers::open()).await.map_err(HostError::Links)
}

/// Who listens on these TCP ports, in the current thread's network namespace.
pub fn listeners(ports: &BTreeSet<u16>) -> Result<Vec<Listener>, String> {
    sockets::listeners(ports)
}

/// Connections of this host's own that wait for an answer from one of these, in the current thread's network namespace.
pub fn connecting(to: &[IpNet]) -> Result<Vec<Connecting>, String> {
    sockets::connecting(to)
}

/// Half-open requests from one of these, in the current thread's network namespace.
pub fn requests(from: &[IpNet]) -> Result<Vec<Request>, String> {
    sockets::requests(from)
}

/// The neighbours now.
pub async fn neighbours() -> Result<Vec<Neighbour>, String> {
    let netlink = Netlink::open().map_err(|error| HostError::Socket(error).to_string())?;
    neighbours::read(&netlink).await
}

impl Facts {
    /// Reads what decides where packets go, and nothing else: links, addresses, rules and routes.
    pub async fn routing() -> Result<Self, HostError> {
        let netlink = Netlink::open().map_err(HostError::Socket)?;
        Self::routing_by(&netlink).await
    }

    /// Reads everything from the current network namespace.
    pub async fn read() -> Result<Self, HostError> {
        let netlink = Netlink::open().map_err(HostError::Socket)?;
        let mut facts = Self::routing_by(&netlink).await?;
        facts.managers = Managers::of_this_host(&facts.links);
        let neighbours = neighbours::read(&netlink).await;
        facts.neighbours = facts.or_unread("neighbours", neighbours);
        facts.sysctls = facts.or_unread("sysctls", Sysctls::read());
        facts.listeners = facts.or_unread("listeners", sockets::all_listeners());
        facts.requests = facts.or_unread("requests", sockets::all_requests());
        facts.counters = facts.or_unread("counters", Counters::read());
        facts.xfrm = facts.or_unread("xfrm", xfrm::read());
        facts.firewall = firewall::read().await;
        let unread = facts.firewall.unread.iter().map(|why| Unread { what: "firewall", why: why.clone() });
        facts.unread.extend(unread);
        Ok(facts)
    }

    async fn routing_by(netlink: &Netlink) -> Result<Self, HostError> {
        let links = links::read(netlink, &driver::Drivers::open()).await.map_err(HostError::Links)?;
        let mut facts = Self { links, tables: TableNames::read(), ..Self::default() };
        let addresses = addresses::read(netlink).await;
        facts.addresses = facts.or_unread("addresses", addresses);
        let rules = rules::read(netlink).await;
        facts.rules = facts.or_unread("rules", rules);
        let routes = routes::read(netlink, &facts.links).await;
        facts.routes = facts.or_unread("routes", routes);
        Ok(facts)
    }

    /// Asks the kernel of the current network namespace what it would do with a packet, and finds the rule
    /// that decides it among the rules of this snapshot.
    pub async fn lookup(&self, query: Query) -> RouteLookup {
        match Netlink::open() {
            Ok(netlink) => lookup::ask(&netlink, self, query).await,
            Err(error) => RouteLookup::failed(query, format!("cannot open a netlink socket: {error}")),
        }
    }

    /// Whether this kind of fact is known.
    pub fn knows(&self, what: &str) -> bool {
        self.unread.iter().all(|unread| unread.what != what)
    }

    fn or_unread<T: Default>(&mut self, what: &'static str, result: Result<T, String>) -> T {
        result.unwrap_or_else(|why| {
            self.unread.push(Unread { what, why });
            T::default()
        })
    }
}
