//! What the load balancer must think of the instance: a state machine over judged attempts.

use std::collections::VecDeque;

use super::rules::Rules;
use crate::report::document::{LbState, Protocol, Verdict};

/// Changes of state that make an instance fluctuate, within [`WINDOW`] attempts.
const FLAPS: usize = 3;
const WINDOW: u64 = 10;
/// Attempts without a change after which it is trusted again. Azure does not publish how long it holds one back.
const CALM: u64 = 3;

/// One judged attempt, as far as the load balancer cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// When the attempt began, ns.
    pub began_ns: u64,
    /// When it was decided, ns: at the reply, or at the end of the wait.
    pub decided_ns: u64,
    pub verdict: Verdict,
    /// The TCP handshake went well.
    pub connected: bool,
}

impl Outcome {
    fn good(&self) -> bool {
        self.verdict == Verdict::Ok
    }
}

/// The state after every outcome so far.
#[derive(Clone, Debug)]
pub struct LbView {
    fall: u32,
    rise: u32,
    /// Up or down by the thresholds alone; unknown before they say.
    state: LbState,
    successes: u32,
    failures: u32,
    attempts: u64,
    /// When `state` was entered, ns.
    changed_ns: Option<u64>,
    /// The attempts, by number, that changed the state lately.
    changes: VecDeque<u64>,
    /// Since when it fluctuates, ns.
    held_ns: Option<u64>,
    last_failure: Option<Outcome>,
    last_good: bool,
}

impl LbView {
    pub fn new(rules: &Rules) -> Self {
        Self {
            fall: rules.fall.max(1),
            rise: rules.rise.max(1),
            state: LbState::Unknown,
            successes: 0,
            failures: 0,
            attempts: 0,
            changed_ns: None,
            changes: VecDeque::new(),
            held_ns: None,
            last_failure: None,
            last_good: false,
        }
    }

    /// Takes in the next attempt's outcome.
    pub fn enter(&mut self, outcome: &Outcome) {
        self.attempts += 1;
        self.last_good = outcome.good();
        if outcome.good() {
            self.successes = self.successes.saturating_add(1);
            self.failures = 0;
        } else {
            self.failures = self.failures.saturating_add(1);
            self.successes = 0;
            self.last_failure = Some(*outcome);
        }
        let next = match self.state {
            // After boot one success is enough (Azure's custom-probe page); what was before the first attempt seen is
            // not known, so this is no change.
            LbState::Unknown if outcome.good() => LbState::Up,
            LbState::Down if self.successes >= self.rise => LbState::Up,
            LbState::Up | LbState::Unknown if self.failures >= self.fall => LbState::Down,
            same => same,
        };
        if next != self.state {
            if self.state != LbState::Unknown {
                self.changes.push_back(self.attempts);
            }
            // Nobody saw it come up; that it is down since now at the latest is certain.
            if self.state != LbState::Unknown || next == LbState::Down {
                self.changed_ns = Some(outcome.decided_ns);
            }
            self.state = next;
        }
        self.changes.retain(|number| number + WINDOW > self.attempts);
        if self.changes.len() >= FLAPS {
            self.held_ns.get_or_insert(outcome.decided_ns);
        }
        let calm = self.changes.back().is_none_or(|last| last + CALM <= self.attempts);
        if self.held_ns.is_some() && calm {
            self.held_ns = None;
            self.changes.clear();
            if self.state == LbState::Up {
                self.changed_ns = Some(outcome.decided_ns);
            }
        }
    }

    pub fn state(&self) -> LbState {
        if self.held_ns.is_some() { LbState::Held } else { self.state }
    }

    /// Since when the state lasts, ns; `None` before the first change.
    pub fn since_ns(&self) -> Option<u64> {
        self.held_ns.or(self.changed_ns)
    }

    /// Changes by the thresholds within the last ten attempts.
    pub fn changes(&self) -> u32 {
        self.changes.len() as u32
    }

    /// How many more failures in a row take it out; `None` unless it is up.
    pub fn failures_left(&self) -> Option<u32> {
        (self.state() == LbState::Up).then(|| self.fall.saturating_sub(self.failures))
    }

    /// How many more successes in a row bring it back; `None` unless it is down.
    pub fn successes_left(&self) -> Option<u32> {
        (self.state() == LbState::Down).then(|| self.rise.saturating_sub(self.successes))
    }

