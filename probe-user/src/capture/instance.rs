//! One observer per network namespace.
//!
//! The lock is an abstract unix socket: abstract names belong to the network namespace
//! (`unix(7)`), and the kernel frees the name whatever way the holder dies.

use std::{
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener, UnixStream},
    },
    time::Duration,
};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use thiserror::Error;

const NAME: &[u8] = b"nvaprobe";
/// How long a holder may take to be gone, and how often that is looked at.
const PATIENCE: Duration = Duration::from_millis(300);
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug, Error)]
pub enum InstanceError {
    #[error(
        "another nvaprobe observes this network namespace already ({holder}); stop it first, or ask it for its report"
    )]
    Taken { holder: String },
    #[error("cannot take the lock of this network namespace (abstract socket @nvaprobe): {0}")]
    Socket(#[from] std::io::Error),
}

/// Held for as long as this process observes.
#[derive(Debug)]
pub struct Instance {
    _listener: UnixListener,
}

impl Instance {
    /// Takes the lock of the calling thread's network namespace, or names the process that has it.
    pub fn take() -> Result<Self, InstanceError> {
        let address = SocketAddr::from_abstract_name(NAME)?;
        let mut patience = PATIENCE;
        loop {
            match UnixListener::bind_addr(&address) {
                Ok(listener) => return Ok(Self { _listener: listener }),
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                    match patience.checked_sub(PAUSE) {
                        // A holder that was just killed may not be gone yet.
                        Some(left) => {
                            patience = left;
                            std::thread::sleep(PAUSE);
                        }
                        None => return Err(InstanceError::Taken { holder: holder(&address) }),
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Who listens there: `SO_PEERCRED` of a connected socket gives the listener's pid.
fn holder(address: &SocketAddr) -> String {
    let pid = UnixStream::connect_addr(address)
        .ok()
        .and_then(|stream| getsockopt(&stream, PeerCredentials).ok())
        .map(|credentials| credentials.pid());
    match pid {
        // 0: the holder lives in another pid namespace.
        Some(pid) if pid > 0 => {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            format!("pid {pid} {}", name.trim_end()).trim_end().to_owned()
        }
        _ => "in another pid namespace".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_instance_is_refused_by_pid_and_a_freed_one_is_not() {
        let first = Instance::take().expect("nobody else observes in the test's namespace");
        let error = Instance::take().expect_err("the name is taken").to_string();
        assert!(error.contains(&format!("pid {}", std::process::id())), "{error}");
        drop(first);
        Instance::take().expect("free again");
    }
}
