//! Network devices, and which logical NIC each belongs to.

use futures_util::TryStreamExt;
use rtnetlink::packet_route::link::{
    InfoKind, InfoPortKind, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage, LinkXdp,
};

use super::{
    driver::{self, Driver},
    netlink::{Netlink, NetlinkError, within},
};

/// What a device puts in front of the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    Ethernet,
    /// Nothing: tun, ipip, wireguard, …
    Raw,
    /// Something that the parser does not know.
    Other,
}

/// One network device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub ifindex: u32,
    pub name: String,
    pub mac: Option<[u8; 6]>,
    pub up: bool,
    pub loopback: bool,
    pub mtu: u32,
    pub header: Header,
    /// ifindex of the master device.
    pub master: Option<u32>,
    /// Kind of a software device, as `ip -d link` calls it.
    pub kind: Option<String>,
    /// What the device is to its master: `bridge`, `bond`, `vrf`, …
    pub port_kind: Option<String>,
    pub driver: Option<Driver>,
    /// Id of an XDP program that is attached.
    pub xdp: Option<u32>,
}

impl Link {
    /// Whether this is a NIC by itself: hardware, or what stands in for it in a namespace (veth, macvlan, ipvlan).
    pub fn is_physical(&self) -> bool {
        if self.loopback || self.header != Header::Ethernet {
            return false;
        }
        match self.kind.as_deref() {
            None => true,
            Some(kind) => matches!(kind, "veth" | "macvlan" | "ipvlan" | "netkit"),
        }
    }

    /// Whether a default run judges it: a NIC that is not part of another one. A bond is the NIC of its members.
    fn is_judged_by_default(&self, links: &[Self]) -> bool {
        let whole = nic(self.ifindex, links) == self.ifindex;
        let bond = matches!(self.kind.as_deref(), Some("bond" | "team"));
        whole && (self.is_physical() || (bond && links.iter().any(|link| link.master == Some(self.ifindex))))
    }
}

/// The logical NIC of a device: a bond or team member and a VF count as their master; a bridge port and a VRF member
/// remain themselves, because there the kernel answers for the port's own address or routes by it.
pub fn nic(ifindex: u32, links: &[Link]) -> u32 {
    let mut current = ifindex;
    // A master may have a master; more levels than this would be a loop.
    for _ in 0..4 {
        let Some(link) = links.iter().find(|link| link.ifindex == current) else { return current };
        let Some(master) = link.master.and_then(|m| links.iter().find(|link| link.ifindex == m)) else {
            return current;
        };
        let member = match master.kind.as_deref() {
            Some("bond" | "team") => true,
            // hv_netvsc enslaves its VF without a kind of its own: same MAC on both
            // (drivers/net/hyperv/netvsc_drv.c, Documentation/networking/.../netvsc.rst).
            None => master.mac.is_some() && master.mac == link.mac,
            Some(_) => false,
        };
        if !member {
            return current;
        }
        current = master.ifindex;
    }
    current
}

/// The NICs that a run judges when none is named: physical, up, and not part of another.
pub fn default_nics(links: &[Link]) -> Vec<u32> {
    links.iter().filter(|link| link.up && link.is_judged_by_default(links)).map(|link| link.ifindex).collect()
}

/// Lists the devices.
pub async fn read(netlink: &Netlink) -> Result<Vec<Link>, NetlinkError> {
    let request = netlink.handle.link().get().execute().try_collect::<Vec<_>>();
    let mut links: Vec<Link> = within("links", request).await?.iter().map(link).collect();
    for link in &mut links {
        link.driver = driver::read(&link.name);
    }
    Ok(links)
}

