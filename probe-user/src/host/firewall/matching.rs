//! Whether a packet fulfils a condition: yes, no, or it cannot be told.

use std::net::IpAddr;

use super::{
    elements::{Column, Element, Field, number},
    packet::{CtState, Owner, Packet},
};

/// Three-valued truth; `Unknown` swallows nothing that is sure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Truth {
    Yes,
    No,
    Unknown,
}

impl Truth {
    pub(super) const fn not(self) -> Self {
        match self {
            Self::Yes => Self::No,
            Self::No => Self::Yes,
            Self::Unknown => Self::Unknown,
        }
    }

    fn all(truths: impl IntoIterator<Item = Self>) -> Self {
        let mut all = Self::Yes;
        for truth in truths {
            match truth {
                Self::No => return Self::No,
                Self::Unknown => all = Self::Unknown,
                Self::Yes => {}
            }
        }
        all
    }
}

/// linux/rtnetlink.h
pub(super) const RTN_LOCAL: u128 = 2;

/// What a packet has in a field.
enum Value<'a> {
    Number(u128),
    Name(&'a str),
    /// Any number but this.
    Not(u128),
    Unknown,
    /// The packet is of another kind: then neither a comparison nor its negation holds.
    Absent,
}

/// Whether the columns hold one row. `None` when a field is one that this packet cannot have.
pub(super) fn row(packet: &Packet, columns: &[Column], row: &[Element]) -> Option<Truth> {
    if columns.len() != row.len() {
        return Some(Truth::Unknown);
    }
    let cells: Option<Vec<Truth>> =
        columns.iter().zip(row).map(|(column, element)| cell(packet, column, element)).collect();
    cells.map(Truth::all)
}

/// Whether a condition holds.
pub(super) fn holds(packet: &Packet, columns: &[Column], rows: &[Vec<Element>], negated: bool) -> Truth {
    if columns.iter().any(|column| matches!(value(packet, &column.field), Value::Absent)) {
        return Truth::No;
    }
    let mut any = Truth::No;
    for elements in rows {
        match row(packet, columns, elements) {
            None => return Truth::No,
            Some(Truth::Yes) => {
                any = Truth::Yes;
                break;
            }
            Some(Truth::Unknown) => any = Truth::Unknown,
            Some(Truth::No) => {}
        }
    }
    if negated { any.not() } else { any }
}

fn cell(packet: &Packet, column: &Column, element: &Element) -> Option<Truth> {
    let truth = |holds| if holds { Truth::Yes } else { Truth::No };
    Some(match (value(packet, &column.field), element) {
        (Value::Absent, _) => return None,
        (Value::Unknown, _) | (_, Element::Unknown(_)) => Truth::Unknown,
        (Value::Not(other), element) => match element {
            Element::Range(low, high) if low == high && *low == other => Truth::No,
            _ => Truth::Unknown,
        },
        (Value::Number(value), element) => {
            let value = column.mask.map_or(value, |mask| value & mask);
            match element {
                Element::Range(low, high) => truth((*low..=*high).contains(&value)),
                Element::Bits(bits) => truth(value & bits != 0),
                _ => Truth::Unknown,
            }
        }
        (Value::Name(value), Element::Name(name)) => truth(value == name),
        (Value::Name(value), Element::Prefix(prefix)) => truth(value.starts_with(prefix.as_str())),
        (Value::Name(_), _) => Truth::Unknown,
    })
}

fn value<'a>(packet: &'a Packet, field: &Field) -> Value<'a> {
    let known = |value: Option<u128>| value.map_or(Value::Unknown, Value::Number);
    let address = |address: IpAddr, v4: bool| {
        if address.is_ipv4() == v4 { Value::Number(number(address)) } else { Value::Absent }
    };
    let port = |port: u16, protocols: &[u8]| {
        let has_it = if protocols.is_empty() {
            has_ports(packet.protocol)
        } else {
            protocols.contains(&packet.protocol)
        };
        if has_it { Value::Number(port.into()) } else { Value::Absent }
    };
    match field {
        Field::Iif => known(packet.device_in().map(|(index, _)| index.into())),
        Field::IifName => packet.device_in().map_or(Value::Unknown, |(_, name)| Value::Name(name)),
        Field::Oif => known(packet.device_out().map(|(index, _)| index.into())),
        Field::OifName => packet.device_out().map_or(Value::Unknown, |(_, name)| Value::Name(name)),
        Field::Family => Value::Number(if packet.from.is_ipv4() { 2 } else { 10 }),
        Field::EtherType => Value::Number(if packet.from.is_ipv4() { 0x0800 } else { 0x86dd }),
        Field::ProtocolOf(v4) if *v4 != packet.from.is_ipv4() => Value::Absent,
        Field::Protocol | Field::ProtocolOf(_) => Value::Number(packet.protocol.into()),
        Field::FromV4 => address(packet.from, true),
        Field::FromV6 => address(packet.from, false),
        Field::ToV4 => address(packet.to, true),
        Field::ToV6 => address(packet.to, false),
        Field::FromPort(protocols) => port(packet.from_port, protocols),
        Field::ToPort(protocols) => port(packet.to_port, protocols),
        Field::CtState => known(packet.ct_state.map(|state: CtState| state as u128)),
        Field::Mark => known(packet.mark.map(u128::from)),
        Field::CtMark => known(packet.ct_mark.map(u128::from)),
        Field::TcpFlags if packet.protocol != 6 => Value::Absent,
        Field::TcpFlags => known(packet.tcp_flags.map(u128::from)),
        Field::User => match packet.owner {
            Owner::User(uid) => Value::Number(uid.into()),
            // Without a socket the comparison ends the rule (net/netfilter/nft_meta.c, nft_meta_get_eval_skugid).
            Owner::Nobody => Value::Absent,
            Owner::Unknown => Value::Unknown,
        },
        Field::XtUser => match packet.owner {
            Owner::User(uid) => Value::Number(uid.into()),
            Owner::Nobody => Value::Number(u128::MAX),
            Owner::Unknown => Value::Unknown,
        },
        Field::ToType => match packet.to_local {
            Some(true) => Value::Number(RTN_LOCAL),
            Some(false) => Value::Not(RTN_LOCAL),
            None => Value::Unknown,
        },
        // TCP is spoken with one host only: PACKET_HOST, which nftables calls unicast.
        Field::PacketType if packet.protocol == 6 => Value::Number(0),
        Field::Of(protocol, _) if *protocol != packet.protocol => Value::Absent,
        Field::OfVersion(v4, _) if *v4 != packet.from.is_ipv4() => Value::Absent,
        Field::PacketType | Field::Of(..) | Field::OfVersion(..) => Value::Unknown,
        Field::Foreign => Value::Absent,
    }
}

/// TCP, UDP, DCCP, SCTP, UDP-Lite.
const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | 17 | 33 | 132 | 136)
}
