//! Which devices are observed, which are judged, and what they are called.

use std::collections::{BTreeMap, BTreeSet};

use probe_common::maps::Device;
use thiserror::Error;

use crate::{
    capture::live::{Target, mode::Traits},
    host::links::{Layer2, Links},
    probe::Expected,
};

#[derive(Debug, Error, PartialEq, Eq)]
pub enum NicError {
    #[error("there is no NIC named '{name}' here; there are: {}", .there.join(", "))]
    Unknown { name: String, there: Vec<String> },
    #[error("'{name}' belongs to {master}, which is the NIC to name")]
    Member { name: String, master: String },
    #[error("'{name}' is the loopback device; probes come in by a NIC")]
    Loopback { name: String },
    #[error(
        "the probe of port {port} is expected on '{name}', which is none of the NICs judged here ({}); correct the \
         expectation, or judge that NIC with --nic",
        .judged.join(", ")
    )]
    NotJudged { name: String, port: u16, judged: Vec<String> },
    #[error("no physical NIC is up here; name the ones to judge with --nic")]
    None,
}

/// The expected probes whose NIC is there, with its ifindex.
pub fn expected(all: &[Expected], links: &Links) -> Vec<(u32, Expected)> {
    all.iter().filter_map(|expected| Some((links.by_name(&expected.nic)?.index, expected.clone()))).collect()
}

/// Every expected probe names a NIC that is judged.
pub fn check_expected(all: &[Expected], judged: &BTreeSet<u32>, links: &Links) -> Result<(), NicError> {
    let name = |nic: &u32| links.by_index(*nic).map(|link| link.name.clone());
    match all.iter().find(|one| !judged.iter().any(|nic| name(nic).as_ref() == Some(&one.nic))) {
        Some(stray) => Err(NicError::NotJudged {
            name: stray.nic.clone(),
            port: stray.port,
            judged: judged.iter().filter_map(name).collect(),
        }),
        None => Ok(()),
    }
}

/// The NICs to judge: those named, or every physical one that is up.
pub fn judged(names: &[String], links: &Links) -> Result<BTreeSet<u32>, NicError> {
    if names.is_empty() {
        let nics = default(links);
        return if nics.is_empty() { Err(NicError::None) } else { Ok(nics) };
    }
    names
        .iter()
        .map(|name| {
            let Some(link) = links.by_name(name) else {
                let there = links.iter().filter(|l| !l.loopback).map(|l| l.name.clone()).collect();
                return Err(NicError::Unknown { name: name.clone(), there });
            };
            if link.loopback {
                return Err(NicError::Loopback { name: name.clone() });
            }
            let nic = links.logical_nic(link.index);
            match links.by_index(nic) {
                Some(master) if nic != link.index => {
                    Err(NicError::Member { name: name.clone(), master: master.name.clone() })
                }
                _ => Ok(link.index),
            }
        })
        .collect()
}

/// The NICs that a run judges when none is named.
pub fn default(links: &Links) -> BTreeSet<u32> {
    links.physical().into_iter().filter(|link| link.up).map(|link| link.index).collect()
}

/// Every device to attach to: the judged NICs, their members, and every other device that is up but `lo`.
///
/// With native XDP on a NIC its members see packets first; the programs map both to one NIC, and a packet that both
/// show is one to the models.
pub fn targets(links: &Links, judged: &BTreeSet<u32>) -> Vec<Target> {
    links
        .iter()
        .filter(|link| !link.loopback && link.layer2.length().is_some())
        .filter(|link| link.up || judged.contains(&link.index))
        .map(|link| Target {
            ifindex: link.index,
            name: link.name.clone(),
            judged: judged.contains(&link.index),
            traits: Traits {
                ethernet: link.layer2 == Layer2::Ethernet,
                driver: link.driver.clone().or_else(|| link.kind.clone()),
                foreign_xdp: link.xdp.map(|xdp| xdp.program.unwrap_or(0)),
            },
        })
        .collect()
}

/// Devices by logical NIC. A VLAN or macvlan on a judged NIC counts as that NIC, unless it is judged itself: its packets
/// leave by it, and are seen on both.
///
/// Flows are followed on the judged NICs themselves: what enters by a member, or leaves by one, passes its NIC, too.
pub fn mapping(links: &Links, judged: &BTreeSet<u32>) -> impl Iterator<Item = (u32, Device)> {
    links.iter().map(|link| {
        let carrier = judged.iter().copied().find(|nic| links.carried_by(link.index, *nic));
        let own = judged.contains(&link.index).then_some(link.index);
        let nic = own.or(carrier).unwrap_or_else(|| links.logical_nic(link.index));
        (link.index, Device { nic, flows: u32::from(own.is_some()) })
    })
}

/// Names that stay known after their device has gone.
#[derive(Clone, Debug, Default)]
pub struct Names(BTreeMap<u32, String>);

impl Names {
    pub fn learn(&mut self, links: &Links) {
        self.0.extend(links.iter().map(|link| (link.index, link.name.clone())));
    }

    /// Gives a name to a NIC that is not a device of this host.
    pub fn insert(&mut self, ifindex: u32, name: String) {
        self.0.insert(ifindex, name);
    }

    pub fn get(&self, ifindex: u32) -> String {
        self.0.get(&ifindex).cloned().unwrap_or_else(|| format!("if{ifindex}"))
    }
}
