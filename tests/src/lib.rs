//! Shared helpers of the nvaprobe test suite.

pub mod fault;
pub mod kernel;
pub mod observe;
pub mod packets;
pub mod process;
pub mod vm;
