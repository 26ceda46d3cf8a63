//! Tells when devices come, go or change.

use futures_util::StreamExt;
use rtnetlink::{MulticastGroup, new_multicast_connection};
use tokio::sync::mpsc::{Receiver, channel, error::TrySendError};

use super::HostError;

/// A subscription to link changes of the namespace that it was made in.
#[derive(Debug)]
pub struct Watch {
    changes: Receiver<()>,
}

impl Watch {
    /// Subscribes in the calling thread's network namespace.
    pub fn start() -> Result<Self, HostError> {
        let (connection, handle, mut messages) =
            new_multicast_connection(&[MulticastGroup::Link]).map_err(HostError::Socket)?;
        tokio::spawn(connection);
        // One waiting notice is enough: whoever hears it reads everything anew. A message lost to a full socket
        // (ENOBUFS) therefore only delays; the next one catches up.
        let (notify, changes) = channel(1);
        tokio::spawn(async move {
            let _keep = handle;
            while messages.next().await.is_some() {
                if let Err(TrySendError::Closed(())) = notify.try_send(()) {
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
