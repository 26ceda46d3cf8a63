//! The two-armed appliance (T2 of the scenarios), with any number of arms.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    thread,
    time::{Duration, Instant},
};

use ipnet::IpNet;

use super::{
    Error, Result,
    backend::Backend,
    fabric::{Answers, Config, Fabric},
    listener::{Deaf, Listener, Serve},
    netlink::End,
    netns::Namespace,
    route::{Route, Rule},
    sysctl,
    wire::{FABRIC_MAC, Mac, PROBE_V4, PROBE_V6},
};

/// Name of the fabric's end of each veth.
const FABRIC_DEVICE: &str = "fabric";
/// Tables of the policy routing, by NIC.
pub const FIRST_TABLE: u32 = 201;

/// What to build.
#[derive(Clone, Debug)]
pub struct Plan {
    pub nics: usize,
    /// Every NIC in 10.4.2.0/24 (S07).
    pub same_subnet: bool,
    pub ipv6: bool,
    /// `net.ipv4.conf.all` and of each NIC.
    pub rp_filter: u8,
    /// What each fabric claims by ARP and ND.
    pub answers: Answers,
    /// Fabrics answer the VM's own requests to 168.63.129.16.
    pub platform: bool,
    /// A workload behind one more device, and the appliance forwards (TB).
    pub backend: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            nics: 2,
            same_subnet: false,
            ipv6: false,
            rp_filter: 0,
            answers: Answers::Everything,
            platform: false,
            backend: false,
        }
    }
}

/// One arm of the appliance.
#[derive(Clone, Debug)]
pub struct Nic {
    pub name: String,
    pub mac: Mac,
    pub address: Ipv4Addr,
    pub gateway: Ipv4Addr,
    pub address6: Option<Ipv6Addr>,
}

/// The running topology. Dropping it removes everything.
pub struct Topology {
    // Fabrics stop before their namespaces go.
    pub fabrics: Vec<Fabric>,
    pub nva: Namespace,
    /// The NICs that are probed: the device towards the workload is none of them.
    pub nics: Vec<Nic>,
    pub backend: Option<Backend>,
}

impl Topology {
    /// Two NICs in two subnets, no route to the probe source yet.
    pub fn two_armed() -> Result<Self> {
        Self::build(&Plan::default())
    }

    pub fn build(plan: &Plan) -> Result<Self> {
        let nva = Namespace::new("nva")?;
        prepare(&nva, plan)?;
        let nics: Vec<Nic> = (0..plan.nics).map(|index| nic(index, plan)).collect();
        let mut fabrics = Vec::new();
        for (index, nic) in nics.iter().enumerate() {
            let fabric = Namespace::new(format!("fab{index}"))?;
            sysctl::set_all(&fabric, &[("ipv6/conf/default/disable_ipv6", "1")])?;
            let near = End { name: nic.name.clone(), mac: nic.mac, mtu: 1500 };
            let far = End { name: FABRIC_DEVICE.to_owned(), mac: FABRIC_MAC, mtu: 1500 };
            nva.netlink(|netlink| netlink.veth(&near, &far, &fabric))?;
            fabric.netlink(|netlink| netlink.up(FABRIC_DEVICE))?;
            let rp_filter = plan.rp_filter.to_string();
            sysctl::set(&nva, &format!("ipv4/conf/{}/rp_filter", nic.name), &rp_filter)?;
            nva.netlink(|netlink| {
                netlink.up(&nic.name)?;
                netlink.address_add(&nic.name, net(IpAddr::V4(nic.address), 24))?;
                if let Some(address) = nic.address6 {
                    netlink.address_add(&nic.name, net(IpAddr::V6(address), 64))?;
                    let metric = 100 * (index as u32 + 1);
                    let default = Route::to(net(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0));
                    netlink.route_add(&default.via(PROBE_V6).dev(&nic.name).metric(metric).protocol(9))?;
                }
                Ok(())
            })?;
            let own = [Some(IpAddr::V4(nic.address)), nic.address6.map(IpAddr::V6)];
            let config = Config {
                nic_mac: nic.mac,
                own: own.into_iter().flatten().collect(),
                answers: plan.answers.clone(),
                platform: plan.platform,
            };
            fabrics.push(Fabric::start(&fabric, FABRIC_DEVICE, config)?);
        }
        let name = format!("eth{}", plan.nics);
        let backend = plan.backend.then(|| Backend::start(&nva, &name, plan.ipv6)).transpose()?;
        settle(&nva, &nics)?;
        Ok(Self { fabrics, nva, nics, backend })
    }

    /// The probe source's /32 out of `nic` by its gateway: what Azure's DHCP gives the primary NIC.
    pub fn probe_route(&self, nic: usize) -> Route {
        let nic = &self.nics[nic];
        Route::to(source()).via(nic.gateway).dev(&nic.name)
    }

    /// A default route out of `nic`.
    pub fn default_route(&self, nic: usize) -> Route {
        let nic = &self.nics[nic];
        Route::to(net(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0)).via(nic.gateway).dev(&nic.name)
    }

    /// PRI of the scenarios: the host route on the first NIC.
    pub fn primary_route(&self) -> Result<()> {
        self.route(&self.probe_route(0))
    }

