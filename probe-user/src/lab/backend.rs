//! A workload behind the appliance (TB of the scenarios): what probes are translated or proxied to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;

use super::{
    Result,
    listener::{Listener, Serve},
    netlink::End,
    netns::Namespace,
    route::Route,
    sysctl,
    wire::Mac,
};

const DEVICE: &str = "eth0";
const NEAR_MAC: Mac = [0x00, 0x0d, 0x3a, 9, 0, 1];
const FAR_MAC: Mac = [0x00, 0x0d, 0x3a, 9, 0, 10];
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 10);
const NEAR6: Ipv6Addr = Ipv6Addr::new(0xfd00, 9, 0, 0, 0, 0, 0, 1);
const FAR6: Ipv6Addr = Ipv6Addr::new(0xfd00, 9, 0, 0, 0, 0, 0, 0x10);

/// The namespace of the workload: 10.9.0.10/24 (and fd00:9::10/64), default route by the appliance.
pub struct Backend {
    pub namespace: Namespace,
    pub address: Ipv4Addr,
    pub address6: Option<Ipv6Addr>,
    /// The appliance's device towards it.
    pub nic: String,
}

impl Backend {
    /// Starts behind a new device `nic` of the appliance, 10.9.0.1/24 (and fd00:9::1/64).
    pub(super) fn start(nva: &Namespace, nic: &str, ipv6: bool) -> Result<Self> {
        let namespace = Namespace::new("be")?;
        sysctl::set_all(
            &namespace,
            &[
                ("ipv4/conf/all/rp_filter", "0"),
                ("ipv4/conf/default/rp_filter", "0"),
                ("ipv4/tcp_orphan_retries", "1"),
                ("ipv6/conf/default/accept_dad", "0"),
                ("ipv6/conf/default/accept_ra", "0"),
                ("ipv6/conf/default/router_solicitations", "0"),
            ],
        )?;
        let near = End { name: nic.to_owned(), mac: NEAR_MAC, mtu: 1500 };
        let far = End { name: DEVICE.to_owned(), mac: FAR_MAC, mtu: 1500 };
        nva.netlink(|netlink| netlink.veth(&near, &far, &namespace))?;
        for (end, device, v4, v6) in [(nva, nic, NEAR, NEAR6), (&namespace, DEVICE, FAR, FAR6)] {
            end.netlink(|netlink| {
                netlink.up(device)?;
                netlink.address_add(device, net(v4, 24))?;
                if ipv6 { netlink.address_add(device, net(v6, 64)) } else { Ok(()) }
            })?;
        }
        namespace.netlink(|netlink| {
            netlink.route_add(&Route::to(net(Ipv4Addr::UNSPECIFIED, 0)).via(NEAR).dev(DEVICE))?;
            if !ipv6 {
                return Ok(());
            }
            netlink.route_add(&Route::to(net(Ipv6Addr::UNSPECIFIED, 0)).via(NEAR6).dev(DEVICE))
        })?;
        Ok(Self { namespace, address: FAR, address6: ipv6.then_some(FAR6), nic: nic.to_owned() })
    }

    /// A service of the workload, on every address.
    pub fn listen(&self, port: u16, serve: Serve) -> Result<Listener> {
        let anywhere = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port);
        Listener::start(&self.namespace, anywhere, None, serve)
    }
}

fn net(address: impl Into<IpAddr>, length: u8) -> IpNet {
    // Lengths are constants of this file, each within its family's.
    IpNet::new_assert(address.into(), length)
}
