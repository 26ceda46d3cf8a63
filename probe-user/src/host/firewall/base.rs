//! Where chains stand on a packet's way.

use std::fmt;

/// Who filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// nftables, and iptables on top of it.
    Nft,
    /// The old iptables of the kernel, with a rule list of its own.
    Legacy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Ip,
    Ip6,
    /// IPv4 and IPv6.
    Inet,
    /// One device, all protocols.
    Netdev,
    Bridge,
    Arp,
}

impl Family {
    pub(super) fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "ip" => Self::Ip,
            "ip6" => Self::Ip6,
            "inet" => Self::Inet,
            "netdev" => Self::Netdev,
            "bridge" => Self::Bridge,
            "arp" => Self::Arp,
            _ => return None,
        })
    }

    pub const fn word(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Ip6 => "ip6",
            Self::Inet => "inet",
            Self::Netdev => "netdev",
            Self::Bridge => "bridge",
            Self::Arp => "arp",
        }
    }

    /// Whether routed packets of this IP version come by.
    pub(super) const fn sees(self, v4: bool) -> bool {
        match self {
            Self::Ip => v4,
            Self::Ip6 => !v4,
            Self::Inet | Self::Netdev => true,
            Self::Bridge | Self::Arp => false,
        }
    }
}

/// The places on a packet's way through the stack, in the order that it passes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hook {
    Ingress,
    Prerouting,
    Input,
    Forward,
    Output,
    Postrouting,
    Egress,
}

impl Hook {
    pub(super) fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "ingress" => Self::Ingress,
            "prerouting" | "PREROUTING" => Self::Prerouting,
            "input" | "INPUT" => Self::Input,
            "forward" | "FORWARD" => Self::Forward,
            "output" | "OUTPUT" => Self::Output,
            "postrouting" | "POSTROUTING" => Self::Postrouting,
            "egress" => Self::Egress,
            _ => return None,
        })
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ingress => "ingress",
            Self::Prerouting => "prerouting",
            Self::Input => "input",
            Self::Forward => "forward",
            Self::Output => "output",
            Self::Postrouting => "postrouting",
            Self::Egress => "egress",
        })
    }
}

/// What makes a chain a base chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// `filter`, `nat` or `route`.
    pub kind: String,
    pub hook: Hook,
    /// The lowest comes first.
    pub priority: i32,
    /// What happens to a packet at the end of the chain.
    pub drops: bool,
    /// What the policy has met (legacy iptables only).
    pub counter: Option<super::Counter>,
    /// The devices that it is bound to; empty for those that see every device, `None` when the tool does not tell.
    pub devices: Option<Vec<String>>,
    /// False for a table that is switched off (`flags dormant`); `None` when the tool does not tell.
    pub active: Option<bool>,
}

/// Where conntrack stands (linux/netfilter_ipv4.h, `NF_IP_PRI_CONNTRACK`): chains before it see no state.
pub(super) const CONNTRACK: i32 = -200;
