//! The neighbour tables: ARP and neighbour discovery.

use std::{fmt, net::IpAddr};

use rtnetlink::packet_route::{
    AddressFamily,
    neighbour::{
        NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState as State,
    },
};

use super::netlink::{Netlink, collect};

/// How far the kernel is with an address (linux/neighbour.h, `NUD_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Asked, no answer yet.
    Incomplete,
    Reachable,
    /// Known, and not confirmed lately: used all the same.
    Stale,
    Delay,
    Probe,
    /// Asked, and nobody answered.
    Failed,
    /// Nothing is asked on this device.
    NoArp,
    Permanent,
    None,
    Other(u16),
}

impl Resolution {
    /// Packets to it wait or are thrown away.
    pub const fn is_unresolved(self) -> bool {
        matches!(self, Self::Incomplete | Self::Failed)
    }
}

impl fmt::Display for Resolution {
    /// As `ip neigh` prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Incomplete => "INCOMPLETE",
            Self::Reachable => "REACHABLE",
            Self::Stale => "STALE",
            Self::Delay => "DELAY",
            Self::Probe => "PROBE",
            Self::Failed => "FAILED",
            Self::NoArp => "NOARP",
            Self::Permanent => "PERMANENT",
            Self::None => "NONE",
            Self::Other(bits) => return write!(f, "{bits:#x}"),
        })
    }
}

/// One neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    pub address: IpAddr,
    /// ifindex of the device that it is a neighbour on.
    pub link: u32,
    pub state: Resolution,
    /// Ethernet address, when it is known.
    pub mac: Option<[u8; 6]>,
    /// It has told by neighbour discovery that it is a router.
    pub router: bool,
}

/// Every neighbour of both families; proxied addresses are none.
pub(super) async fn read(netlink: &Netlink) -> Result<Vec<Neighbour>, String> {
    let messages =
        collect(netlink.handle.neighbours().get().execute()).await.map_err(|error| error.to_string())?;
    Ok(messages.iter().filter_map(from_message).collect())
}

/// The entry of an address on a device.
pub fn find(neighbours: &[Neighbour], link: u32, address: IpAddr) -> Option<&Neighbour> {
    neighbours.iter().find(|neighbour| neighbour.link == link && neighbour.address == address)
}

fn from_message(message: &NeighbourMessage) -> Option<Neighbour> {
    let header = &message.header;
    if !matches!(header.family, AddressFamily::Inet | AddressFamily::Inet6) {
        return None;
    }
    let mut address = None;
    let mut mac = None;
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => address = Some(IpAddr::V4(*v4)),
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => address = Some(IpAddr::V6(*v6)),
            NeighbourAttribute::LinkLayerAddress(bytes) => mac = bytes.as_slice().try_into().ok(),
            _ => {}
        }
    }
    let state = match header.state {
        State::Incomplete => Resolution::Incomplete,
        State::Reachable => Resolution::Reachable,
        State::Stale => Resolution::Stale,
        State::Delay => Resolution::Delay,
        State::Probe => Resolution::Probe,
        State::Failed => Resolution::Failed,
        State::Noarp => Resolution::NoArp,
        State::Permanent => Resolution::Permanent,
        State::None => Resolution::None,
        other => Resolution::Other(u16::from(other)),
    };
    let router = header.flags.contains(NeighbourFlags::Router);
    Some(Neighbour { address: address?, link: header.ifindex, state, mac, router })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(family: AddressFamily, state: State) -> NeighbourMessage {
        let mut message = NeighbourMessage::default();
        message.header.family = family;
        message.header.ifindex = 3;
        message.header.state = state;
        message
            .attributes
            .push(NeighbourAttribute::Destination(NeighbourAddress::Inet("10.4.3.1".parse().unwrap())));
        message
    }

    #[test]
    fn an_unresolved_neighbour_has_no_mac() {
        let found = from_message(&message(AddressFamily::Inet, State::Failed)).unwrap();
        assert_eq!((found.link, found.mac, found.state.to_string()), (3, None, "FAILED".to_owned()));
        assert!(found.state.is_unresolved());
        assert_eq!(find(std::slice::from_ref(&found), 3, found.address), Some(&found));
        assert_eq!(find(std::slice::from_ref(&found), 4, found.address), None);
    }

    #[test]
    fn forwarding_entries_of_bridges_are_no_neighbours() {
        assert_eq!(from_message(&message(AddressFamily::Bridge, State::Reachable)), None);
    }
}