    /// Azure's health-status reason code
    /// (MicrosoftDocs/azure-docs, articles/load-balancer/load-balancer-manage-health-status.md).
    pub fn code(&self, protocol: Option<Protocol>) -> &'static str {
        match self.state() {
            LbState::Unknown => "NA",
            LbState::Up if self.failures > 0 => "Up_Probe_ApproachingUnhealthyThreshold",
            LbState::Up => "Up_Probe_Success",
            LbState::Down | LbState::Held if self.last_good => "Down_Probe_ApproachingHealthyThreshold",
            LbState::Down | LbState::Held => {
                self.last_failure.map_or("NA", |failure| down(&failure, protocol))
            }
        }
    }
}

/// Why it is down. Azure has one code for a TCP probe, whether it met silence or a RST.
fn down(failure: &Outcome, protocol: Option<Protocol>) -> &'static str {
    let session = failure.connected && matches!(protocol, Some(Protocol::Http | Protocol::Https));
    match failure.verdict {
        Verdict::HttpStatus => "Down_Probe_HttpStatusCodeError",
        Verdict::TlsFail => "Down_Probe_HttpEndpointUnreachable",
        Verdict::Refused | Verdict::IcmpReject if session => "Down_Probe_HttpEndpointUnreachable",
        Verdict::NoReply | Verdict::Slow | Verdict::Asymmetric if session => "Down_Probe_HttpNoResponse",
        _ => "Down_Probe_TcpProbeTimeout",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rules(fall: u32, rise: u32) -> Rules {
        Rules { fall, rise, ..Rules::default() }
    }

    fn outcome(n: usize, verdict: Verdict) -> Outcome {
        Outcome { began_ns: n as u64 * 5, decided_ns: n as u64 * 5 + 1, verdict, connected: false }
    }

    /// The states after each letter: `.` is a success, `x` a failure.
    fn states(fall: u32, rise: u32, text: &str) -> String {
        let mut view = LbView::new(&rules(fall, rise));
        let letter = |state| match state {
            LbState::Up => 'U',
            LbState::Down => 'D',
            LbState::Held => 'H',
            LbState::Unknown => '?',
        };
        text.chars()
            .enumerate()
            .map(|(n, c)| {
                view.enter(&outcome(n, if c == '.' { Verdict::Ok } else { Verdict::NoReply }));
                letter(view.state())
            })
            .collect()
    }

    #[test]
    fn s62_a_single_failure_flips_a_threshold_of_one_and_two_do_not_flip_three() {
        assert_eq!(states(1, 1, "..x"), "UUD");
        assert_eq!(states(3, 3, "..xx.xxx"), "UUUUUUUD");
        assert_eq!(states(3, 3, "xx"), "??", "what was before is not known");
        assert_eq!(states(3, 3, "xxx..."), "??DDDU");
        assert_eq!(states(4, 1, ".xxxx."), "UUUUDU", "Traffic Manager");
    }

    #[test]
    fn s63_an_instance_that_fluctuates_is_held() {
        assert_eq!(states(1, 1, ".x.x.x"), "UDUHHH");
        assert_eq!(states(1, 1, ".x.x...."), "UDUHHHHU", "three more without a change");
        assert_eq!(states(1, 1, ".x.xxxxx"), "UDUHHHDD");
        assert_eq!(states(1, 1, ".x.......x."), "UDUUUUUUUHH", "the third change within ten");
        assert_eq!(states(1, 1, ".x.........x."), "UDUUUUUUUUUDU", "long ago does not count");
    }

    #[test]
    fn times_counts_and_codes() {
        let mut view = LbView::new(&rules(2, 2));
        assert_eq!((view.state(), view.code(None), view.since_ns()), (LbState::Unknown, "NA", None));
        view.enter(&outcome(0, Verdict::Ok));
        assert_eq!(
            (view.code(None), view.since_ns(), view.failures_left()),
            ("Up_Probe_Success", None, Some(2))
        );
        view.enter(&outcome(1, Verdict::NoReply));
        assert_eq!(
            (view.code(None), view.failures_left()),
            ("Up_Probe_ApproachingUnhealthyThreshold", Some(1))
        );
        view.enter(&Outcome { connected: true, ..outcome(2, Verdict::HttpStatus) });
        let http = Some(Protocol::Http);
        assert_eq!((view.code(http), view.since_ns()), ("Down_Probe_HttpStatusCodeError", Some(11)));
        assert_eq!((view.failures_left(), view.successes_left()), (None, Some(2)));
        view.enter(&outcome(3, Verdict::Ok));
        assert_eq!(
            (view.code(http), view.successes_left()),
            ("Down_Probe_ApproachingHealthyThreshold", Some(1))
        );
        view.enter(&outcome(4, Verdict::Ok));
        assert_eq!((view.code(http), view.since_ns()), ("Up_Probe_Success", Some(21)));
    }

    #[test]
    fn each_failure_has_azures_code() {
        let code = |verdict, connected, protocol| {
            let mut view = LbView::new(&rules(1, 1));
            view.enter(&Outcome { connected, ..outcome(0, verdict) });
            view.code(Some(protocol))
        };
        assert_eq!(code(Verdict::NoReply, false, Protocol::Tcp), "Down_Probe_TcpProbeTimeout");
        assert_eq!(code(Verdict::Refused, false, Protocol::Http), "Down_Probe_TcpProbeTimeout");
        assert_eq!(code(Verdict::Asymmetric, false, Protocol::Tcp), "Down_Probe_TcpProbeTimeout");
        assert_eq!(code(Verdict::Refused, true, Protocol::Http), "Down_Probe_HttpEndpointUnreachable");
        assert_eq!(code(Verdict::TlsFail, true, Protocol::Https), "Down_Probe_HttpEndpointUnreachable");
        assert_eq!(code(Verdict::NoReply, true, Protocol::Http), "Down_Probe_HttpNoResponse");
        assert_eq!(code(Verdict::Slow, true, Protocol::Https), "Down_Probe_HttpNoResponse");
        assert_eq!(code(Verdict::HttpStatus, true, Protocol::Http), "Down_Probe_HttpStatusCodeError");
    }

    proptest! {
        /// The promise of the view, checked against the plain string of outcomes.
        #[test]
        fn never_up_with_threshold_failures_in_a_row_never_down_without(
            fall in 1u32..=10,
            rise in 1u32..=10,
            goods in prop::collection::vec(prop::bool::weighted(0.6), 0..200),
        ) {
            let mut view = LbView::new(&rules(fall, rise));
            let run = |seen: &[bool], good: bool| seen.iter().rev().take_while(|g| **g == good).count();
            // Whether, since it last could have come up, threshold failures in a row were seen.
            let mut out = false;
            for n in 0..goods.len() {
                view.enter(&outcome(n, if goods[n] { Verdict::Ok } else { Verdict::HttpStatus }));
                let seen = &goods[..=n];
                if run(seen, false) >= fall as usize {
                    out = true;
                } else if run(seen, true) >= rise as usize {
                    out = false;
                }
                match view.state() {
                    LbState::Up => {
                        prop_assert!(run(seen, false) < fall as usize);
                        prop_assert!(!out);
                        prop_assert_eq!(view.failures_left(), Some(fall - run(seen, false) as u32));
                    }
                    LbState::Down => {
                        prop_assert!(out);
                        prop_assert!(view.since_ns().is_some());
                        prop_assert_eq!(view.successes_left(), Some(rise - run(seen, true) as u32));
                    }
                    LbState::Held => prop_assert!(n >= FLAPS),
                    LbState::Unknown => prop_assert!(!seen.contains(&true) && seen.len() < fall as usize),
                }
                prop_assert_eq!(view.code(None) == "NA", view.state() == LbState::Unknown);
            }
        }

        /// Whatever happened, calm ends the hold and the thresholds speak again.
        #[test]
        fn calm_ends_a_hold(
            fall in 1u32..=10,
            rise in 1u32..=10,
            goods in prop::collection::vec(any::<bool>(), 0..100),
            last in any::<bool>(),
        ) {
            let mut view = LbView::new(&rules(fall, rise));
            let tail = std::iter::repeat_n(last, 30);
            for (n, good) in goods.iter().copied().chain(tail).enumerate() {
                view.enter(&outcome(n, if good { Verdict::Ok } else { Verdict::NoReply }));
            }
            prop_assert_eq!(view.state(), if last { LbState::Up } else { LbState::Down });
            prop_assert_eq!(view.changes() as usize >= FLAPS, false);
        }
    }
}
