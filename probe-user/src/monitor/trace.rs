//! Gathers what the host and the kernel's drop reasons show about one failing series.

use std::{collections::BTreeMap, net::SocketAddr};

use probe_common::drops::{Dropped, Way};

use crate::{
    capture::live::drops::Reasons,
    diagnose::trace::{Drops, Trace},
    host::{Facts, counters::Counters},
    probe::{Attempt, Series},
    source::from_mapped,
};

/// The trace of a series whose latest failing attempt is `attempt`.
pub(super) fn gather(
    series: &Series,
    attempt: &Attempt,
    facts: &Facts,
    rose: Counters,
    drops: Option<(&[Dropped], &Reasons)>,
    name: impl Fn(u32) -> String,
) -> Trace {
    let end = |address, port| SocketAddr::new(from_mapped(address), port);
    let tuple = &attempt.tuple;
    let (peer, local) = (end(&tuple.peer, tuple.peer_port), end(&tuple.local, tuple.local_port));
    let half_open = facts.knows("requests").then(|| {
        let same = |a: SocketAddr, b: SocketAddr| (a.ip().to_canonical(), a.port()) == (b.ip(), b.port());
        facts.requests.iter().any(|request| same(request.local, local) && same(request.remote, peer))
    });
    Trace {
        peer,
        local,
        nic: series.key.nic,
        half_open,
        drops: drops
            .map(|(all, reasons)| of_series(series, attempt, all, reasons, name_of(facts, &name)))
            .unwrap_or_default(),
        drops_watched: drops.is_some(),
        rose,
        forwarded: series.forwarded.map(|forwarded| {
            (name(forwarded.device), SocketAddr::new(from_mapped(&forwarded.to.0), forwarded.to.1))
        }),
        returned: series.forwarded.is_some_and(|forwarded| forwarded.returned.is_some()),
    }
}

/// The kernel names devices that nobody judges, too.
fn name_of<'a>(facts: &'a Facts, name: &'a impl Fn(u32) -> String) -> impl Fn(u32) -> String + 'a {
    move |ifindex| facts.links.by_index(ifindex).map_or_else(|| name(ifindex), |link| link.name.clone())
}

/// What the kernel dropped of a series' packets, by way, reason and device.
fn of_series(
    series: &Series,
    attempt: &Attempt,
    all: &[Dropped],
    reasons: &Reasons,
    name: impl Fn(u32) -> String,
) -> Vec<Drops> {
    let mut sums: BTreeMap<(bool, String, Option<String>, Option<SocketAddr>), u64> = BTreeMap::new();
    let ends =
        [Some((series.key.local, series.key.local_port)), series.forwarded.map(|forwarded| forwarded.to)];
    for dropped in all {
        let local = (dropped.local, dropped.local_port);
        // One that was translated has the prober's end alone in common.
        let same_prober = (dropped.peer, dropped.peer_port) == (attempt.tuple.peer, attempt.tuple.peer_port);
        if dropped.peer_id != series.key.peer_id || !(ends.contains(&Some(local)) || same_prober) {
            continue;
        }
        let probed = local == (series.key.local, series.key.local_port);
        let translated = (!probed).then(|| SocketAddr::new(from_mapped(&local.0), local.1));
        let device = [dropped.device, dropped.ingress].into_iter().find(|device| *device != 0).map(&name);
        let key = (dropped.way() == Way::FromProber, reasons.text(dropped.reason), device, translated);
        *sums.entry(key).or_default() += 1;
    }
    sums.into_iter()
        .map(|((from_prober, reason, device, translated), count)| Drops {
            from_prober,
            reason,
            device,
            translated,
            count,
        })
        .collect()
}
