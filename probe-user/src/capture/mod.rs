//! capture

pub mod object;