    pub fn route(&self, route: &Route) -> Result<()> {
        self.nva.netlink(|netlink| netlink.route_replace(route))
    }

    /// The rule of S09 for one NIC: from its address to the source, its own table.
    pub fn policy_rule(&self, nic: usize) -> Rule {
        Rule {
            from: Some(net(IpAddr::V4(self.nics[nic].address), 32)),
            to: Some(source()),
            priority: Some(100 + nic as u32),
            table: FIRST_TABLE + nic as u32,
            ..Rule::default()
        }
    }

    /// Policy routing done right (S09) for one NIC.
    pub fn policy_routing(&self, nic: usize) -> Result<()> {
        let route = self.probe_route(nic).table(FIRST_TABLE + nic as u32);
        let rule = self.policy_rule(nic);
        self.nva.netlink(|netlink| {
            netlink.route_replace(&route)?;
            netlink.rule_add(&rule)
        })
    }

    /// `address:port` of a NIC.
    pub fn target(&self, nic: usize, port: u16) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(self.nics[nic].address), port)
    }

    /// The same for IPv6, where the plan has it.
    pub fn target6(&self, nic: usize, port: u16) -> Option<SocketAddr> {
        self.nics[nic].address6.map(|address| SocketAddr::new(IpAddr::V6(address), port))
    }

    /// A service on one address of a NIC only.
    pub fn listen_at(&self, nic: usize, port: u16, serve: Serve) -> Result<Listener> {
        Listener::start(&self.nva, self.target(nic, port), None, serve)
    }

    /// A service on every address, bound to the NIC's device (`SO_BINDTODEVICE`).
    pub fn listen_by(&self, nic: usize, port: u16, serve: Serve) -> Result<Listener> {
        let anywhere = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port);
        Listener::start(&self.nva, anywhere, Some(&self.nics[nic].name), serve)
    }

    /// A service that accepts nobody, on a NIC's address.
    pub fn deaf(&self, nic: usize, port: u16, backlog: u16) -> Result<Deaf> {
        Deaf::start(&self.nva, self.target(nic, port), backlog)
    }

    /// A service on every address.
    pub fn listen(&self, port: u16, serve: Serve) -> Result<Listener> {
        Listener::start(&self.nva, SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port), None, serve)
    }
}

fn prepare(nva: &Namespace, plan: &Plan) -> Result<()> {
    let rp_filter = plan.rp_filter.to_string();
    let forwards = if plan.backend { "1" } else { "0" };
    sysctl::set_all(
        nva,
        &[
            ("ipv4/conf/all/rp_filter", rp_filter.as_str()),
            ("ipv4/conf/default/rp_filter", rp_filter.as_str()),
            ("ipv4/ip_forward", forwards),
            ("ipv6/conf/all/forwarding", forwards),
            // An ICMP error a second and peer would do for Azure's intervals, not for those of tests (net/ipv4/icmp.c).
            ("ipv4/icmp_ratelimit", "0"),
            ("ipv6/icmp/ratelimit", "0"),
            // A closed socket whose FIN nobody acknowledges keeps its namespace alive until it gives up: soon.
            ("ipv4/tcp_orphan_retries", "1"),
            // Addresses are usable at once, and only what the plan says is configured.
            ("ipv6/conf/default/accept_dad", "0"),
            ("ipv6/conf/default/dad_transmits", "0"),
            ("ipv6/conf/default/accept_ra", "0"),
            ("ipv6/conf/default/router_solicitations", "0"),
        ],
    )
}

/// Waits until the kernel has noticed every carrier: it does so later (net/core/link_watch.c), and then gives the NIC its
/// link-local address.
fn settle(nva: &Namespace, nics: &[Nic]) -> Result<()> {
    let start = Instant::now();
    loop {
        let listed = nva.run(|| fs::read_to_string("/proc/thread-self/net/if_inet6"))?;
        let listed = listed.map_err(|e| Error::system("read /proc/net/if_inet6", e))?;
        let has_link_local = |nic: &Nic| {
            listed.lines().any(|line| line.starts_with("fe80") && line.ends_with(&format!(" {}", nic.name)))
        };
        if nics.iter().all(has_link_local) {
            return Ok(());
        }
        if start.elapsed() > Duration::from_secs(5) {
            return Err(Error::Invalid("the NICs did not come up within 5 s".to_owned()));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn nic(index: usize, plan: &Plan) -> Nic {
    let subnet = if plan.same_subnet { 2 } else { 2 + index as u8 };
    let host = if plan.same_subnet { 101 + index as u8 } else { 101 };
    Nic {
        name: format!("eth{index}"),
        mac: [0x00, 0x0d, 0x3a, 0, 0, index as u8 + 1],
        address: Ipv4Addr::new(10, 4, subnet, host),
        gateway: Ipv4Addr::new(10, 4, subnet, 1),
        address6: plan.ipv6.then(|| Ipv6Addr::new(0xfd00, 4, 2 + index as u16, 0, 0, 0, 0, 0x101)),
    }
}

/// The probe source as a prefix.
pub fn source() -> IpNet {
    IpNet::from(IpAddr::V4(PROBE_V4))
}

fn net(address: IpAddr, length: u8) -> IpNet {
    // Lengths are constants of this file, each within its family's.
    IpNet::new_assert(address, length)
}
