//! IPsec policies: what the kernel encrypts, requires encrypted, or blocks.
//!
//! Layouts are those of linux/xfrm.h on 64-bit machines.

use std::{
    fmt::Write as _,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::IpNet;
use rtnetlink::sys::protocols::NETLINK_XFRM;

use super::{
    dump::{attributes, bytes_at, dump},
    links::Links,
    netlink::Failure,
    routes::net_text,
};

const XFRM_MSG_NEWPOLICY: u16 = 0x13;
const XFRM_MSG_GETPOLICY: u16 = 0x15;
const XFRMA_TMPL: u16 = 5;
const XFRMA_MARK: u16 = 21;
const XFRMA_IF_ID: u16 = 31;
/// Bytes of `xfrm_userpolicy_id`, `xfrm_userpolicy_info` and `xfrm_user_tmpl`.
const POLICY_ID: usize = 64;
const POLICY_INFO: usize = 168;
const TEMPLATE: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    In,
    Out,
    Forward,
    /// Set by a program for one socket of its own.
    Socket,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Transport,
    Tunnel,
    Other(u8),
}

/// What is done to a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// IP protocol: 50 ESP, 51 AH, 108 IPComp.
    pub protocol: u8,
    pub mode: Mode,
    /// Ends of the tunnel; unspecified in transport mode.
    pub from: IpAddr,
    pub to: IpAddr,
    pub reqid: u32,
    pub optional: bool,
}

/// A port and the bits of it that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Port {
    pub value: u16,
    pub mask: u16,
}

impl Port {
    const fn covers(self, port: u16) -> bool {
        port & self.mask == self.value & self.mask
    }
}

/// One policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub direction: Direction,
    /// Packets are thrown away; else they pass, through the templates if there are any.
    pub block: bool,
    /// The lowest is asked first.
    pub priority: u32,
    pub index: u32,
    pub from: IpNet,
    pub to: IpNet,
    /// IP protocol; 0 is every one.
    pub protocol: u8,
    pub from_port: Port,
    pub to_port: Port,
    /// ifindex of the device that it is limited to.
    pub device: Option<u32>,
    /// Value and mask of the packet's mark.
    pub mark: (u32, u32),
    /// It holds for traffic of the xfrm interface with this id only.
    pub interface_id: Option<u32>,
    pub templates: Vec<Template>,
}

/// A packet, as policies see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    pub from: IpAddr,
    pub to: IpAddr,
    pub protocol: u8,
    pub from_port: u16,
    pub to_port: u16,
    /// The device that it leaves by, when that is known.
    pub device: Option<u32>,
    pub mark: u32,
}

impl Policy {
    /// Whether it selects the packet (net/xfrm/xfrm_policy.c, `xfrm_policy_match`).
    pub fn covers(&self, flow: &Flow) -> bool {
        self.from.contains(&flow.from)
            && self.to.contains(&flow.to)
            && (self.protocol == 0 || self.protocol == flow.protocol)
            && self.from_port.covers(flow.from_port)
            && self.to_port.covers(flow.to_port)
            && self.device.is_none_or(|device| flow.device.is_none_or(|leaves| leaves == device))
            && flow.mark & self.mark.1 == self.mark.0
            && self.interface_id.is_none()
    }

    /// Whether a packet that it selects does not leave as it is.
    pub fn captures(&self) -> bool {
        self.block || !self.templates.is_empty()
    }

    /// The policy in the words of `ip xfrm policy`.
    pub fn text(&self, links: &Links) -> String {
        let direction = match self.direction {
            Direction::In => "in",
            Direction::Out => "out",
            Direction::Forward => "fwd",
            Direction::Socket => "socket",
        };
        let mut text = format!("src {} dst {}", net_text(&self.from), net_text(&self.to));
        if self.protocol != 0 {
            let _ = write!(text, " proto {}", protocol_name(self.protocol));
        }
        for (word, port) in [("sport", self.from_port), ("dport", self.to_port)] {
            if port.mask != 0 {
                let _ = write!(text, " {word} {}", port.value);
            }
        }
        if let Some(device) = self.device {
            let _ = write!(text, " dev {}", links.name(device));
        }
        let _ = write!(text, " dir {direction}{}", if self.block { " action block" } else { "" });
        if self.priority != 0 {
            let _ = write!(text, " priority {}", self.priority);
        }
        if self.mark != (0, 0) {
            let _ = write!(text, " mark {:#x}/{:#x}", self.mark.0, self.mark.1);
        }
        for template in &self.templates {
            if template.mode == Mode::Tunnel {
                let _ = write!(text, " tmpl src {} dst {}", template.from, template.to);
            } else {
                text += " tmpl";
            }
            let mode = match template.mode {
                Mode::Transport => "transport".to_owned(),
                Mode::Tunnel => "tunnel".to_owned(),
                Mode::Other(mode) => mode.to_string(),
            };
            let _ = write!(text, " proto {} mode {mode}", protocol_name(template.protocol));
        }
        text
    }
}

