//! This host's own connections to the platform that wait for an answer: seen several times, for one that is merely young,
//! or whose first SYN was lost, is none.

use std::{collections::BTreeMap, net::SocketAddr};

use ipnet::IpNet;

use super::boot_ns;
use crate::{
    diagnose::condition::{PLATFORM, Waits},
    host::{
        self, Facts,
        lookup::{Query, RouteLookup},
        sockets::Connecting,
    },
    source::Source,
};

const EVERY_NS: u64 = 1_000_000_000;
/// A SYN is sent again after one second (RFC 6298, 2): what waits for longer lost more than one.
const LONG_NS: u64 = 1_300_000_000;
/// Connections kept as evidence.
const KEPT: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Waiting {
    platform: Option<IpNet>,
    next_ns: u64,
    /// The platform's packets out when last looked.
    packets_out: u64,
    /// First and last time each connection was seen to wait; those that waited for long stay.
    seen: BTreeMap<(SocketAddr, SocketAddr), (u64, u64)>,
}

impl Waiting {
    /// Looks at connections to Azure's platform, if that is a source.
    pub(super) fn new(sources: &[Source]) -> Self {
        let platform = sources.iter().map(|source| source.net).find(|net| *net == IpNet::from(PLATFORM));
        Self { platform, ..Self::default() }
    }

    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        self.platform.is_some() && now_ns >= self.next_ns
    }

    /// Looks at the sockets, if there are packets that tell of connections.
    pub(super) fn look(&mut self, now_ns: u64, packets_out: u64) {
        let Some(platform) = self.platform else { return };
        self.next_ns = now_ns.saturating_add(EVERY_NS);
        let quiet = packets_out == self.packets_out && self.seen.is_empty();
        self.packets_out = packets_out;
        if quiet {
            return;
        }
        match host::connecting(&[platform]) {
            Ok(connecting) => self.note(now_ns, &connecting),
            Err(error) => tracing::debug!("{error}"),
        }
    }

    /// What waits now.
    fn note(&mut self, now_ns: u64, connecting: &[Connecting]) {
        let waits = |key: &(SocketAddr, SocketAddr)| {
            connecting.iter().any(|connection| (connection.local, connection.remote) == *key)
        };
        self.seen.retain(|key, (first, last)| waits(key) || is_long(*first, *last));
        for connection in connecting {
            let key = (connection.local, connection.remote);
            if self.seen.len() < KEPT || self.seen.contains_key(&key) {
                self.seen.entry(key).or_insert((now_ns, now_ns)).1 = now_ns;
            }
        }
    }

    fn long(&self) -> impl Iterator<Item = (Connecting, f64)> {
        let long = self.seen.iter().filter(|(_, (first, last))| is_long(*first, *last));
        long.map(|((local, remote), (first, last))| {
            (Connecting { local: *local, remote: *remote }, last.saturating_sub(*first) as f64 / 1e9)
        })
    }

    /// The connections that waited for long, with the way that their packets take.
    pub(super) async fn unanswered(&mut self, facts: &Facts, packets_out: u64) -> Vec<Waits> {
        self.look(boot_ns(), packets_out);
        let mut unanswered = Vec::new();
        for (connection, seconds) in self.long() {
            let from = Some(connection.local.ip());
            let lookup: RouteLookup =
                facts.lookup(Query { from, ..Query::own(connection.remote.ip()) }).await;
            unanswered.push(Waits { connection, seconds, lookup });
        }
        unanswered
    }
}

const fn is_long(first_ns: u64, last_ns: u64) -> bool {
    last_ns.saturating_sub(first_ns) >= LONG_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn connection(port: u16) -> Connecting {
        Connecting { local: SocketAddr::from(([10, 4, 3, 101], port)), remote: SocketAddr::new(PLATFORM, 80) }
    }

    #[test]
    fn only_what_waits_for_longer_than_one_lost_syn_is_unanswered() {
        let mut waiting = Waiting::default();
        let (a, b, c) = (connection(1), connection(2), connection(3));
        waiting.note(SECOND, &[a, b]);
        waiting.note(2 * SECOND, &[a, b]);
        assert_eq!(waiting.long().count(), 0);
        // One came through, another has begun.
        waiting.note(3 * SECOND, &[b, c]);
        assert_eq!(waiting.long().map(|(one, _)| one).collect::<Vec<_>>(), [b]);
        // Given up: it stays as evidence, and what was short is forgotten.
        waiting.note(4 * SECOND, &[]);
        assert_eq!(waiting.long().collect::<Vec<_>>(), [(b, 2.0)]);
        assert_eq!(waiting.seen.len(), 1);
    }

    #[test]
    fn a_flood_is_not_kept() {
        let mut waiting = Waiting::default();
        let many: Vec<_> = (0..1000).map(connection).collect();
        for second in 1..5 {
            waiting.note(second * SECOND, &many);
        }
        assert_eq!(waiting.long().count(), KEPT);
    }

    #[test]
    fn only_azures_platform_is_looked_at() {
        let source = |text: &str| Source { net: crate::source::parse(text).unwrap(), peer_id: 1 };
        assert!(!Waiting::new(&[source("35.191.0.0/16"), source("10.4.2.1")]).is_due(SECOND));
        let mut waiting = Waiting::new(&[source("168.63.129.16")]);
        assert!(waiting.is_due(SECOND));
        waiting.look(SECOND, 0);
        assert!(!waiting.is_due(SECOND + 1) && waiting.is_due(2 * SECOND));
    }
}
