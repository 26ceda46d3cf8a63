//! What to type: one file an OS family. Pure: facts in, text out.

pub mod iproute2;
mod policy;

pub use policy::PolicyFix;

use crate::{diagnose::Case, host::lookup::Lookup, report::document::Fix};

/// One OS family's form of the policy-routing fix.
type Family = fn(&PolicyFix) -> Fix;

/// The families.
const FAMILIES: [Family; 1] = [iproute2::fix];

/// The fixes for a misrouted reply, one a family.
pub fn for_route(case: &Case<'_>, lookup: &Lookup) -> Vec<Fix> {
    match PolicyFix::plan(case.facts, &case.series.nic, lookup, &case.series.source) {
        Some(plan) => FAMILIES.iter().map(|family| family(&plan)).collect(),
        None => Vec::new(),
    }
}
