//! A packet's way through one chain and those that it jumps to: everything that may become of it.

use super::{
    Action, Chain, Column, Element, Rule, Ruleset, Statement,
    matching::{Truth, holds, row},
    packet::{CtState, Packet},
};

/// As many nested jumps as the kernel allows (net/netfilter: `NFT_JUMP_STACK_SIZE`).
const DEPTH: usize = 16;
/// Enough for any real ruleset; one that jumps in ever new ways is given up.
const STEPS: usize = 200_000;

/// Stands for what a chain does that is not listed.
static MISSING: Action = Action::Other(String::new());

/// What may happen, in which rule.
pub(super) struct Possible<'a> {
    pub(super) action: &'a Action,
    pub(super) chain: &'a Chain,
    pub(super) rule: &'a Rule,
}

pub(super) struct Walk<'a> {
    pub(super) ruleset: &'a Ruleset,
    /// The packet, with the marks that rules have given it.
    pub(super) packet: Packet,
    pub(super) possible: Vec<Possible<'a>>,
    /// The first thing on the way that could not be told.
    pub(super) doubt: Option<String>,
    /// Given up for its size or its depth.
    pub(super) too_complex: bool,
    steps: usize,
}

impl<'a> Walk<'a> {
    pub(super) const fn new(ruleset: &'a Ruleset, packet: Packet) -> Self {
        Self { ruleset, packet, possible: Vec::new(), doubt: None, too_complex: false, steps: 0 }
    }

    /// Whether the packet's fate is surely settled in this chain.
    pub(super) fn chain(&mut self, chain: &'a Chain, depth: usize) -> bool {
        if depth > DEPTH {
            self.too_complex = true;
            return false;
        }
        // Somebody may leave this chain early: then what follows settles nothing for sure.
        let mut may_leave = false;
        for rule in &chain.rules {
            self.steps += 1;
            if self.steps > STEPS {
                self.too_complex = true;
                return false;
            }
            match self.rule(chain, rule, depth) {
                Step::Next => {}
                Step::MayLeave => may_leave = true,
                Step::Leave => return false,
                Step::Settled => return !may_leave,
            }
        }
        false
    }

    fn rule(&mut self, chain: &'a Chain, rule: &'a Rule, depth: usize) -> Step {
        let mut sure = true;
        for statement in &rule.statements {
            match statement {
                Statement::Match(condition) => {
                    match holds(&self.packet, &condition.columns, &condition.rows, condition.negated) {
                        Truth::Yes => {}
                        Truth::No => return Step::Next,
                        Truth::Unknown => {
                            sure = false;
                            self.doubt(chain, rule, &condition.text);
                        }
                    }
                }
                Statement::Uncertain(words) => {
                    sure = false;
                    self.doubt(chain, rule, words);
                }
                Statement::Act(action) => match self.act(chain, rule, action, sure, depth) {
                    Step::Next => {}
                    step => return step,
                },
                Statement::Map { columns, rows } => {
                    return self.map(chain, rule, (columns, rows), sure, depth);
                }
                // After any doubt the packet may have gone another way, past this rule.
                Statement::SetMark(mark) => self.packet.mark = mark.filter(|_| self.doubt.is_none()),
                Statement::SetCtMark => self.packet.ct_mark = None,
                Statement::Notrack => {
                    self.packet.ct_state = self.doubt.is_none().then_some(CtState::Untracked);
                }
                Statement::Neutral => {}
            }
        }
        Step::Next
    }

    /// A map that has no row for the packet ends the rule (net/netfilter/nft_lookup.c).
    fn map(
        &mut self,
        chain: &'a Chain,
        rule: &'a Rule,
        (columns, rows): (&'a [Column], &'a [(Vec<Element>, Action)]),
        sure: bool,
        depth: usize,
    ) -> Step {
        let (mut may_leave, mut sure) = (false, sure);
        for (elements, action) in rows {
            match row(&self.packet, columns, elements) {
                None => break,
                Some(Truth::No) => {}
                Some(Truth::Unknown) => {
                    self.doubt(chain, rule, &rule.text);
                    may_leave |= self.act(chain, rule, action, false, depth) == Step::MayLeave;
                    sure = false;
                }
                Some(Truth::Yes) => {
                    let step = self.act(chain, rule, action, sure, depth);
                    return if may_leave { Step::MayLeave } else { step };
                }
            }
        }
        if may_leave { Step::MayLeave } else { Step::Next }
    }

    fn act(
        &mut self,
        chain: &'a Chain,
        rule: &'a Rule,
        action: &'a Action,
        sure: bool,
        depth: usize,
    ) -> Step {
        match action {
            Action::Continue => Step::Next,
            Action::Return if sure => Step::Leave,
            Action::Return => Step::MayLeave,
            Action::Jump(name) | Action::Goto(name) => {
                let goto = matches!(action, Action::Goto(_));
                let Some(target) = self.ruleset.sibling(chain, name) else {
                    self.doubt(chain, rule, &format!("chain {name}, which is not listed"));
                    self.possible.push(Possible { action: &MISSING, chain, rule });
                    return if goto { Step::MayLeave } else { Step::Next };
                };
                let settled = self.chain(target, depth + 1);
                match (settled && sure, goto) {
                    (true, _) => Step::Settled,
                    (false, false) => Step::Next,
                    (false, true) if sure => Step::Leave,
                    (false, true) => Step::MayLeave,
                }
            }
            Action::Accept | Action::Drop | Action::Reject(_) | Action::Translate(_) | Action::Other(_) => {
                self.possible.push(Possible { action, chain, rule });
                if sure { Step::Settled } else { Step::Next }
            }
        }
    }

    fn doubt(&mut self, chain: &Chain, rule: &Rule, words: &str) {
        self.doubt.get_or_insert_with(|| {
            format!("rule {} of chain {} depends on `{words}`", rule.handle, chain.name)
        });
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Next,
    /// Perhaps the rest of the chain is not met.
    MayLeave,
    Leave,
    Settled,
}
