//! The laboratory: network namespaces, a user-space Azure host behind each NIC, and probe senders.
//!
//! Everything lives in anonymous namespaces that only file descriptors of this process hold, so nothing can
//! outlive it, however it ends. Used by `nvaprobe lab` and by the namespace tests.

mod attempt;
mod engine;
mod error;
pub mod ethtool;
mod exchange;
pub mod fabric;
pub mod listener;
pub mod misrouted;
mod neighbour;
pub mod netlink;
pub mod netns;
mod packet_socket;
mod platform;
mod probe;
pub mod probe_log;
pub mod prober;
pub mod proxy;
mod recorder;
pub mod route;
pub mod scenario;
pub mod signature;
pub mod sysctl;
pub mod tls;
pub mod topology;
pub mod tun;
pub mod view;
pub mod wire;

pub use error::Error;

/// Results of laboratory operations.
pub type Result<T> = std::result::Result<T, Error>;
