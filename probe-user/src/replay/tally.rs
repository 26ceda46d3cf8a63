//! Counts of a replay's packets, by what became of them.

use probe_common::{
    counters::{Counters, Outcome},
    observation::{Direction, flags},
    parse::Kind,
};

use super::sighting::Sighting;
use crate::report::document::Platform;

/// Packets of all files together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// As a program of the kernel half counts: they reconcile.
    pub counters: Counters,
    pub platform: Platform,
    /// TCP segments from or to a source, whatever became of them.
    pub syn: u64,
    pub syn_ack: u64,
    pub rst: u64,
}

impl Tally {
    pub(super) fn count(&mut self, outcome: Outcome) {
        if let Some(count) = self.counters.outcomes.get_mut(outcome as usize) {
            *count += 1;
        }
    }

    pub(super) fn sighted(&mut self, sighting: &Sighting, outcome: Outcome) {
        self.count(outcome);
        if outcome == Outcome::IgnoredPlatform {
            match sighting.place.direction {
                Direction::Ingress => self.platform.packets_in += 1,
                Direction::Egress => self.platform.packets_out += 1,
            }
        }
        let transport = &sighting.headers.transport;
        if transport.kind == Kind::Tcp {
            match transport.tcp.flags & (flags::SYN | flags::ACK | flags::RST) {
                flags::SYN => self.syn += 1,
                kind if kind == flags::SYN | flags::ACK => self.syn_ack += 1,
                kind if kind & flags::RST != 0 => self.rst += 1,
                _ => {}
            }
        }
    }
}
