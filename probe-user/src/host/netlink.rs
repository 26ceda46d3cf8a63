//! The route netlink connection. rtnetlink's API breaks every minor version, so nothing above `host` sees it.

use std::time::Duration;

use rtnetlink::{Handle, MulticastGroup, new_connection, new_multicast_connection};
use thiserror::Error;

#[derive(Debug, Error)]
pub enum NetlinkError {
    #[error("cannot open a netlink socket: {0}")]
    Open(#[from] std::io::Error),
    #[error("netlink refused to list {what}: {source}")]
    Request { what: &'static str, source: rtnetlink::Error },
    #[error("netlink did not answer within 5 s when asked for {0}")]
    Silent(&'static str),
}

/// A connection to the network namespace of the thread that opened it.
#[derive(Clone, Debug)]
pub struct Netlink {
    pub handle: Handle,
}

/// Opens a connection; its task runs on the current tokio runtime.
pub fn connect() -> Result<Netlink, NetlinkError> {
    let (connection, handle, _) = new_connection()?;
    tokio::spawn(connection);
    Ok(Netlink { handle })
}

/// Runs one request with a bound: a lost netlink message must not hang a report.
pub(super) async fn within<T>(
    what: &'static str,
    request: impl Future<Output = Result<T, rtnetlink::Error>>,
) -> Result<T, NetlinkError> {
    match tokio::time::timeout(Duration::from_secs(5), request).await {
        Ok(result) => result.map_err(|source| NetlinkError::Request { what, source }),
        Err(_) => Err(NetlinkError::Silent(what)),
    }
}

/// Tells when links or addresses change.
#[derive(Debug)]
pub struct Watch {
    changes: tokio::sync::mpsc::Receiver<()>,
}

impl Watch {
    /// Subscribes in the calling thread's network namespace.
    pub fn start() -> Result<Self, NetlinkError> {
        use futures_util::StreamExt;
        let (connection, handle, mut messages) = new_multicast_connection(&[MulticastGroup::Link])?;
        tokio::spawn(connection);
        // One waiting notice is enough: whoever hears it reads everything anew. A message lost to a full socket
        // (ENOBUFS) therefore only delays; the next one catches up.
        let (notify, changes) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            let _keep = handle;
            while messages.next().await.is_some() {
                if let Err(tokio::sync::mpsc::error::TrySendError::Closed(())) = notify.try_send(()) {
                    return;
                }
            }
        });
        Ok(Self { changes })
    }

    /// Waits for the next change; for ever when the subscription has ended.
    pub async fn changed(&mut self) {
        if self.changes.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}
