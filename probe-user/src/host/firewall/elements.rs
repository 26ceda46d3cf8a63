//! What rules compare: fields of a packet, and the values that they may have.

use std::net::IpAddr;

/// A field of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// Index of the input device.
    Iif,
    IifName,
    Oif,
    OifName,
    /// Address family: 2 or 10.
    Family,
    /// EtherType.
    EtherType,
    /// IP protocol.
    Protocol,
    /// IP protocol of packets of one IP version (true: IPv4); others have none.
    ProtocolOf(bool),
    /// IPv4 source address; IPv6 packets have none.
    FromV4,
    FromV6,
    ToV4,
    ToV6,
    /// Ports, of these IP protocols only; of any with ports, when the list is empty.
    FromPort(Vec<u8>),
    ToPort(Vec<u8>),
    CtState,
    Mark,
    CtMark,
    TcpFlags,
    /// User that owns the socket.
    User,
    /// The same as iptables sees it: nobody's packets are not anybody's, which a negation holds for
    /// (net/netfilter/xt_owner.c).
    XtUser,
    /// `RTN_*` of the destination: 2 is local.
    ToType,
    /// `PACKET_*`.
    PacketType,
    /// Something that only packets of this IP protocol have, and that is not known.
    Of(u8, String),
    /// Something that only packets of one IP version have (true: IPv4), and that is not known.
    OfVersion(bool, String),
    /// Something that no routed IP packet has.
    Foreign,
}

/// A field and the bits of it that count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub field: Field,
    pub mask: Option<u128>,
}

impl Column {
    pub const fn whole(field: Field) -> Self {
        Self { field, mask: None }
    }
}

/// A value, or several at once. Addresses, ports, marks and states are all numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Element {
    /// From the first to the last, both included.
    Range(u128, u128),
    /// Any of these bits.
    Bits(u128),
    Name(String),
    /// A name that begins so.
    Prefix(String),
    /// Words that are not understood.
    Unknown(String),
}

impl Element {
    pub(super) const fn number(value: u128) -> Self {
        Self::Range(value, value)
    }

    /// A prefix of this length.
    pub(super) fn net(address: IpAddr, length: u8) -> Self {
        let bits: u8 = if address.is_ipv4() { 32 } else { 128 };
        let host = u32::from(bits.saturating_sub(length));
        let low = number(address).checked_shr(host).and_then(|kept| kept.checked_shl(host)).unwrap_or(0);
        let span = 1u128.checked_shl(host).map_or(u128::MAX, |size| size - 1);
        Self::Range(low, low | span)
    }

    /// A device's name, where a last `*` (nftables) or `+` (iptables) stands for any more letters.
    pub(super) fn device(name: &str, wildcard: char) -> Self {
        match name.strip_suffix(wildcard) {
            Some(prefix) => Self::Prefix(prefix.to_owned()),
            None => Self::Name(name.to_owned()),
        }
    }
}

/// An address as a number; IPv4 ones are below 2^32.
pub(super) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u32::from(v4).into(),
        IpAddr::V6(v6) => v6.into(),
    }
}

/// A condition: the fields, taken together, are one of the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Element>>,
    pub negated: bool,
    /// The condition in words, to say what could not be told.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_ranges() {
        let net = |address: &str, length| Element::net(address.parse().unwrap(), length);
        assert_eq!(net("10.1.2.3", 8), Element::Range(0x0a00_0000, 0x0aff_ffff));
        assert_eq!(net("10.1.2.3", 32), Element::number(0x0a01_0203));
        assert_eq!(net("0.0.0.0", 0), Element::Range(0, 0xffff_ffff));
        assert_eq!(net("::", 0), Element::Range(0, u128::MAX));
        assert_eq!(net("fe80::1", 10), Element::Range(0xfe80 << 112, (0xfec0 << 112) - 1));
        assert_eq!(net("10.0.0.0", 200), Element::number(0x0a00_0000));
    }
}