fn link(message: &LinkMessage) -> Link {
    let mut link = Link {
        ifindex: message.header.index,
        name: String::new(),
        mac: None,
        up: message.header.flags.contains(LinkFlags::Up),
        loopback: message.header.flags.contains(LinkFlags::Loopback),
        mtu: 0,
        header: header(message.header.link_layer_type),
        master: None,
        kind: None,
        port_kind: None,
        driver: None,
        xdp: None,
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Address(bytes) => link.mac = bytes.as_slice().try_into().ok(),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::Controller(master) if *master != 0 => link.master = Some(*master),
            LinkAttribute::LinkInfo(infos) => {
                for info in infos {
                    match info {
                        LinkInfo::Kind(kind) => link.kind = Some(kind_name(kind)),
                        LinkInfo::PortKind(kind) => link.port_kind = Some(port_kind_name(kind)),
                        _ => {}
                    }
                }
            }
            LinkAttribute::Xdp(xdp) => {
                for entry in xdp {
                    if let LinkXdp::ProgId(id) | LinkXdp::DrvProgId(id) | LinkXdp::SkbProgId(id) = entry {
                        link.xdp = Some(*id).filter(|id| *id != 0);
                    }
                }
            }
            _ => {}
        }
    }
    link
}

/// By ARPHRD type (linux/if_arp.h).
fn header(kind: LinkLayerType) -> Header {
    match kind {
        LinkLayerType::Ether | LinkLayerType::Loopback => Header::Ethernet,
        LinkLayerType::None
        | LinkLayerType::Rawip
        | LinkLayerType::Tunnel
        | LinkLayerType::Tunnel6
        | LinkLayerType::Sit
        | LinkLayerType::Ipgre
        | LinkLayerType::Ip6gre
        | LinkLayerType::Ppp => Header::Raw,
        _ => Header::Other,
    }
}

fn kind_name(kind: &InfoKind) -> String {
    kind.to_string()
}

fn port_kind_name(kind: &InfoPortKind) -> String {
    kind.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn device(ifindex: u32, name: &str) -> Link {
        Link {
            ifindex,
            name: name.to_owned(),
            mac: Some([2, 0, 0, 0, 0, ifindex as u8]),
            up: true,
            loopback: false,
            mtu: 1500,
            header: Header::Ethernet,
            master: None,
            kind: None,
            port_kind: None,
            driver: None,
            xdp: None,
        }
    }

    fn of_kind(ifindex: u32, name: &str, kind: &str) -> Link {
        Link { kind: Some(kind.to_owned()), ..device(ifindex, name) }
    }

    #[test]
    fn a_vf_and_a_bond_member_count_as_their_master() {
        let synthetic = device(2, "eth0");
        let vf = Link { master: Some(2), mac: synthetic.mac, ..device(3, "enP1") };
        let bond = of_kind(4, "bond0", "bond");
        let member = Link { master: Some(4), ..device(5, "eth1") };
        let links = [synthetic, vf, bond, member];
        assert_eq!([2, 3, 4, 5].map(|ifindex| nic(ifindex, &links)), [2, 2, 4, 4]);
        assert_eq!(default_nics(&links), [2, 4]);
    }

    #[test]
    fn bridge_ports_and_vrf_members_remain_themselves() {
        for kind in ["bridge", "vrf"] {
            let master = of_kind(2, "master", kind);
            let port = Link { master: Some(2), ..device(3, "eth0") };
            assert_eq!(nic(3, &[master, port]), 3, "{kind}");
        }
    }

    #[test]
    fn software_devices_are_not_judged_by_default() {
        let loopback = Link { loopback: true, ..device(1, "lo") };
        let down = Link { up: false, ..device(7, "eth9") };
        let tunnel = Link { header: Header::Raw, ..of_kind(6, "tun0", "tun") };
        let links = [
            loopback,
            of_kind(2, "eth0", "veth"),
            of_kind(3, "br0", "bridge"),
            of_kind(4, "vxlan0", "vxlan"),
            device(5, "ens3"),
            tunnel,
            down,
        ];
        assert_eq!(default_nics(&links), [2, 5]);
    }

    #[test]
    fn a_loop_of_masters_ends() {
        let a = Link { master: Some(3), ..of_kind(2, "a", "bond") };
        let b = Link { master: Some(2), ..of_kind(3, "b", "bond") };
        nic(2, &[a, b]);
    }
}
