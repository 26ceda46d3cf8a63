//! Addresses of the devices.

use std::net::IpAddr;

use ipnet::IpNet;
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage, AddressScope};

use super::netlink::{Netlink, collect};

/// One address of one device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// ifindex of the device that has it.
    pub link: u32,
    /// The address with its prefix length, host bits kept.
    pub net: IpNet,
    /// Global scope: not link-local, not host.
    pub global: bool,
}

/// Every address of both families.
pub(super) async fn read(netlink: &Netlink) -> Result<Vec<Address>, String> {
    let messages =
        collect(netlink.handle.address().get().execute()).await.map_err(|error| error.to_string())?;
    Ok(messages.iter().filter_map(from_message).collect())
}

fn from_message(message: &AddressMessage) -> Option<Address> {
    let mut address: Option<IpAddr> = None;
    let mut local = None;
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Address(ip) => address = Some(*ip),
            AddressAttribute::Local(ip) => local = Some(*ip),
            _ => {}
        }
    }
    // IFA_ADDRESS is the peer's on point-to-point links; IFA_LOCAL is ours where it exists (rtnetlink(7)).
    let net = IpNet::new(local.or(address)?, message.header.prefix_len).ok()?;
    Some(Address { link: message.header.index, net, global: message.header.scope == AddressScope::Universe })
}
