//! Links and addresses over rtnetlink, as blocking calls in the calling thread's network namespace.
//! Routes and rules are in [`super::route`].

use std::{future::Future, net::IpAddr, os::fd::AsRawFd};

use futures_util::TryStreamExt;
use ipnet::IpNet;
use nix::net::if_::if_nametoindex;
use rtnetlink::{
    Handle, LinkMacVlan, LinkMessageBuilder, LinkUnspec, LinkVeth,
    packet_route::{
        address::{AddressAttribute, AddressFlags},
        link::{InfoData, InfoVeth, LinkAttribute, LinkFlags, LinkMessage, MacVlanMode},
    },
};
use tokio::runtime::Runtime;

use super::{Error, Result, netns::Namespace, wire::Mac};

/// A netlink connection with its own runtime. Use it through [`Namespace::netlink`].
pub struct Netlink {
    runtime: Runtime,
    pub(super) handle: Handle,
}

/// One end of a veth pair.
#[derive(Clone, Debug)]
pub struct End {
    pub name: String,
    pub mac: Mac,
    pub mtu: u32,
}

/// A device as the kernel lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub name: String,
    pub mac: Vec<u8>,
    pub up: bool,
}

impl Netlink {
    /// Connects in the calling thread's namespace. The thread must not be running async code.
    pub fn here() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .map_err(|e| Error::system("start a netlink runtime", e))?;
        let (connection, handle, _) = {
            let _entered = runtime.enter();
            rtnetlink::new_connection().map_err(|e| Error::system("open a netlink socket", e))?
        };
        runtime.spawn(connection);
        Ok(Self { runtime, handle })
    }

    pub(super) fn wait<T>(
        &self,
        what: impl Into<String>,
        work: impl Future<Output = std::result::Result<T, rtnetlink::Error>>,
    ) -> Result<T> {
        self.runtime.block_on(work).map_err(|e| Error::netlink(what, &e))
    }

    /// The index of a device in this namespace.
    pub fn index(&self, name: &str) -> Result<u32> {
        if_nametoindex(name).map_err(|e| Error::system(format!("find device {name}"), e))
    }

    /// Makes a veth pair: `near` here, `far` in the namespace `beyond`. Both ends are down.
    pub fn veth(&self, near: &End, far: &End, beyond: &Namespace) -> Result<()> {
        let peer = LinkMessageBuilder::<LinkUnspec>::default()
            .name(far.name.clone())
            .address(far.mac.to_vec())
            .mtu(far.mtu)
            .setns_by_fd(beyond.fd().as_raw_fd())
            .build();
        let pair = LinkVeth::new(&near.name, &far.name)
            .set_info_data(InfoData::Veth(InfoVeth::Peer(peer)))
            .address(near.mac.to_vec())
            .mtu(near.mtu)
            .build();
        let what = format!("make veth pair {} - {} in '{}'", near.name, far.name, beyond.label());
        self.wait(what, self.handle.link().add(pair).execute())
    }

    /// Makes a macvlan device in bridge mode on top of `parent`.
    pub fn macvlan(&self, name: &str, parent: &str, mac: Mac) -> Result<()> {
        let parent = self.index(parent)?;
        let link = LinkMacVlan::new(name, parent, MacVlanMode::Bridge).address(mac.to_vec()).build();
        self.wait(format!("make macvlan {name}"), self.handle.link().add(link).execute())
    }

    pub fn up(&self, name: &str) -> Result<()> {
        self.change(name, "set up", LinkMessageBuilder::up)
    }

    pub fn down(&self, name: &str) -> Result<()> {
        self.change(name, "set down", LinkMessageBuilder::down)
    }

    pub fn mtu(&self, name: &str, mtu: u32) -> Result<()> {
        self.change(name, "set the MTU of", |link| link.mtu(mtu))
    }

    pub fn mac(&self, name: &str, mac: Mac) -> Result<()> {
        self.change(name, "set the MAC of", |link| link.address(mac.to_vec()))
    }

    /// Renames a device. Before Linux 6.2 a device that is up cannot be renamed: there it goes down for a
    /// moment, which costs it its routes.
    pub fn rename(&self, name: &str, to: &str) -> Result<()> {
        match self.change(name, "rename", |link| link.name(to)) {
            Err(error) if error.errno() == Some(libc::EBUSY) => {
                self.down(name)?;
                self.change(name, "rename", |link| link.name(to))?;
                self.up(to)
            }
            other => other,
        }
    }

    /// Deletes a device; of a veth pair both ends go.
    pub fn delete(&self, name: &str) -> Result<()> {
        let index = self.index(name)?;
        self.wait(format!("delete {name}"), self.handle.link().del(index).execute())
    }

    fn change(
        &self,
        name: &str,
        what: &str,
        with: impl FnOnce(LinkMessageBuilder<LinkUnspec>) -> LinkMessageBuilder<LinkUnspec>,
    ) -> Result<()> {
        let message = with(LinkUnspec::new_with_index(self.index(name)?)).build();
        self.wait(format!("{what} {name}"), self.handle.link().change(message).execute())
    }

    /// The devices of this namespace.
    pub fn links(&self) -> Result<Vec<Link>> {
        let listed = self.wait("list links", self.handle.link().get().execute().try_collect::<Vec<_>>())?;
        Ok(listed.into_iter().map(link).collect())
    }

    /// Adds an address with its prefix. IPv6 addresses skip duplicate address detection: usable at once.
    pub fn address_add(&self, name: &str, address: IpNet) -> Result<()> {
        let mut request = self.handle.address().add(self.index(name)?, address.addr(), address.prefix_len());
        if address.addr().is_ipv6() {
            request.message_mut().attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
        self.wait(format!("add address {address} to {name}"), request.execute())
    }

    pub fn address_del(&self, name: &str, address: IpNet) -> Result<()> {
        let message = self
            .handle
            .address()
            .add(self.index(name)?, address.addr(), address.prefix_len())
            .message_mut()
            .clone();
        self.wait(
            format!("delete address {address} from {name}"),
            self.handle.address().del(message).execute(),
        )
    }

    /// Adds a permanent neighbour entry.
    pub fn neighbour_add(&self, name: &str, address: IpAddr, mac: Mac) -> Result<()> {
        let request =
            self.handle.neighbours().add(self.index(name)?, address).link_layer_address(&mac).replace();
        self.wait(format!("add neighbour {address} on {name}"), request.execute())
    }
}

fn link(message: LinkMessage) -> Link {
    let mut link = Link {
        index: message.header.index,
        name: String::new(),
        mac: Vec::new(),
        up: message.header.flags.contains(LinkFlags::Up),
    };
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name = name,
            LinkAttribute::Address(mac) => link.mac = mac,
            _ => {}
        }
    }
    link
}
