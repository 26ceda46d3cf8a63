//! Policy rules.

use std::net::IpAddr;

use ipnet::IpNet;
use rtnetlink::{
    IpVersion,
    packet_core::{DefaultNla, Nla},
    packet_route::{
        AddressFamily,
        rule::{RuleAction, RuleAttribute, RuleFlags, RuleMessage},
    },
};

use super::{
    netlink::{Netlink, collect},
    routes::{net_text, protocol_name},
    tables::TableNames,
};

/// What a rule does when it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Look into this table.
    Table(u32),
    /// Look into the table of the VRF that the packet belongs to.
    L3mdev,
    /// Go on at this priority.
    Goto(u32),
    Nop,
    Blackhole,
    Unreachable,
    Prohibit,
    Other(u8),
}

/// One rule. Selectors that are `None` match everything.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    pub ipv6: bool,
    pub priority: u32,
    pub invert: bool,
    pub from: Option<IpNet>,
    pub to: Option<IpNet>,
    pub tos: u8,
    /// Mark and mask.
    pub mark: Option<(u32, u32)>,
    pub iif: Option<String>,
    pub oif: Option<String>,
    pub uids: Option<(u32, u32)>,
    pub ip_protocol: Option<u8>,
    pub source_ports: Option<(u16, u16)>,
    pub destination_ports: Option<(u16, u16)>,
    pub tunnel: Option<u64>,
    pub action: Action,
    /// Answers with this prefix length or shorter do not count.
    pub suppress_prefix_length: Option<u32>,
    /// Answers by a device of this group do not count.
    pub suppress_group: Option<u32>,
    /// `RTPROT_*`: who added it.
    pub protocol: u8,
    /// The rule has selectors that this program does not know.
    pub unknown_selectors: bool,
}

impl Rule {
    /// A rule that sends everything of a family to a table.
    pub const fn all(ipv6: bool, priority: u32, table: u32) -> Self {
        Self {
            ipv6,
            priority,
            invert: false,
            from: None,
            to: None,
            tos: 0,
            mark: None,
            iif: None,
            oif: None,
            uids: None,
            ip_protocol: None,
            source_ports: None,
            destination_ports: None,
            tunnel: None,
            action: Action::Table(table),
            suppress_prefix_length: None,
            suppress_group: None,
            protocol: 2,
            unknown_selectors: false,
        }
    }

    /// The rule in the words of `ip rule`.
    pub fn text(&self, tables: &TableNames) -> String {
        let mut words = vec![format!("{}:", self.priority)];
        if self.invert {
            words.push("not".to_owned());
        }
        words.push(format!("from {}", self.from.as_ref().map_or_else(|| "all".to_owned(), net_text)));
        words.extend(self.to.as_ref().map(|to| format!("to {}", net_text(to))));
        if self.tos != 0 {
            words.push(format!("tos {:#04x}", self.tos));
        }
        words.extend(self.mark.map(|(mark, mask)| match mask {
            u32::MAX => format!("fwmark {mark:#x}"),
            _ => format!("fwmark {mark:#x}/{mask:#x}"),
        }));
        words.extend(self.iif.as_ref().map(|device| format!("iif {device}")));
        words.extend(self.oif.as_ref().map(|device| format!("oif {device}")));
        words.extend(self.uids.map(|(first, last)| format!("uidrange {first}-{last}")));
        words.extend(self.ip_protocol.map(|protocol| match protocol {
            6 => "ipproto tcp".to_owned(),
            17 => "ipproto udp".to_owned(),
            other => format!("ipproto {other}"),
        }));
        words.extend(self.source_ports.map(|ports| ports_text("sport", ports)));
        words.extend(self.destination_ports.map(|ports| ports_text("dport", ports)));
        words.extend(self.tunnel.map(|tunnel| format!("tun_id {tunnel}")));
        if self.unknown_selectors {
            words.push("[and selectors unknown to nvaprobe]".to_owned());
        }
        words.push(match self.action {
            Action::Table(table) => format!("lookup {}", tables.name(table)),
            Action::L3mdev => "lookup [l3mdev-table]".to_owned(),
            Action::Goto(target) => format!("goto {target}"),
            Action::Nop => "nop".to_owned(),
            Action::Blackhole => "blackhole".to_owned(),
            Action::Unreachable => "unreachable".to_owned(),
            Action::Prohibit => "prohibit".to_owned(),
            Action::Other(action) => format!("action {action}"),
        });
        words.extend(self.suppress_prefix_length.map(|length| format!("suppress_prefixlength {length}")));
        words.extend(self.suppress_group.map(|group| format!("suppress_ifgroup {group}")));
        // `ip rule` hides what the kernel and the administrator add.
        if !matches!(self.protocol, 0 | 2 | 3) {
            words.push(format!("proto {}", protocol_name(self.protocol)));
        }
        words.join(" ")
    }
}

