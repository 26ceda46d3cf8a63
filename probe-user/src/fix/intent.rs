//! Every kind of fix, before it is put into words.

use std::net::IpAddr;

use ipnet::IpNet;

use super::PolicyFix;
use crate::host::routes::Route;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intent {
    /// A policy route for replies that leave by the wrong NIC.
    Policy(PolicyFix),
    /// A kernel setting. With a device, a key such as `net.ipv4.conf.all.rp_filter` is set for `all` and for the device:
    /// for such keys the kernel combines both (Documentation/networking/ip-sysctl.rst).
    Sysctl { key: String, value: String, device: Option<String> },
    /// A firewall rule that accepts the probe or its reply before the rule that drops it.
    FirewallRule(Accept),
    /// A listener where the probe goes.
    Listen(Listen),
    /// A longer queue of connections that wait to be accepted.
    Backlog {
        port: u16,
        /// What the listener asked for; the kernel took the smaller of it and `somaxconn`.
        backlog: Option<u32>,
        /// `net.core.somaxconn` now.
        somaxconn: Option<u32>,
        process: Option<String>,
    },
    /// The Azure guest agent's own rules about its host are in the way.
    AgentFirewall { chain: Chain },
    /// A leftover route is in the way.
    RemoveRoute(Route),
}

/// Which firewall, and how it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    Nft,
    Iptables,
    Ip6tables,
}

/// A chain, and a place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    pub tool: Tool,
    /// nftables: `inet`, `ip`, …; empty for iptables.
    pub family: String,
    pub table: String,
    pub chain: String,
    /// nftables: handle of the dropping rule. iptables: its number. `None` when the chain's policy drops.
    pub rule: Option<u64>,
}

/// Where the packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// The probe, on its way in.
    Input,
    /// The reply, on its way out.
    Output,
    /// The reply of a machine behind this one.
    Forward,
}

/// A rule that accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accept {
    pub chain: Chain,
    pub hook: Hook,
    /// The NIC of the probe; `None` for a reply that leaves by another.
    pub nic: Option<String>,
    pub source: IpNet,
    /// The probed port; of the machine behind for [`Hook::Forward`].
    pub port: u16,
}

/// A listener that the probe does not reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    pub nic: String,
    /// The address probed.
    pub address: IpAddr,
    pub port: u16,
    /// What the listener is bound to, if there is one: `10.4.2.101:8008`, `eth0`.
    pub bound: Vec<String>,
    pub process: Option<String>,
}
