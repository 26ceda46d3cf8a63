//! ARP and neighbour discovery, as Azure's host answers them: every address is at one MAC.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pnet::{
    packet::{
        arp::{ArpHardwareTypes, ArpOperations, MutableArpPacket},
        ethernet::EtherTypes,
        icmpv6::{self, Icmpv6Packet},
        ip::IpNextHeaderProtocols,
    },
    util::MacAddr,
};

use super::wire::{FABRIC_MAC, Mac, ethernet, ip_frame};

/// Which addresses the fabric claims.
#[derive(Clone, Debug, Default)]
pub enum Answers {
    /// Everything but the NIC's own addresses, as Azure does.
    #[default]
    Everything,
    /// These only.
    Only(Vec<IpAddr>),
    Nothing,
}

impl Answers {
    pub(super) fn claims(&self, target: IpAddr, own: &[IpAddr]) -> bool {
        match self {
            Self::Everything => !own.contains(&target),
            Self::Only(addresses) => addresses.contains(&target),
            Self::Nothing => false,
        }
    }
}

pub(super) fn arp_reply(to: Mac, asker: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let mut bytes = vec![0; MutableArpPacket::minimum_packet_size()];
    if let Some(mut arp) = MutableArpPacket::new(&mut bytes) {
        arp.set_hardware_type(ArpHardwareTypes::Ethernet);
        arp.set_protocol_type(EtherTypes::Ipv4);
        arp.set_hw_addr_len(6);
        arp.set_proto_addr_len(4);
        arp.set_operation(ArpOperations::Reply);
        arp.set_sender_hw_addr(MacAddr::from(FABRIC_MAC));
        arp.set_sender_proto_addr(target);
        arp.set_target_hw_addr(MacAddr::from(to));
        arp.set_target_proto_addr(asker);
    }
    ethernet(FABRIC_MAC, to, EtherTypes::Arp, &bytes)
}

/// A solicited advertisement with our MAC (RFC 4861, 4.4).
pub(super) fn advertisement(to: Mac, asker: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
    const SOLICITED_OVERRIDE: u8 = 0x60;
    let mut bytes = vec![136, 0, 0, 0, SOLICITED_OVERRIDE, 0, 0, 0];
    bytes.extend(target.octets());
    // Option 2: target link-layer address, one unit of eight bytes.
    bytes.extend([2, 1]);
    bytes.extend(FABRIC_MAC);
    if let Some(packet) = Icmpv6Packet::new(&bytes) {
        let sum = icmpv6::checksum(&packet, &target, &asker);
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    ip_frame(FABRIC_MAC, to, IpAddr::V6(target), IpAddr::V6(asker), IpNextHeaderProtocols::Icmpv6, &bytes)
}
