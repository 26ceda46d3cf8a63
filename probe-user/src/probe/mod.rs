//! Pure models: observations and a clock in, verdicts out. No I/O, no globals.
//!
//! [`tracker::Tracker`] finds the attempt that each packet belongs to; [`attempt`] gathers what was seen of one probe
//! and judges it; [`series`] sums attempts up; [`interval`] tells cadences from start times.

pub mod assess;
pub mod attempt;
pub mod http;
pub mod interval;
pub mod lb_view;
pub mod request;
pub mod rules;
pub mod series;
pub mod stream;
pub mod tls;
pub mod tracker;

#[cfg(test)]
mod answers;
#[cfg(test)]
mod behind;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod testing;

pub use assess::Judgement;
pub use attempt::Attempt;
pub use lb_view::LbView;
pub use rules::{Expected, Rules};
pub use series::{Forwarded, PassedOn, Series, SeriesKey};
pub use tracker::{Config, Event, Tracker};
