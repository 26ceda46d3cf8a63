//! Faults that can be reproduced; one file each.

use super::{Result, fabric::Running, listener::Listener, misrouted, topology::Topology};

/// A fault, its story, and how to build it.
pub struct Scenario {
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// What is built, for people.
    pub story: &'static str,
    pub build: fn() -> Result<Lab>,
}

/// Every scenario.
pub const SCENARIOS: [Scenario; 1] = [misrouted::SCENARIO];

/// A running scenario. Dropping it removes everything.
pub struct Lab {
    /// Probers by NIC.
    pub probes: Vec<Running>,
    pub listeners: Vec<Listener>,
    pub topology: Topology,
}

/// Finds a scenario by name.
pub fn find(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}
