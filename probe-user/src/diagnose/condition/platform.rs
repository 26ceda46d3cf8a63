//! `PLATFORM`: what this host itself asks of a source (wire server, DNS) gets no answer, at all or where it goes by another
//! NIC or address than the platform answers. Probes have nothing to do with it, and their verdicts stay as they are.

use std::net::{IpAddr, Ipv4Addr};

use super::{Own, Scene};
use crate::{
    diagnose::evidence,
    host::{Facts, lookup::RouteLookup, routes::RouteKind, sockets::Connecting},
    report::document::{Evidence, Finding, Severity},
};

/// Azure's platform: wire server, host plug-in, DNS, and the source of every probe.
pub const PLATFORM: IpAddr = IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16));
const METADATA: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254));

/// Its services that answer on every machine: wire server, host plug-in, DNS. Others may be silent where all is well
/// (<https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16>).
const ALWAYS: [u16; 3] = [80, 32526, 53];
/// Packets without any in return that are more than the end of an old connection.
const ENOUGH: u64 = 2;
/// RTPROT_DHCP (linux/rtnetlink.h).
const DHCP: u8 = 16;

/// A connection of this host's own that waits for its SYN-ACK, longer than a lost SYN explains.
#[derive(Clone, Debug, PartialEq)]
pub struct Waits {
    pub connection: Connecting,
    pub seconds: f64,
    /// The way of its packets.
    pub lookup: RouteLookup,
}

/// The NIC and address that the platform answers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Primary {
    link: u32,
    nic: String,
    address: IpAddr,
    why: &'static str,
}

pub(super) fn find(scene: &Scene<'_>) -> Vec<Finding> {
    let Some(own) = scene.own else { return Vec::new() };
    unanswered(&own).or_else(|| elsewhere(scene, &own)).into_iter().collect()
}

/// Nothing comes back at all.
fn unanswered(own: &Own<'_>) -> Option<Finding> {
    let platform = own.packets;
    if platform.packets_out < ENOUGH || platform.packets_in > 0 {
        return None;
    }
    let mut evidence = vec![evidence::of(
        "packets",
        format!(
            "{} of this host's own packets left for {}, none came back",
            platform.packets_out, own.source
        ),
    )];
    evidence.extend(own.connecting.iter().map(|waiting| {
        evidence::of("socket", format!("{} waits for an answer of {}", waiting.local, waiting.remote))
    }));
    let mut nic = None;
    if let Some(lookup) = own.lookup {
        evidence.extend(evidence::way(lookup, own.facts));
        nic = lookup.chosen().map(|chosen| chosen.hop.device.clone());
    }
    let by = nic.as_ref().map_or_else(String::new, |nic| format!(" by {nic}"));
    let summary = format!(
        "This host's own traffic to {}{by} gets no answer: guest agent, DNS and extensions fail, probes are another \
         matter. Azure expects it from the primary NIC and its primary address.",
        own.source
    );
    Some(finding(nic, summary, evidence))
}

/// Some is answered; what goes another way than the platform expects is not.
fn elsewhere(scene: &Scene<'_>, own: &Own<'_>) -> Option<Finding> {
    let facts = own.facts?;
    let primary = primary(facts, scene.nics)?;
    let wrong: Vec<&Waits> = own
        .waiting
        .iter()
        .filter(|waits| waits.connection.remote.ip() == PLATFORM)
        .filter(|waits| ALWAYS.contains(&waits.connection.remote.port()))
        .filter(|waits| leaves_elsewhere(waits, &primary, facts))
        .collect();
    let first = wrong.first()?;
    let nic = first.lookup.chosen().map(|chosen| chosen.hop.device.clone());
    let mut evidence: Vec<Evidence> = wrong
        .iter()
        .map(|waits| {
            let Connecting { local, remote } = waits.connection;
            let by = waits.lookup.chosen().map_or_else(String::new, |way| format!(" by {}", way.hop.device));
            let text =
                format!("{local}{by} waited {:.1} s and more for an answer of {remote}", waits.seconds);
            evidence::of("socket", text)
        })
        .collect();
    evidence.extend(evidence::way(&first.lookup, Some(facts)));
    evidence.push(evidence::of(
        "nic",
        format!("the primary NIC is {} with {}: {}", primary.nic, primary.address, primary.why),
    ));
    let by = nic.as_ref().map_or_else(String::new, |nic| format!(" by {nic}"));
    let summary = format!(
        "Connections of this host to {PLATFORM} from {}{by} get no answer, other traffic to it does: the platform answers \
         the primary NIC ({}) and its primary address ({}). Guest agent or extensions may fail, probes are another matter.",
        first.connection.local.ip(),
        primary.nic,
        primary.address
    );
    Some(finding(nic, summary, evidence))
}

fn finding(nic: Option<String>, summary: String, evidence: Vec<Evidence>) -> Finding {
    Finding {
        code: "PLATFORM".to_owned(),
        cause: "unknown".to_owned(),
        severity: Severity::Warning,
        nic,
        out_nic: None,
        target: None,
        port: None,
        intermittent: false,
        summary,
        evidence,
        fixes: Vec::new(),
    }
}

fn leaves_elsewhere(waits: &Waits, primary: &Primary, facts: &Facts) -> bool {
    let by_other =
        waits.lookup.chosen().is_some_and(|way| !facts.links.carried_by(way.hop.link, primary.link));
    by_other || waits.connection.local.ip() != primary.address
}

/// The primary NIC with its first IPv4 address: the first that the metadata service lists; else the one whose DHCP lease
/// routes to the platform, for no other's does; else the first.
fn primary(facts: &Facts, nics: &[String]) -> Option<Primary> {
    let listed = facts.imds.network.as_ref().ok().and_then(|interfaces| interfaces.first()?.nic(facts));
    let leased = || {
        let route = facts.routes.iter().find(|route| {
            let to = route.destination;
            route.protocol == DHCP
                && route.kind == RouteKind::Unicast
                && to.prefix_len() == 32
                && (to.addr() == PLATFORM || to.addr() == METADATA)
        })?;
        Some(facts.links.logical_nic(route.next_hops.first()?.link))
    };
    let first = || nics.iter().filter_map(|name| Some(facts.links.by_name(name)?.index)).min();
    let (link, why) = match (listed, leased()) {
        (Some(link), _) => (link, "the metadata service lists it first"),
        (None, Some(link)) => (link, "its DHCP lease routes to the platform"),
        (None, None) => (first()?, "it is the first here"),
    };
    let mut own = facts.addresses.iter().filter(|address| address.link == link && address.global);
    let address = own.find(|address| address.net.addr().is_ipv4())?.net.addr();
    Some(Primary { link, nic: facts.links.name(link), address, why })
}
