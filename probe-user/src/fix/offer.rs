//! Which fixes are shown, in which order.

use super::{
    FAMILIES, Family, Intent, PolicyFix, accept, agent_firewall, backlog, iproute2, listen, netplan,
    network_manager, networkd, remove_route, sysctl,
};
use crate::{host::Facts, report::document::Fix};

/// Which families are wanted.
#[derive(Clone, Copy, Debug)]
pub enum Choice {
    /// The one that manages the NIC (the common ones where that is unknown), and `iproute2`.
    Auto,
    All,
    Only(Family),
}

/// Why a family has no words for a fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unfit(pub String);

/// Fixes, and why some that might be expected are not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    pub fixes: Vec<Fix>,
    pub unfit: Vec<(&'static str, Unfit)>,
}

/// Where nobody is known to manage a NIC.
const COMMON: &[Family] = &[netplan::FAMILY, networkd::FAMILY, network_manager::FAMILY];

impl Offer {
    fn add(&mut self, family: &Family, policies: &[PolicyFix], facts: &Facts) {
        if policies.is_empty() {
            return;
        }
        match (family.policies)(policies, facts) {
            Ok(text) => self.fixes.push(family.fix(text)),
            Err(unfit) => self.unfit.push((family.name, unfit)),
        }
    }
}

/// Everything that is wanted, one text a family: for several NICs it is one coherent file, or a block each.
pub fn offer(intents: &[Intent], facts: &Facts, choice: Choice) -> Offer {
    let mut offer = Offer::default();
    let policies = distinct(intents.iter().filter_map(|intent| match intent {
        Intent::Policy(policy) => Some(policy),
        _ => None,
    }));
    match choice {
        Choice::All => FAMILIES.iter().for_each(|family| offer.add(family, &policies, facts)),
        Choice::Only(family) => offer.add(&family, &policies, facts),
        Choice::Auto => {
            for family in FAMILIES {
                offer.add(family, &of_family(family, &policies, facts), facts);
            }
            let unmanaged: Vec<PolicyFix> =
                policies.iter().filter(|policy| Family::of(facts, &policy.nic).is_none()).cloned().collect();
            for family in COMMON {
                offer.add(family, &unmanaged, facts);
            }
            offer.add(&iproute2::FAMILY, &policies, facts);
        }
    }
    offer.fixes.extend(sysctl::fixes(intents));
    offer.fixes.extend(intents.iter().flat_map(|intent| other(intent, facts)));
    offer
}

/// For one finding, of which `policy` is the fix: the family that manages the NIC, then `iproute2`. A configuration file
/// is printed whole, with the NICs of the other findings in it: pasted twice, it is the same file.
pub fn for_finding(policy: &PolicyFix, all: &[PolicyFix], facts: &Facts) -> Vec<Fix> {
    let mut offer = Offer::default();
    let family = Family::of(facts, &policy.nic);
    if let Some(family) = &family {
        offer.add(family, &of_family(family, &distinct(all), facts), facts);
    }
    let commands = iproute2::text(std::slice::from_ref(policy), family.is_none());
    offer.fixes.push(iproute2::FAMILY.fix(commands));
    offer.fixes
}

fn of_family(family: &Family, policies: &[PolicyFix], facts: &Facts) -> Vec<PolicyFix> {
    let managed =
        |policy: &&PolicyFix| Family::of(facts, &policy.nic).is_some_and(|of| of.name == family.name);
    policies.iter().filter(managed).cloned().collect()
}

fn distinct<'a>(policies: impl IntoIterator<Item = &'a PolicyFix>) -> Vec<PolicyFix> {
    let mut distinct: Vec<PolicyFix> = Vec::new();
    for policy in policies {
        if !distinct.contains(policy) {
            distinct.push(policy.clone());
        }
    }
    distinct
}

fn other(intent: &Intent, facts: &Facts) -> Vec<Fix> {
    match intent {
        Intent::Policy(_) | Intent::Sysctl { .. } => Vec::new(),
        Intent::FirewallRule(rule) => vec![accept::fix(rule)],
        Intent::Listen(listen) => vec![listen::fix(listen)],
        Intent::Backlog { port, backlog, somaxconn, process } => {
            vec![backlog::fix(*port, *backlog, *somaxconn, process.as_deref())]
        }
        Intent::AgentFirewall { chain } => vec![agent_firewall::fix(chain)],
        Intent::RemoveRoute(route) => remove_route::fixes(route, facts),
    }
}
