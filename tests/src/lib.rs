//! Shared helpers of the nvaprobe test suite.

pub mod captured;
pub mod fault;
pub mod kernel;
pub mod namespace;
pub mod observe;
pub mod packets;
pub mod process;
pub mod traffic;
pub mod vm;