fn ports_text(word: &str, (first, last): (u16, u16)) -> String {
    if first == last { format!("{word} {first}") } else { format!("{word} {first}-{last}") }
}

/// Every rule of both families, in the kernel's order.
pub(super) async fn read(netlink: &Netlink) -> Result<Vec<Rule>, String> {
    let rule = netlink.handle.rule();
    let mut messages = collect(rule.get(IpVersion::V4).execute()).await.map_err(|error| error.to_string())?;
    // A kernel without IPv6 (ipv6.disable=1) refuses; then there is none to list.
    if let Ok(v6) = collect(rule.get(IpVersion::V6).execute()).await {
        messages.extend(v6);
    }
    Ok(messages.iter().filter_map(from_message).collect())
}

/// Linux 6.15 and later list a port with its mask, `FRA_SPORT_MASK` or `FRA_DPORT_MASK`; a whole mask changes
/// nothing.
fn is_whole_port(attribute: &DefaultNla) -> bool {
    const SPORT_MASK: u16 = 28;
    const DPORT_MASK: u16 = 29;
    let mut value = [0; 2];
    if !matches!(attribute.kind(), SPORT_MASK | DPORT_MASK) || attribute.value_len() != value.len() {
        return false;
    }
    attribute.emit_value(&mut value);
    value == [0xff; 2]
}

fn from_message(message: &RuleMessage) -> Option<Rule> {
    let header = &message.header;
    let ipv6 = match header.family {
        AddressFamily::Inet => false,
        AddressFamily::Inet6 => true,
        _ => return None,
    };
    let mut rule = Rule::all(ipv6, 0, u32::from(header.table));
    rule.invert = header.flags.contains(RuleFlags::Invert);
    rule.tos = header.tos;
    rule.protocol = 0;
    let net = |address: IpAddr, length: u8| IpNet::new(address, length).ok();
    let (mut mark, mut mask, mut goto, mut l3mdev, mut table) =
        (None, None, None, false, u32::from(header.table));
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Source(address) => rule.from = net(*address, header.src_len),
            RuleAttribute::Destination(address) => rule.to = net(*address, header.dst_len),
            RuleAttribute::Iifname(name) => rule.iif = Some(name.clone()),
            RuleAttribute::Oifname(name) => rule.oif = Some(name.clone()),
            RuleAttribute::Goto(target) => goto = Some(*target),
            RuleAttribute::Priority(priority) => rule.priority = *priority,
            RuleAttribute::FwMark(value) => mark = Some(*value),
            RuleAttribute::FwMask(value) => mask = Some(*value),
            RuleAttribute::TunId(id) => rule.tunnel = Some(*id),
            // The kernel sends -1 for "not set".
            RuleAttribute::SuppressIfGroup(group) => {
                rule.suppress_group = Some(*group).filter(|group| *group != u32::MAX);
            }
            RuleAttribute::SuppressPrefixLen(length) => {
                rule.suppress_prefix_length = Some(*length).filter(|length| *length != u32::MAX);
            }
            RuleAttribute::Table(number) => table = *number,
            RuleAttribute::L3MDev(set) => l3mdev = *set,
            RuleAttribute::UidRange(range) => rule.uids = Some((range.start, range.end)),
            RuleAttribute::Protocol(protocol) => rule.protocol = u8::from(*protocol),
            RuleAttribute::IpProtocol(protocol) => rule.ip_protocol = Some(u8::from(*protocol)),
            RuleAttribute::SourcePortRange(range) => rule.source_ports = Some((range.start, range.end)),
            RuleAttribute::DestinationPortRange(range) => {
                rule.destination_ports = Some((range.start, range.end));
            }
            // Realms only label routes; they select nothing.
            RuleAttribute::Realm(_) => {}
            RuleAttribute::Other(other) if is_whole_port(other) => {}
            _ => rule.unknown_selectors = true,
        }
    }
    rule.mark = match (mark, mask) {
        (None, None | Some(0)) => None,
        (mark, mask) => Some((mark.unwrap_or(0), mask.unwrap_or(u32::MAX))),
    };
    rule.action = match header.action {
        _ if l3mdev => Action::L3mdev,
        RuleAction::ToTable => Action::Table(table),
        RuleAction::Goto => goto.map_or(Action::Other(2), Action::Goto),
        RuleAction::Nop => Action::Nop,
        RuleAction::Blackhole => Action::Blackhole,
        RuleAction::Unreachable => Action::Unreachable,
        RuleAction::Prohibit => Action::Prohibit,
        other => Action::Other(u8::from(other)),
    };
    Some(rule)
}
