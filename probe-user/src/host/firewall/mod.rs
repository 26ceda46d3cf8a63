//! The packet filter: every chain of nftables and of the legacy iptables, and what it would do with a packet.

mod base;
mod elements;
mod iptables;
mod judge;
mod legacy;
mod matching;
mod nfnetlink;
mod nft;
mod nft_expr;
mod nft_hidden;
mod nft_sets;
mod packet;
mod read;
mod text;
mod tool;
mod walk;

pub use base::{Backend, Base, Family, Hook};
pub use elements::{Column, Element, Field, Match};
pub use judge::{Outcome, Place, Verdict, blocking, passing};
pub use packet::{CtState, Device, Owner, Packet, TCP_ACK, TCP_RST, TCP_SYN};
pub(super) use read::read;

/// Packets and bytes that a rule, or a policy, has met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    pub packets: u64,
    pub bytes: u64,
}

/// What becomes of a packet that gets this far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Accept,
    Drop,
    /// With what: `tcp reset`, `icmp-port-unreachable`.
    Reject(String),
    /// Its addresses change, and it passes.
    Translate(String),
    Jump(String),
    Goto(String),
    Return,
    Continue,
    /// It is settled elsewhere, or in a way that is not understood: these words.
    Other(String),
}

/// One part of a rule, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    Match(Match),
    /// A condition that is not understood, or depends on more than the packet: these words.
    Uncertain(String),
    Act(Action),
    /// A verdict map: the first row that matches says what is done.
    Map {
        columns: Vec<Column>,
        rows: Vec<(Vec<Element>, Action)>,
    },
    /// The packet's mark changes: to this, or to something unknown.
    SetMark(Option<u32>),
    /// The connection's mark changes.
    SetCtMark,
    Notrack,
    /// Counters, logs and the like: nothing that decides.
    Neutral,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// nftables: its handle. Legacy iptables: its number in the chain, as `iptables -L --line-numbers` shows.
    pub handle: u64,
    /// As the tool prints it, without its handle.
    pub text: String,
    pub counter: Option<Counter>,
    pub statements: Vec<Statement>,
}

/// One chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    pub backend: Backend,
    pub family: Family,
    pub table: String,
    pub name: String,
    /// Where it is hooked in; `None` for chains that others jump to.
    pub base: Option<Base>,
    pub rules: Vec<Rule>,
}

/// Every chain of a network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ruleset {
    pub chains: Vec<Chain>,
    /// What may be there and was not looked at, and why. While this is not empty, no drop that was found does not mean
    /// that there is none.
    pub unread: Vec<String>,
}

impl Ruleset {
    /// A chain of the same table.
    fn sibling(&self, chain: &Chain, name: &str) -> Option<&Chain> {
        self.chains.iter().find(|other| {
            other.name == name
                && other.table == chain.table
                && other.family == chain.family
                && other.backend == chain.backend
        })
    }
}

#[cfg(test)]
mod firewall_tests;
