//! The packet that is judged.

use std::net::{IpAddr, SocketAddr};

use super::base::Hook;

pub const TCP_SYN: u8 = 0x02;
pub const TCP_RST: u8 = 0x04;
pub const TCP_ACK: u8 = 0x10;

/// What conntrack makes of a packet; the values are nftables' bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CtState {
    Invalid = 1,
    Established = 2,
    Related = 4,
    New = 8,
    Untracked = 64,
}

/// A device by which a packet comes or goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    pub index: u32,
    pub name: String,
}

/// Whose socket sends the packet. For a SYN-ACK that is the listener's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    #[default]
    Unknown,
    /// Nobody's: an answer of the stack itself, such as a RST, or a packet that is forwarded.
    Nobody,
    User(u32),
}

/// One packet at one hook. What is `None` is not known, and a rule that looks at it cannot be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub hook: Hook,
    /// Counts at ingress, prerouting, input, forward and postrouting of forwarded packets.
    pub iif: Option<Device>,
    /// Counts at forward, output, postrouting and egress.
    pub oif: Option<Device>,
    pub from: IpAddr,
    pub to: IpAddr,
    /// IP protocol: 6 is TCP.
    pub protocol: u8,
    pub from_port: u16,
    pub to_port: u16,
    pub ct_state: Option<CtState>,
    pub mark: Option<u32>,
    pub ct_mark: Option<u32>,
    pub tcp_flags: Option<u8>,
    pub owner: Owner,
    /// Whether `to` is an address of this host's own.
    pub to_local: Option<bool>,
    /// Whether it is forwarded: only then it has an input device at postrouting.
    pub forwarded: bool,
}

impl Packet {
    /// A SYN that comes in by a device and begins a connection to this host.
    pub fn syn(hook: Hook, iif: Device, from: SocketAddr, to: SocketAddr) -> Self {
        Self {
            hook,
            iif: Some(iif),
            oif: None,
            from: from.ip(),
            to: to.ip(),
            protocol: 6,
            from_port: from.port(),
            to_port: to.port(),
            ct_state: Some(CtState::New),
            mark: None,
            ct_mark: None,
            tcp_flags: Some(TCP_SYN),
            owner: Owner::Nobody,
            to_local: None,
            forwarded: false,
        }
    }

    /// The SYN-ACK with which this host answers, at output or postrouting, by the device that the route names.
    pub fn syn_ack(hook: Hook, oif: Device, from: SocketAddr, to: SocketAddr) -> Self {
        Self {
            iif: None,
            oif: Some(oif.clone()),
            ct_state: Some(CtState::Established),
            tcp_flags: Some(TCP_SYN | TCP_ACK),
            owner: Owner::Unknown,
            to_local: Some(false),
            ..Self::syn(hook, oif, from, to)
        }
    }

    /// The SYN-ACK that answers this SYN, once it has come through (see [`passing`](super::passing)): conntrack knows it
    /// only if it has seen the SYN (net/netfilter/nf_conntrack_proto_tcp.c, `tcp_new`).
    #[must_use]
    pub fn answer(&self, hook: Hook, oif: Device) -> Self {
        let from = SocketAddr::new(self.to, self.to_port);
        let to = SocketAddr::new(self.from, self.from_port);
        let ct_state = self.ct_state.map(|state| match state {
            CtState::Untracked | CtState::Invalid => CtState::Invalid,
            CtState::New | CtState::Related | CtState::Established => CtState::Established,
        });
        Self { ct_state, ct_mark: self.ct_mark, ..Self::syn_ack(hook, oif, from, to) }
    }

    /// The input device at this hook: `None` when it is not known, an empty name when there is none.
    pub(super) fn device_in(&self) -> Option<(u32, &str)> {
        match self.hook {
            Hook::Output | Hook::Egress => Some((0, "")),
            Hook::Postrouting if !self.forwarded => Some((0, "")),
            _ => self.iif.as_ref().map(|device| (device.index, device.name.as_str())),
        }
    }

    /// The output device at this hook.
    pub(super) fn device_out(&self) -> Option<(u32, &str)> {
        match self.hook {
            Hook::Ingress | Hook::Prerouting | Hook::Input => Some((0, "")),
            _ => self.oif.as_ref().map(|device| (device.index, device.name.as_str())),
        }
    }
}
