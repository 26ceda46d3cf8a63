//! `NOT_ARRIVING`: an expected probe does not come. What this host shows cannot be the reason, so it is not blamed.

use super::Scene;
use crate::{
    diagnose::evidence,
    probe::{Expected, Rules, rules::Role},
    profile::Profile,
    report::document::{Finding, Protocol, Severity},
};

/// A window that tells, when no interval is configured: the API's default.
const DEFAULT_WINDOW_S: f64 = 15.0;

pub(super) fn find(scene: &Scene<'_>) -> Vec<Finding> {
    let configured = scene.expected.iter().filter_map(|expected| missing(scene, expected));
    configured.chain(by_metadata(scene)).collect()
}

/// NICs that a load balancer's rule leads to, as Azure's instance metadata says, and that nobody probes. An inbound NAT
/// rule looks the same and is never probed, so this is a warning.
fn by_metadata(scene: &Scene<'_>) -> Vec<Finding> {
    let Some(facts) = scene.own.and_then(|own| own.facts) else { return Vec::new() };
    if scene.profile != Profile::AzureLb || scene.window_s < 2.0 * DEFAULT_WINDOW_S {
        return Vec::new();
    }
    let quiet = scene.nics.iter().filter(|nic| {
        scene.cases.iter().all(|case| case.series.nic != **nic)
            && scene.expected.iter().all(|expected| expected.nic != **nic)
    });
    quiet
        .filter_map(|nic| {
            let rules = facts.imds.inbound(facts, facts.links.by_name(nic)?.index)?;
            let first = rules.first()?;
            let mut evidence: Vec<_> =
                rules.iter().map(|rule| evidence::of("imds", format!("inbound rule {rule}"))).collect();
            evidence.push(evidence::of(
                "packets",
                format!("no SYN of a probe entered {nic} in {:.0} s", scene.window_s),
            ));
            evidence.push(evidence::of("candidate", "an inbound NAT rule, which needs no probe"));
            let expected = Expected {
                nic: nic.clone(),
                port: first.backend_port.unwrap_or(0),
                protocol: None,
                role: Role::Active,
                rules: Rules::default(),
            };
            evidence.extend(
                candidates(scene, &expected).into_iter().map(|text| evidence::of("candidate", text)),
            );
            Some(Finding {
                code: "NOT_ARRIVING".to_owned(),
                cause: "not-arriving".to_owned(),
                severity: Severity::Warning,
                nic: Some(nic.clone()),
                out_nic: None,
                target: None,
                port: None,
                intermittent: false,
                summary: format!(
                    "Azure's metadata has load-balancer rules for {nic}, and no probe arrives there: nothing on this host can \
                     be the reason."
                ),
                evidence,
                fixes: Vec::new(),
            })
        })
        .collect()
}

/// Seconds without a SYN that tell: two of its intervals.
pub fn patience(expected: &Expected) -> f64 {
    expected.rules.interval.map_or(DEFAULT_WINDOW_S, |interval| 2.0 * interval.as_secs_f64())
}

/// What is to say when an expected probe is not among the cases.
pub fn missing(scene: &Scene<'_>, expected: &Expected) -> Option<Finding> {
    let wait = patience(expected);
    let came =
        scene.cases.iter().any(|case| case.series.nic == expected.nic && case.series.port == expected.port);
    if came || scene.window_s < wait {
        return None;
    }
    let mut evidence = vec![evidence::of(
        "packets",
        format!(
            "no SYN of a probe entered {} for port {} in {:.0} s",
            expected.nic, expected.port, scene.window_s
        ),
    )];
    if !scene.nics.contains(&expected.nic) {
        evidence.push(evidence::of(
            "nic",
            format!("{} was not looked at: there is no such NIC here", expected.nic),
        ));
    }
    let elsewhere: Vec<&str> = scene
        .cases
        .iter()
        .filter(|case| case.series.port == expected.port)
        .map(|case| case.series.nic.as_str())
        .collect();
    if !elsewhere.is_empty() {
        evidence.push(evidence::of(
            "packets",
            format!("probes of port {} do arrive on {}", expected.port, elsewhere.join(", ")),
        ));
    }
    evidence.extend(candidates(scene, expected).into_iter().map(|text| evidence::of("candidate", text)));
    Some(Finding {
        code: "NOT_ARRIVING".to_owned(),
        cause: "not-arriving".to_owned(),
        severity: Severity::Error,
        nic: Some(expected.nic.clone()),
        out_nic: None,
        target: None,
        port: Some(expected.port),
        intermittent: false,
        summary: format!(
            "The probe of port {} expected on {} does not arrive: nothing on this host can be the reason.",
            expected.port, expected.nic
        ),
        evidence,
        fixes: Vec::new(),
    })
}

/// Reasons outside of this host, likeliest first.
fn candidates(scene: &Scene<'_>, expected: &Expected) -> Vec<String> {
    let mut candidates = Vec::new();
    let http = matches!(expected.protocol, Some(Protocol::Http | Protocol::Https));
    if http && scene.profile.http_refuses().contains(&expected.port) {
        candidates.push(format!(
            "an HTTP probe on port {}: the prober refuses this port (WinHTTP) and never sends; use another port or a TCP \
             probe",
            expected.port
        ));
    }
    let (nic, port) = (&expected.nic, expected.port);
    candidates.extend(match scene.profile {
        Profile::AzureLb => vec![
            format!(
                "a network security group denies port {port} from the tag AzureLoadBalancer (the default rule 65001 allows \
                 it; a deny on VirtualNetwork or Any before it does not)"
            ),
            format!("{nic}'s IP configuration is not in the load balancer's backend pool"),
            format!("no load-balancing rule uses a probe of port {port}, or the rule has no probe at all"),
            "the VM counts as stopped: stopped VMs are not probed".to_owned(),
        ],
        Profile::AzureTrafficManager => vec![
            format!("a network security group denies port {port} from the tag AzureTrafficManager"),
            "the endpoint is disabled in its profile, or its name does not resolve to this address".to_owned(),
            "the load balancer or the translation in front does not pass the probes on to this NIC".to_owned(),
        ],
        Profile::Gcp => vec![
            format!("no firewall rule of the network allows port {port} from the probe ranges"),
            format!("{nic} is not in the backend service's instance group, or its network is another one"),
        ],
        Profile::Aws => vec![
            format!("a security group or network ACL denies port {port} from the load balancer's nodes"),
            format!("{nic} is not registered as a target, or its zone is not enabled"),
        ],
        Profile::Custom => vec![
            "a firewall outside of this host drops the probes".to_owned(),
            format!("{nic} is not among the load balancer's back ends, or its check is off"),
        ],
    });
    candidates
}
