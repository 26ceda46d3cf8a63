//! Network devices, and which of them are one logical NIC.

use rtnetlink::packet_route::link::{
    InfoData, InfoVrf, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, LinkXdp, XdpAttached,
};

use super::{
    driver::Drivers,
    netlink::{Netlink, collect},
};

/// What a frame of this device starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer2 {
    /// An Ethernet header, 14 bytes.
    Ethernet,
    /// Nothing: the packet starts with the IP header (tun, WireGuard, ipip, sit, gre).
    None,
    /// Something else: this ARPHRD type.
    Other(u16),
}

impl Layer2 {
    /// By ARPHRD type (linux/if_arp.h). Loopback carries a dummy Ethernet header.
    pub const fn from_arphrd(arphrd: u16) -> Self {
        match arphrd {
            1 | 772 => Self::Ethernet,
            // RAWIP, TUNNEL, TUNNEL6, SIT, IPGRE, IP6GRE, NONE.
            519 | 768 | 769 | 776 | 778 | 823 | 0xfffe => Self::None,
            other => Self::Other(other),
        }
    }

    /// Bytes in front of the network header; `None` for a device that is not understood.
    pub const fn length(self) -> Option<u32> {
        match self {
            Self::Ethernet => Some(14),
            Self::None => Some(0),
            Self::Other(_) => None,
        }
    }
}

/// An XDP program that is attached already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachedXdp {
    pub mode: XdpMode,
    /// Program id; `None` when several are attached or the kernel does not tell.
    pub program: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    Native,
    Generic,
    Offloaded,
    /// More than one of the above.
    Several,
}

/// One network device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub name: String,
    /// Ethernet address; `None` for devices without one.
    pub mac: Option<[u8; 6]>,
    pub up: bool,
    pub running: bool,
    pub loopback: bool,
    /// IFF_SLAVE: enslaved to a bond, a team, or a netvsc device.
    pub slave: bool,
    pub mtu: u32,
    pub layer2: Layer2,
    /// ifindex of the master: bond, team, bridge, VRF, or the synthetic NIC of a VF.
    pub master: Option<u32>,
    /// ifindex of the device below (vlan, macvlan) or of the veth peer. The peer of a veth may be in another
    /// namespace, where the number means another device.
    pub lower: Option<u32>,
    /// rtnetlink kind: `veth`, `vlan`, `vxlan`, `tun`, `bond`, `bridge`, `vrf`, …; `None` for hardware and lo.
    pub kind: Option<String>,
    /// Table of a VRF device.
    pub vrf_table: Option<u32>,
    /// Driver name, such as `hv_netvsc`.
    pub driver: Option<String>,
    /// Device on a bus, such as a PCI address or a VMBus GUID (Linux 5.14 on).
    pub parent: Option<String>,
    pub xdp: Option<AttachedXdp>,
}

impl Link {
    fn is_kind(&self, kind: &str) -> bool {
        self.kind.as_deref() == Some(kind)
    }

    /// A device with hardware (or a hypervisor) behind it.
    fn is_hardware(&self) -> bool {
        self.kind.is_none()
            && !self.loopback
            && self.layer2 == Layer2::Ethernet
            && (self.driver.is_some() || self.parent.is_some())
    }
}

/// Every device of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links(pub Vec<Link>);

