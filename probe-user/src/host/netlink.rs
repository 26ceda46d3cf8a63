//! The netlink connection: the only place that opens rtnetlink.

use std::{io, time::Duration};

use futures_util::{Stream, TryStreamExt};
use rtnetlink::{Handle, packet_core::ErrorMessage};
use tokio::task::JoinHandle;

/// The kernel answers at once or not at all; a reply that cannot be decoded never comes.
const PATIENCE: Duration = Duration::from_secs(2);

/// A connection bound to the network namespace it was opened in.
pub struct Netlink {
    pub handle: Handle,
    driver: JoinHandle<()>,
}

impl Netlink {
    /// Opens a connection in the current thread's network namespace.
    pub fn open() -> io::Result<Self> {
        let (connection, handle, _messages) = rtnetlink::new_connection()?;
        Ok(Self { handle, driver: tokio::spawn(connection) })
    }
}

impl Drop for Netlink {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Why a request failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The kernel refused, with this errno (positive).
    Errno(i32),
    /// Anything else: no answer, an answer that makes no sense.
    Other(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Errno(errno) => io::Error::from_raw_os_error(*errno).fmt(f),
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// Every message of a dump, or of an answer.
pub(super) async fn collect<T>(
    stream: impl Stream<Item = Result<T, rtnetlink::Error>>,
) -> Result<Vec<T>, Failure> {
    match tokio::time::timeout(PATIENCE, stream.try_collect()).await {
        Ok(Ok(messages)) => Ok(messages),
        Ok(Err(rtnetlink::Error::NetlinkError(ErrorMessage { code: Some(code), .. }))) => {
            Err(Failure::Errno(code.get().saturating_abs()))
        }
        Ok(Err(error)) => Err(Failure::Other(error.to_string())),
        Err(_) => Err(Failure::Other("netlink gave no answer within 2 s".to_owned())),
    }
}
