//! What a prober concludes from its own attempts: the oracle for the load balancer's view.

use super::probe_log::{AttemptLog, Outcome};

/// How many answers in a row change a prober's mind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counting {
    /// Failures in a row that take the target out.
    pub fall: usize,
    /// Successes in a row that bring it back; the very first success is enough at the beginning.
    pub rise: usize,
}

impl Counting {
    /// Azure Load Balancer: one number for both ways (`probeThreshold`).
    pub fn threshold(threshold: usize) -> Self {
        Self { fall: threshold, rise: threshold }
    }

    /// Traffic Manager: the failure after the tolerated ones counts, one success brings it back.
    pub fn tolerating(failures: usize) -> Self {
        Self { fall: failures + 1, rise: 1 }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nothing decided yet.
    #[default]
    Unknown,
    Up,
    Down,
}

/// Where a prober's mind is, and how it came there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    pub state: State,
    /// The attempt that changed it, by number, and to what.
    pub changes: Vec<(usize, State)>,
    /// Failures in a row at the end.
    pub failures: usize,
    /// Successes in a row at the end.
    pub successes: usize,
}

impl View {
    /// Counts the judged attempts of a log.
    pub fn of(log: &[AttemptLog], counting: Counting) -> Self {
        let mut view = Self::default();
        for attempt in log.iter().filter(|attempt| attempt.outcome != Outcome::Pending) {
            if attempt.answered() {
                view.failures = 0;
                view.successes += 1;
            } else {
                view.successes = 0;
                view.failures += 1;
            }
            let enough = if view.state == State::Unknown { 1 } else { counting.rise };
            let next = if view.failures >= counting.fall {
                State::Down
            } else if view.successes >= enough {
                State::Up
            } else {
                view.state
            };
            if next != view.state {
                view.state = next;
                view.changes.push((attempt.number, next));
            }
        }
        view
    }
}
