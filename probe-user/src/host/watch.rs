//! Tells when devices, addresses, rules or routes come, go or change.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use futures_util::StreamExt;
use rtnetlink::{
    MulticastGroup, new_multicast_connection, packet_core::NetlinkPayload, packet_route::RouteNetlinkMessage,
};
use tokio::sync::Notify;

use super::HostError;

const GROUPS: [MulticastGroup; 7] = [
    MulticastGroup::Link,
    MulticastGroup::Ipv4Ifaddr,
    MulticastGroup::Ipv6Ifaddr,
    MulticastGroup::Ipv4Route,
    MulticastGroup::Ipv6Route,
    MulticastGroup::Ipv4Rule,
    MulticastGroup::Ipv6Rule,
];

/// What was heard of since the last notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Devices came, went or changed.
    pub links: bool,
    /// When the first of it was heard of.
    pub since: Instant,
}

#[derive(Debug, Default)]
struct Pending {
    notice: Mutex<Option<Notice>>,
    heard: Notify,
}

impl Pending {
    fn notice(&self) -> std::sync::MutexGuard<'_, Option<Notice>> {
        // Nothing can panic under the lock, and a notice is whole at every point.
        self.notice.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear(&self, links: bool) {
        let mut notice = self.notice();
        let former = notice.get_or_insert(Notice { links, since: Instant::now() });
        former.links |= links;
        drop(notice);
        self.heard.notify_one();
    }
}

/// A subscription to changes of the namespace that it was made in.
#[derive(Debug)]
pub struct Watch {
    pending: Arc<Pending>,
    listening: tokio::task::JoinHandle<()>,
}

impl Watch {
    /// Subscribes in the calling thread's network namespace.
    pub fn start() -> Result<Self, HostError> {
        let (connection, handle, mut messages) =
            new_multicast_connection(&GROUPS).map_err(HostError::Socket)?;
        tokio::spawn(connection);
        let pending = Arc::new(Pending::default());
        let to = Arc::clone(&pending);
        // What is heard is only that something changed: whoever gets the notice reads everything anew. A message lost to a
        // full socket (ENOBUFS) therefore only delays; the next one catches up.
        let listening = tokio::spawn(async move {
            let _keep = handle;
            while let Some((message, _)) = messages.next().await {
                if let NetlinkPayload::InnerMessage(message) = message.payload {
                    to.hear(is_of_link(&message));
                }
            }
        });
        Ok(Self { pending, listening })
    }

    /// Waits for the next change; for ever when the subscription has ended. May be given up and asked again at any time.
    pub async fn changed(&mut self) -> Notice {
        loop {
            if let Some(notice) = self.pending.notice().take() {
                return notice;
            }
            self.pending.heard.notified().await;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

const fn is_of_link(message: &RouteNetlinkMessage) -> bool {
    matches!(
        message,
        RouteNetlinkMessage::NewLink(_) | RouteNetlinkMessage::DelLink(_) | RouteNetlinkMessage::SetLink(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn notices_add_up_until_they_are_taken() {
        let pending = Arc::new(Pending::default());
        let mut watch = Watch { pending: Arc::clone(&pending), listening: tokio::spawn(async {}) };
        pending.hear(false);
        pending.hear(true);
        pending.hear(false);
        let notice = watch.changed().await;
        assert!(notice.links);
        let waited = tokio::time::timeout(std::time::Duration::from_millis(20), watch.changed()).await;
        assert!(waited.is_err(), "everything was told: {waited:?}");
        pending.hear(false);
        let next = watch.changed().await;
        assert!(!next.links && next.since >= notice.since);
    }
}
