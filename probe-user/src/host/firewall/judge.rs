//! What the base chains at one hook would do with a packet.

use super::{
    Action, Chain, Counter, Ruleset,
    base::{Backend, Base, CONNTRACK, Family, Hook},
    packet::{CtState, Packet},
    walk::{Possible, Walk},
};

/// Where a packet is stopped: a rule, or a chain's policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub backend: Backend,
    pub family: Family,
    pub table: String,
    /// The chain of the rule, which may be one that the base chain jumps to.
    pub chain: String,
    /// Handle (nftables) or number (legacy iptables) of the rule; `None` for the policy.
    pub handle: Option<u64>,
    /// The rule as the tool prints it, or `policy drop`.
    pub rule: String,
    /// What it has met so far; a counter that rises with every probe proves it.
    pub counter: Option<Counter>,
}

impl Place {
    /// The place in the words of the tool: table, chain, handle, rule.
    pub fn text(&self) -> String {
        let Self { table, chain, rule, .. } = self;
        match (self.backend, self.handle) {
            (Backend::Nft, Some(handle)) => {
                format!("nft table {} {table}, chain {chain}, handle {handle}: {rule}", self.family.word())
            }
            (Backend::Nft, None) => {
                format!("nft table {} {table}, chain {chain}: {rule}", self.family.word())
            }
            (Backend::Legacy, Some(number)) => {
                format!("{} -t {table}, chain {chain}, rule {number}: {rule}", self.legacy_tool())
            }
            (Backend::Legacy, None) => format!("{} -t {table}, chain {chain}: {rule}", self.legacy_tool()),
        }
    }

    const fn legacy_tool(&self) -> &'static str {
        if matches!(self.family, Family::Ip6) { "ip6tables" } else { "iptables" }
    }
}

/// What a base chain would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Accepts,
    /// It passes with other addresses; the words of the rule that changes them.
    Translates(Place),
    Drops(Place),
    Rejects(Place),
    /// Something on the way is not understood: why, and where the packet would be stopped if it comes to that.
    CannotTell {
        why: String,
        may: Vec<Place>,
    },
}

/// One base chain's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub backend: Backend,
    pub family: Family,
    pub table: String,
    pub chain: String,
    pub hook: Hook,
    pub priority: i32,
    pub outcome: Outcome,
}

impl Verdict {
    /// The place that surely stops the packet.
    pub const fn stops(&self) -> Option<&Place> {
        match &self.outcome {
            Outcome::Drops(place) | Outcome::Rejects(place) => Some(place),
            _ => None,
        }
    }
}

/// What every base chain at the packet's hook would do with it, in the order that the kernel asks them. Each answers as
/// if the packet got there: the first one that [stops](Verdict::stops) it decides.
pub fn blocking(ruleset: &Ruleset, packet: &Packet) -> Vec<Verdict> {
    passing(ruleset, packet, &[packet.hook]).0
}

/// The same for several hooks, one after the other: marks that are set at one are seen at the next. And the packet as it
/// gets through, with its marks and its state.
pub fn passing(ruleset: &Ruleset, packet: &Packet, hooks: &[Hook]) -> (Vec<Verdict>, Packet) {
    let mut passage = Passage { ruleset, packet: packet.clone(), translated: false, verdicts: Vec::new() };
    for hook in hooks {
        passage.packet.hook = *hook;
        passage.hook();
    }
    (passage.verdicts, passage.packet)
}

struct Passage<'a> {
    ruleset: &'a Ruleset,
    packet: Packet,
    /// The addresses may have changed.
    translated: bool,
    verdicts: Vec<Verdict>,
}

impl<'a> Passage<'a> {
    fn hook(&mut self) {
        let v4 = self.packet.from.is_ipv4();
        let mut bases: Vec<_> = self
            .ruleset
            .chains
            .iter()
            .filter_map(|chain| Some((chain, chain.base.as_ref()?)))
            .filter(|(chain, base)| {
                base.hook == self.packet.hook
                    && chain.family.sees(v4)
                    && base.active != Some(false)
                    && at_device(base, &self.packet) != Some(false)
            })
            .collect();
        // Which of two with equal priority comes first is not told: they keep the order of the listing.
        bases.sort_by_key(|(_, base)| base.priority);
        for (chain, base) in bases {
            // Only the first packet of a connection meets the nat chains (net/netfilter/nf_nat_core.c,
            // nf_nat_inet_fn).
            let first = |state| matches!(state, CtState::New | CtState::Related);
            if base.kind != "nat" || self.packet.ct_state.is_none_or(first) {
                self.base_chain(chain, base);
            }
        }
    }

