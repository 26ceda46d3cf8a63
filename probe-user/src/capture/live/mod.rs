//! The kernel half, attached: programs on devices, the ring, the counters.

pub mod btf;
pub mod clsact;
pub mod drops;
pub mod flow_table;
pub mod guardian;
pub mod load;
pub mod mode;

mod attach;
mod observer;

pub use attach::{AttachError, Attachment, Target};
pub use observer::{ObserveError, Observer, Options};