/// The policy that decides about a packet: of those that select it, the one with the lowest priority, then the oldest.
pub fn deciding<'a>(policies: &'a [Policy], direction: Direction, flow: &Flow) -> Option<&'a Policy> {
    policies
        .iter()
        .filter(|policy| policy.direction == direction && policy.covers(flow))
        .min_by_key(|policy| policy.priority)
}

fn protocol_name(protocol: u8) -> String {
    match protocol {
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        50 => "esp".to_owned(),
        51 => "ah".to_owned(),
        108 => "comp".to_owned(),
        other => other.to_string(),
    }
}

/// Every policy of the calling thread's network namespace.
pub(super) fn read() -> Result<Vec<Policy>, String> {
    match dump(NETLINK_XFRM, XFRM_MSG_GETPOLICY, &[0; POLICY_ID]) {
        Ok(messages) => Ok(messages
            .iter()
            .filter(|message| message.kind == XFRM_MSG_NEWPOLICY)
            .filter_map(|message| from_payload(&message.payload))
            .collect()),
        // A kernel without IPsec has no policies.
        Err(Failure::Errno(libc::EPROTONOSUPPORT)) => Ok(Vec::new()),
        Err(failure) => Err(format!("cannot list the xfrm policies: {failure}")),
    }
}

/// One `xfrm_userpolicy_info` with its attributes; `None` for what is cut short or no IP.
fn from_payload(payload: &[u8]) -> Option<Policy> {
    let u8_at = |offset: usize| payload.get(offset).copied();
    let u32_at = |offset| bytes_at(payload, offset).map(u32::from_ne_bytes);
    let port_at = |offset| {
        Some(Port {
            value: bytes_at(payload, offset).map(u16::from_be_bytes)?,
            mask: bytes_at(payload, offset + 2).map(u16::from_be_bytes)?,
        })
    };
    let family = u16::from_ne_bytes(bytes_at(payload, 40)?);
    let net = |address, length| IpNet::new(address_at(payload, address, family)?, u8_at(length)?).ok();
    let mut policy = Policy {
        to: net(0, 42)?,
        from: net(16, 43)?,
        to_port: port_at(32)?,
        from_port: port_at(36)?,
        protocol: u8_at(44)?,
        device: u32_at(48).filter(|device| *device != 0),
        priority: u32_at(152)?,
        index: u32_at(156)?,
        direction: match u8_at(160)? {
            0 => Direction::In,
            1 => Direction::Out,
            2 => Direction::Forward,
            _ => Direction::Socket,
        },
        block: u8_at(161)? == 1,
        mark: (0, 0),
        interface_id: None,
        templates: Vec::new(),
    };
    for (kind, value) in attributes(payload.get(POLICY_INFO..)?) {
        match kind {
            XFRMA_TMPL => {
                let (templates, _) = value.as_chunks::<TEMPLATE>();
                policy.templates.extend(templates.iter().filter_map(|bytes| template(bytes)));
            }
            XFRMA_MARK => {
                let value_and_mask = (bytes_at(value, 0)?, bytes_at(value, 4)?);
                policy.mark = (u32::from_ne_bytes(value_and_mask.0), u32::from_ne_bytes(value_and_mask.1));
            }
            XFRMA_IF_ID => {
                policy.interface_id = bytes_at(value, 0).map(u32::from_ne_bytes).filter(|id| *id != 0);
            }
            _ => {}
        }
    }
    Some(policy)
}

fn template(bytes: &[u8]) -> Option<Template> {
    let family = u16::from_ne_bytes(bytes_at(bytes, 24)?);
    Some(Template {
        to: address_at(bytes, 0, family)?,
        protocol: *bytes.get(20)?,
        from: address_at(bytes, 28, family)?,
        reqid: u32::from_ne_bytes(bytes_at(bytes, 44)?),
        mode: match bytes.get(48)? {
            0 => Mode::Transport,
            1 => Mode::Tunnel,
            other => Mode::Other(*other),
        },
        optional: *bytes.get(50)? != 0,
    })
}

fn address_at(bytes: &[u8], offset: usize, family: u16) -> Option<IpAddr> {
    match i32::from(family) {
        libc::AF_INET => Some(Ipv4Addr::from(bytes_at::<4>(bytes, offset)?).into()),
        libc::AF_INET6 => Some(Ipv6Addr::from(bytes_at::<16>(bytes, offset)?).into()),
        _ => None,
    }
}

#[cfg(test)]
#[path = "xfrm_tests.rs"]
mod tests;