    /// The state as a chain sees it: before conntrack it reads as invalid (net/netfilter/nft_ct.c, nft_ct_get_eval),
    /// except for what loops back and has been seen at output.
    fn ct_state(&self, base: &Base) -> Option<CtState> {
        let early = matches!(base.hook, Hook::Prerouting | Hook::Output) && base.priority < CONNTRACK
            || base.hook == Hook::Ingress;
        if !early || self.packet.ct_state == Some(CtState::Untracked) {
            return self.packet.ct_state;
        }
        let loops = base.hook != Hook::Output && self.packet.device_in().is_none_or(|(_, name)| name == "lo");
        (!loops).then_some(CtState::Invalid)
    }

    fn base_chain(&mut self, chain: &'a Chain, base: &'a Base) {
        let ct_state = self.ct_state(base);
        let seen = Packet { ct_state, ..self.packet.clone() };
        let mut walk = Walk::new(self.ruleset, seen);
        let settled = walk.chain(chain, 0);
        let policy = (!settled).then(|| Place {
            backend: chain.backend,
            family: chain.family,
            table: chain.table.clone(),
            chain: chain.name.clone(),
            handle: None,
            rule: format!("policy {}", if base.drops { "drop" } else { "accept" }),
            counter: base.counter,
        });
        let doubt = if self.translated {
            Some("a chain before may have changed the addresses")
        } else if at_device(base, &self.packet).is_none() {
            Some("the chain is bound to devices, and which, or the packet's, is not known")
        } else if base.active.is_none() {
            Some("the table has flags that are not understood: it may be dormant")
        } else if walk.too_complex {
            Some("the chains jump too deep or too often to follow")
        } else {
            None
        };
        let outcome = outcome(&walk, base, policy, doubt);
        self.translated |=
            walk.possible.iter().any(|possible| matches!(possible.action, Action::Translate(_)));
        self.packet.mark = walk.packet.mark;
        self.packet.ct_mark = walk.packet.ct_mark;
        // Nothing but notrack changes the state.
        if walk.packet.ct_state != ct_state {
            self.packet.ct_state = walk.packet.ct_state;
        }
        self.verdicts.push(Verdict {
            backend: chain.backend,
            family: chain.family,
            table: chain.table.clone(),
            chain: chain.name.clone(),
            hook: base.hook,
            priority: base.priority,
            outcome,
        });
    }
}

/// Whether a chain that is bound to devices meets the packet; `None` when its device is not known.
fn at_device(base: &Base, packet: &Packet) -> Option<bool> {
    let devices = base.devices.as_ref()?;
    if devices.is_empty() {
        return Some(true);
    }
    let device = if base.hook == Hook::Egress { packet.device_out() } else { packet.device_in() };
    let (_, name) = device?;
    Some(devices.iter().any(|device| device == name))
}

fn outcome(walk: &Walk<'_>, base: &Base, policy: Option<Place>, doubt: Option<&str>) -> Outcome {
    let any = |wanted: fn(&Action) -> bool| walk.possible.iter().any(|possible| wanted(possible.action));
    let policy_drops = policy.is_some() && base.drops;
    let accepts = any(|action| *action == Action::Accept) || policy.is_some() && !base.drops;
    let drops = any(|action| *action == Action::Drop) || policy_drops;
    let rejects = any(|action| matches!(action, Action::Reject(_)));
    let translates = any(|action| matches!(action, Action::Translate(_)));
    let others = any(|action| matches!(action, Action::Other(_)));

    // The last is the one that is reached for sure, if any other before it is not.
    let last = policy.clone().or_else(|| walk.possible.last().map(place));
    if let (None, Some(last), false) = (doubt, last, others) {
        match (accepts, drops, rejects, translates) {
            (true, false, false, false) => return Outcome::Accepts,
            (false, true, false, false) => return Outcome::Drops(last),
            (false, false, true, false) => return Outcome::Rejects(last),
            (false, false, false, true) => return Outcome::Translates(last),
            _ => {}
        }
    }
    let stops = |possible: &&Possible<'_>| matches!(possible.action, Action::Drop | Action::Reject(_));
    let mut may: Vec<Place> = walk.possible.iter().filter(stops).map(place).collect();
    may.extend(policy.filter(|_| base.drops));
    Outcome::CannotTell { why: why(walk, doubt), may }
}

fn why(walk: &Walk<'_>, doubt: Option<&str>) -> String {
    let other = walk.possible.iter().find_map(|possible| match possible.action {
        Action::Other(words) if !words.is_empty() => Some(format!(
            "rule {} of chain {} leaves it to `{words}`",
            possible.rule.handle, possible.chain.name
        )),
        _ => None,
    });
    doubt
        .map(str::to_owned)
        .or(other)
        .or_else(|| walk.doubt.clone())
        .unwrap_or_else(|| "the rules contradict each other".to_owned())
}

fn place(possible: &Possible<'_>) -> Place {
    Place {
        backend: possible.chain.backend,
        family: possible.chain.family,
        table: possible.chain.table.clone(),
        chain: possible.chain.name.clone(),
        handle: Some(possible.rule.handle),
        rule: possible.rule.text.clone(),
        counter: possible.rule.counter,
    }
}
