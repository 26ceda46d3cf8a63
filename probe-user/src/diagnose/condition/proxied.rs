//! `PROXIED`: the probe is passed on to another machine, translated or as it came. Then it speaks for that machine, also
//! when its answer comes back well.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::{Scene, confirmed, of};
use crate::{
    diagnose::{Case, evidence},
    report::document::{Evidence, Finding, Severity, Verdict},
};

/// The platform's metadata service. Appliances of some vendors are told to translate probes to it: it answers for as long
/// as the appliance forwards (<https://cloud.google.com/load-balancing/docs/internal/setting-up-ilb-next-hop>).
const METADATA: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254));

/// What became of the probes of a series that left again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOn {
    /// By which device, and where to.
    pub device: String,
    pub to: SocketAddr,
    pub probes: u64,
    /// How many answers came back from behind, and by which device the latest.
    pub returned: u64,
    pub back: Option<String>,
    /// The latest failing probe was answered from behind, and nothing of that left for the prober.
    pub withheld: bool,
}

pub(super) fn find(scene: &Scene<'_>) -> Vec<Finding> {
    confirmed(scene)
        .filter_map(|case| {
            let passed_on = case.failures.passed_on.as_ref()?;
            let metadata = passed_on.to.ip() == METADATA;
            let severity = if metadata { Severity::Info } else { Severity::Warning };
            let mut evidence = vec![evidence::of("packets", packets(case, passed_on))];
            evidence.extend(listener(scene, case));
            Some(Finding {
                out_nic: Some(passed_on.device.clone()),
                ..of(case, "PROXIED", severity, summary(case, passed_on, metadata), evidence)
            })
        })
        .collect()
}

fn summary(case: &Case<'_>, passed_on: &PassedOn, metadata: bool) -> String {
    let (place, nic) = (case.place(), &case.series.nic);
    let PassedOn { device, to, .. } = passed_on;
    let probe = format!("The probe of {place} on {nic} is passed on by {device}");
    if metadata {
        return format!(
            "{probe} to the platform's metadata service, a pattern of some vendors: it is answered for as long as this \
             host forwards, and says nothing about what the host serves."
        );
    }
    let same = if to.to_string() == place { " as it came" } else { "" };
    let fate = if passed_on.withheld {
        "; its answers come back from there and never leave for the prober"
    } else if passed_on.returned == 0 {
        "; no answer came back from there"
    } else {
        ""
    };
    format!(
        "{probe} to {to}{same}{fate}: it speaks for that machine, not for this one, and no listener of this host is asked."
    )
}

fn packets(case: &Case<'_>, passed_on: &PassedOn) -> String {
    let PassedOn { device, to, probes, returned, back, .. } = passed_on;
    let attempts = case.series.attempts.max(*probes);
    let left = case.series.counts.get(&Verdict::Ok).copied().unwrap_or(0);
    let back = match (returned, back) {
        (0, _) | (_, None) => "no answer came back".to_owned(),
        (returned, Some(back)) => format!("{returned} answers came back by {back}"),
    };
    format!(
        "{probes} of {attempts} probes left again by {device} for {to}; {back}; {left} probes were answered by {}",
        case.series.nic
    )
}

/// Who would be asked if the probe stayed here.
fn listener(scene: &Scene<'_>, case: &Case<'_>) -> Option<Evidence> {
    let port = case.series.port;
    let here = scene.listeners.iter().find(|listener| listener.port == port)?;
    let who = here.process.as_deref().unwrap_or("a process whose name may not be seen");
    Some(evidence::of("socket", format!("{who} listens here on port {port}, and is not what is probed")))
}
