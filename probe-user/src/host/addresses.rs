//! Addresses of the host's devices.

use std::net::IpAddr;

use futures_util::TryStreamExt;
use ipnet::IpNet;
use rtnetlink::packet_route::address::AddressAttribute;

use super::netlink::{Netlink, NetlinkError, within};

/// One address with its prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub ifindex: u32,
    pub net: IpNet,
}

/// Lists the addresses.
pub async fn read(netlink: &Netlink) -> Result<Vec<Address>, NetlinkError> {
    let request = netlink.handle.address().get().execute().try_collect::<Vec<_>>();
    let messages = within("addresses", request).await?;
    Ok(messages
        .iter()
        .filter_map(|message| {
            let find = |local: bool| {
                message.attributes.iter().find_map(|attribute| match attribute {
                    AddressAttribute::Local(address) if local => Some(*address),
                    AddressAttribute::Address(address) if !local => Some(*address),
                    _ => None,
                })
            };
            // On a point-to-point device IFA_ADDRESS is the far end (linux/if_addr.h).
            let address: IpAddr = find(true).or_else(|| find(false))?;
            let net = IpNet::new(address, message.header.prefix_len).ok()?;
            Some(Address { ifindex: message.header.index, net })
        })
        .collect())
}
