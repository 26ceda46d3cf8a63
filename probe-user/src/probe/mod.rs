//! Pure models: observations and a clock in, verdicts out. No I/O, no globals.
//!
//! [`tracker::Tracker`] finds the attempt that each packet belongs to; [`attempt`] gathers what was seen of one probe
//! and judges it; [`series`] sums attempts up; [`interval`] tells cadences from start times.

pub mod attempt;
pub mod interval;
pub mod request;
pub mod rules;
pub mod series;
pub mod tracker;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod testing;

pub use attempt::{Attempt, Judgement};
pub use series::{Series, SeriesKey};
pub use tracker::{Config, Event, Tracker};