impl Links {
    pub fn iter(&self) -> std::slice::Iter<'_, Link> {
        self.0.iter()
    }

    pub fn by_index(&self, index: u32) -> Option<&Link> {
        self.iter().find(|link| link.index == index)
    }

    pub fn by_name(&self, name: &str) -> Option<&Link> {
        self.iter().find(|link| link.name == name)
    }

    /// The device's name, or `if7` for one that is not (or no longer) there.
    pub fn name(&self, index: u32) -> String {
        self.by_index(index).map_or_else(|| format!("if{index}"), |link| link.name.clone())
    }

    /// The logical NIC of a device: a bond or team member and a VF count as their master; a bridge port and a
    /// VRF member stay themselves, for they have addresses or neighbours of their own.
    pub fn logical_nic(&self, index: u32) -> u32 {
        let mut nic = index;
        // A chain of masters is short; the bound only guards against a listing torn by a change.
        for _ in 0..8 {
            match self.by_index(nic).and_then(|link| self.owner(link)) {
                Some(owner) => nic = owner,
                None => break,
            }
        }
        nic
    }

    fn owner(&self, link: &Link) -> Option<u32> {
        let master = self.by_index(link.master?)?;
        let member = match master.kind.as_deref() {
            Some("bond" | "team") => true,
            // A VF under its synthetic NIC: netvsc sets IFF_SLAVE (drivers/net/hyperv/netvsc_drv.c), virtio's
            // net_failover does not, but both share the MAC.
            None => link.slave || (link.mac.is_some() && link.mac == master.mac),
            Some(_) => false,
        };
        member.then_some(master.index)
    }

    /// The VRF device that a NIC is a port of.
    pub fn vrf(&self, nic: u32) -> Option<u32> {
        let master = self.by_index(self.by_index(nic)?.master?)?;
        master.is_kind("vrf").then_some(master.index)
    }

    /// Devices other than the NIC itself whose packets count as this NIC's.
    pub fn members(&self, nic: u32) -> Vec<&Link> {
        self.iter().filter(|link| link.index != nic && self.logical_nic(link.index) == nic).collect()
    }

    /// The NICs watched unless told otherwise: the logical NICs of everything with hardware behind it. Where
    /// there is no hardware (a network namespace, a container) a veth that is nobody's bridge port stands in.
    pub fn physical(&self) -> Vec<&Link> {
        let mut nics: Vec<u32> =
            self.iter().filter(|link| link.is_hardware()).map(|link| link.index).collect();
        if nics.is_empty() {
            let is_port = |link: &Link| {
                link.master
                    .and_then(|master| self.by_index(master))
                    .is_some_and(|master| master.is_kind("bridge") || master.is_kind("openvswitch"))
            };
            nics = self
                .iter()
                .filter(|link| link.is_kind("veth") && !is_port(link))
                .map(|link| link.index)
                .collect();
        }
        let mut nics: Vec<u32> = nics.into_iter().map(|index| self.logical_nic(index)).collect();
        nics.sort_unstable();
        nics.dedup();
        nics.into_iter().filter_map(|index| self.by_index(index)).collect()
    }

    /// Whether packets routed to `upper` are sent by `nic`: `upper` is a member of it, or a VLAN or macvlan
    /// on top of it.
    pub fn carried_by(&self, upper: u32, nic: u32) -> bool {
        let mut device = upper;
        for _ in 0..8 {
            device = self.logical_nic(device);
            if device == nic {
                return true;
            }
            let Some(link) = self.by_index(device) else { return false };
            match (link.kind.as_deref(), link.lower) {
                (Some("vlan" | "macvlan" | "ipvlan"), Some(lower)) => device = lower,
                _ => return false,
            }
        }
        false
    }
}

impl<'a> IntoIterator for &'a Links {
    type Item = &'a Link;
    type IntoIter = std::slice::Iter<'a, Link>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Every device of the connection's namespace.
pub(super) async fn read(netlink: &Netlink, drivers: &Drivers) -> Result<Links, String> {
    let messages = collect(netlink.handle.link().get().execute()).await.map_err(|error| error.to_string())?;
    Ok(Links(
        messages
            .iter()
            .map(|message| {
                let mut link = from_message(message);
                link.driver = drivers.of(&link.name);
                link
            })
            .collect(),
    ))
}

fn from_message(message: &LinkMessage) -> Link {
    let flags = message.header.flags;
    let mut link = Link {
        index: message.header.index,
        name: String::new(),
        mac: None,
        up: flags.contains(LinkFlags::Up),
        running: flags.contains(LinkFlags::Running),
        loopback: flags.contains(LinkFlags::Loopback),
        slave: flags.contains(LinkFlags::Port),
        mtu: 0,
        layer2: Layer2::from_arphrd(u16::from(message.header.link_layer_type)),
        master: None,
        lower: None,
        kind: None,
        vrf_table: None,
        driver: None,
        parent: None,
        xdp: None,
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Address(bytes) if link.layer2 == Layer2::Ethernet && !link.loopback => {
                link.mac = bytes.as_slice().try_into().ok();
            }
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::Controller(master) => link.master = Some(*master).filter(|index| *index != 0),
            LinkAttribute::Link(lower) => link.lower = Some(*lower).filter(|index| *index != 0),
            LinkAttribute::ParentDevName(parent) => link.parent = Some(parent.clone()),
            LinkAttribute::LinkInfo(infos) => {
                for info in infos {
                    match info {
                        LinkInfo::Kind(kind) => link.kind = Some(kind.to_string()),
                        LinkInfo::Data(InfoData::Vrf(data)) => {
                            link.vrf_table = data.iter().find_map(|entry| match entry {
                                InfoVrf::TableId(table) => Some(*table),
                                _ => None,
                            });
                        }
                        _ => {}
                    }
                }
            }
            LinkAttribute::Xdp(xdp) => link.xdp = attached_xdp(xdp),
            _ => {}
        }
    }
    link
}

fn attached_xdp(attributes: &[LinkXdp]) -> Option<AttachedXdp> {
    let mode = attributes.iter().find_map(|attribute| match attribute {
        LinkXdp::Attached(XdpAttached::Driver) => Some(XdpMode::Native),
        LinkXdp::Attached(XdpAttached::SocketBuffer) => Some(XdpMode::Generic),
        LinkXdp::Attached(XdpAttached::Hardware) => Some(XdpMode::Offloaded),
        LinkXdp::Attached(XdpAttached::Multiple) => Some(XdpMode::Several),
        _ => None,
    })?;
    let program = attributes.iter().find_map(|attribute| match attribute {
        LinkXdp::ProgId(id) => Some(*id),
        _ => None,
    });
    Some(AttachedXdp { mode, program })
}

#[cfg(test)]
#[path = "links_tests.rs"]
mod tests;
