//! The gateway behind a NIC.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::host::{
    Facts,
    routes::{Route, RouteKind},
};

/// A gateway and how it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gateway {
    pub(super) address: IpAddr,
    pub(super) assumed: bool,
    pub(super) onlink: bool,
}

/// The gateway of the NIC for `from` to `to`: of a route by that NIC (the one that covers `to` best, else
/// any), else the first address of the NIC's own subnet.
pub(super) fn of(facts: &Facts, nic: u32, from: IpAddr, to: &IpNet) -> Option<Gateway> {
    let subnets: Vec<IpNet> = facts
        .addresses
        .iter()
        .filter(|address| facts.links.logical_nic(address.link) == nic)
        .map(|address| address.net)
        .filter(|net| net.addr().is_ipv4() == from.is_ipv4())
        .collect();
    let on_subnet = |address: IpAddr| subnets.iter().any(|net| net.contains(&address));
    let link_local = |address: IpAddr| matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());

    let named = facts
        .routes
        .iter()
        .filter(|route| route.kind == RouteKind::Unicast)
        .filter(|route| route.destination.addr().is_ipv4() == from.is_ipv4())
        .filter_map(|route| Some((route, gateway_by(facts, route, nic)?)))
        .filter(|(_, gateway)| gateway.is_ipv4() == from.is_ipv4())
        .max_by_key(|(route, gateway)| {
            let covers = route.destination.contains(to);
            // A gateway outside the NIC's subnets is somebody's mistake more often than a point-to-point link.
            let near = on_subnet(*gateway) || link_local(*gateway);
            (near, covers, if covers { route.destination.prefix_len() } else { 0 })
        });
    if let Some((_, address)) = named {
        return Some(Gateway {
            address,
            assumed: false,
            onlink: !on_subnet(address) && !link_local(address),
        });
    }

    // Azure reserves the first address of every IPv4 subnet for its gateway
    // (https://learn.microsoft.com/azure/virtual-network/virtual-networks-faq).
    let subnet = subnets.iter().find(|net| net.contains(&from)).or_else(|| subnets.first())?;
    match subnet {
        IpNet::V4(v4) if v4.prefix_len() < 31 => {
            let first = IpAddr::V4(v4.hosts().next()?);
            let ours = subnets.iter().any(|net| net.addr() == first);
            (!ours).then_some(Gateway { address: first, assumed: true, onlink: false })
        }
        _ => None,
    }
}

fn gateway_by(facts: &Facts, route: &Route, nic: u32) -> Option<IpAddr> {
    route.next_hops.iter().find(|hop| facts.links.logical_nic(hop.link) == nic)?.gateway
}
