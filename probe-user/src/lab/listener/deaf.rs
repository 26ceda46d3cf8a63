//! A listener that accepts nobody: what a service that hangs, or a bare `nc`, looks like to the prober.

use std::net::{SocketAddr, TcpListener};

use nix::sys::socket::Backlog;

use super::{Error, Namespace, Result, open};

/// A listening socket that nobody serves; it ends when this is dropped.
#[derive(Debug)]
pub struct Deaf {
    listener: TcpListener,
}

impl Deaf {
    /// Listens on `address` inside the namespace. The kernel completes `backlog` + 1 handshakes and drops every later
    /// SYN (net/sock.h, `sk_acceptq_is_full`).
    pub fn start(namespace: &Namespace, address: SocketAddr, backlog: u16) -> Result<Self> {
        let backlog = Backlog::new(i32::from(backlog))
            .map_err(|e| Error::system(format!("listen with a backlog of {backlog}"), e))?;
        Ok(Self { listener: namespace.run(|| open(address, None, backlog))?? })
    }

    /// Where it listens.
    pub fn address(&self) -> Result<SocketAddr> {
        self.listener.local_addr().map_err(|e| Error::system("read a listener's address", e))
    }
}
