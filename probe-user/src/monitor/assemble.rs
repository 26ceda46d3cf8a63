//! From models and facts to the report document.

use crate::{
    diagnose::Failures,
    monitor::{clock::Clock, nics::Names},
    probe::{self, Series, SeriesKey},
    report::{
        document::{self, Latency, Protocol, Reply, Verdict},
        event,
        time::rfc3339,
    },
    source::{Source, from_mapped},
};

/// What turns numbers into names.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    pub names: &'a Names,
    pub sources: &'a [Source],
    pub clock: Clock,
}

impl Context<'_> {
    /// The configured source that an address of a peer matched.
    fn source(&self, series: &Series) -> String {
        let address = series.addresses.first().map(from_mapped);
        self.sources
            .iter()
            .filter(|source| source.peer_id == series.key.peer_id)
            .find(|source| address.is_some_and(|address| source.net.contains(&address)))
            .map_or_else(|| "?".to_owned(), ToString::to_string)
    }

    /// One series as the document has it.
    pub fn series(&self, series: &Series) -> document::Series {
        let judgement = series.judgement();
        let ms = |ns: u64| ns as f64 / 1e6;
        document::Series {
            nic: self.names.get(series.key.nic),
            source: self.source(series),
            addresses: series.addresses.iter().map(|address| from_mapped(address).to_string()).collect(),
            target: from_mapped(&series.key.local).to_string(),
            port: series.key.local_port,
            protocol: series.protocol.unwrap_or(Protocol::Tcp),
            verdict: series.verdict(),
            reply: judgement.map_or(Reply::None, |judgement| judgement.reply),
            out_nic: judgement.and_then(|judgement| judgement.out_nic).map(|nic| self.names.get(nic)),
            http_status: None,
            tls_alert: None,
            proxy: None,
            role: None,
            confirmed: series.confirmed,
            healed: 0,
            attempts: series.attempts - series.voided,
            counts: series.counts(),
            interval_s: series.interval_s(),
            cadences: series.cadences().to_vec(),
            limit_s: series.limit_s(),
            latency_ms: series
                .latency_ns(0.5)
                .zip(series.latency_ns(0.99))
                .zip(series.latency_max_ns())
                .map(|((p50, p99), max)| Latency { p50: ms(p50), p99: ms(p99), max: ms(max) }),
            answer_ms: None,
            lb_view: None,
        }
    }

    /// The failures of a series, as diagnosis wants them.
    pub fn failures(&self, series: &Series) -> Failures {
        let counted = series.failures();
        let latest = series.failing_verdict().and_then(|verdict| series.latest.get(&verdict));
        let judgement = latest.and_then(|attempt| attempt.judgement);
        Failures {
            failed: counted.failed,
            judged: counted.judged,
            recovered: counted.recovered(),
            intermittent: counted.intermittent(),
            out_devices: series.out_nics.iter().map(|(nic, count)| (self.names.get(*nic), *count)).collect(),
            icmp: latest.and_then(|attempt| attempt.icmp_code),
            closed_by_application: judgement.is_some_and(|judgement| judgement.closed_by_application),
            accepted_unanswered: judgement.is_some_and(|judgement| judgement.timed_out),
        }
    }

    /// A model's event as it is said; `None` when its series is gone.
    pub fn event(
        &self,
        happened: &probe::Event,
        find: impl Fn(&SeriesKey) -> Option<document::Series>,
    ) -> Option<event::Event> {
        let time = |boot_ns| rfc3339(self.clock.wall_ns(boot_ns));
        Some(match happened {
            probe::Event::Judged { series, attempt, revised } => {
                let series = find(series)?;
                let judgement = attempt.judgement?;
                event::Event::Attempt(event::Attempt {
                    time: time(attempt.started_ns),
                    nic: series.nic,
                    source: series.source,
                    address: from_mapped(&attempt.tuple.peer).to_string(),
                    source_port: attempt.tuple.peer_port,
                    target: series.target,
                    port: series.port,
                    protocol: series.protocol,
                    verdict: judgement.verdict,
                    reply: judgement.reply,
                    out_nic: judgement.out_nic.map(|nic| self.names.get(nic)),
                    http_status: None,
                    tls_alert: None,
                    latency_ms: attempt.latency_ns().map(|ns| ns as f64 / 1e6),
                    retransmits: attempt.retransmits,
                    revised: *revised,
                })
            }
            probe::Event::Changed { series, from, to, at_ns } => {
                let series = find(series)?;
                event::Event::Series(event::Change {
                    time: time(*at_ns),
                    nic: series.nic,
                    source: series.source,
                    target: series.target,
                    port: series.port,
                    from: from.filter(|verdict| *verdict != Verdict::Pending),
                    to: *to,
                })
            }
            probe::Event::Lost { count, at_ns } => event::Event::Loss { time: time(*at_ns), count: *count },
        })
    }
}
