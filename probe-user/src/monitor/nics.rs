//! Which devices are observed, which are judged, and what they are called.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::{
    capture::live::{Target, mode::Traits},
    host::links::{self, Header, Link},
};

#[derive(Debug, Error, PartialEq, Eq)]
pub enum NicError {
    #[error("there is no NIC named '{name}' here; there are: {}", .there.join(", "))]
    Unknown { name: String, there: Vec<String> },
    #[error("'{name}' belongs to {master}, which is the NIC to name")]
    Member { name: String, master: String },
    #[error("'{name}' is the loopback device; probes come in by a NIC")]
    Loopback { name: String },
    #[error("no physical NIC is up here; name the ones to judge with --nic")]
    None,
}

/// The NICs to judge: those named, or every physical one that is up.
pub fn judged(names: &[String], links: &[Link]) -> Result<BTreeSet<u32>, NicError> {
    if names.is_empty() {
        let nics: BTreeSet<u32> = links::default_nics(links).into_iter().collect();
        return if nics.is_empty() { Err(NicError::None) } else { Ok(nics) };
    }
    names
        .iter()
        .map(|name| {
            let Some(link) = links.iter().find(|link| link.name == *name) else {
                let there = links.iter().filter(|l| !l.loopback).map(|l| l.name.clone()).collect();
                return Err(NicError::Unknown { name: name.clone(), there });
            };
            if link.loopback {
                return Err(NicError::Loopback { name: name.clone() });
            }
            let nic = links::nic(link.ifindex, links);
            match links.iter().find(|link| link.ifindex == nic) {
                Some(master) if nic != link.ifindex => {
                    Err(NicError::Member { name: name.clone(), master: master.name.clone() })
                }
                _ => Ok(link.ifindex),
            }
        })
        .collect()
}

/// Every device to attach to: the judged NICs, their members, and every other device that is up but `lo`.
///
/// With native XDP on a NIC its members see packets first; the programs map both to one NIC, and a packet that both
/// show is one to the models.
pub fn targets(links: &[Link], judged: &BTreeSet<u32>) -> Vec<Target> {
    links
        .iter()
        .filter(|link| !link.loopback && link.header != Header::Other)
        .filter(|link| link.up || judged.contains(&link.ifindex))
        .map(|link| Target {
            ifindex: link.ifindex,
            name: link.name.clone(),
            judged: judged.contains(&link.ifindex),
            traits: Traits {
                ethernet: link.header == Header::Ethernet,
                driver: link.driver.as_ref().map(|driver| driver.name.clone()),
                foreign_xdp: link.xdp,
            },
        })
        .collect()
}

/// Devices by logical NIC.
pub fn mapping(links: &[Link]) -> impl Iterator<Item = (u32, u32)> {
    links.iter().map(|link| (link.ifindex, links::nic(link.ifindex, links)))
}

/// Names that stay known after their device has gone.
#[derive(Clone, Debug, Default)]
pub struct Names(BTreeMap<u32, String>);

impl Names {
    pub fn learn(&mut self, links: &[Link]) {
        self.0.extend(links.iter().map(|link| (link.ifindex, link.name.clone())));
    }

    pub fn get(&self, ifindex: u32) -> String {
        self.0.get(&ifindex).cloned().unwrap_or_else(|| format!("if{ifindex}"))
    }
}
