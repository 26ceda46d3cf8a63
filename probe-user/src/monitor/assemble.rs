//! From models and facts to the report document.

use std::net::SocketAddr;

use hdrhistogram::Histogram;

use crate::{
    diagnose::{Failures, condition::PassedOn},
    monitor::{clock::Clock, nics::Names},
    probe::{self, Attempt, Series, SeriesKey, tls},
    report::{
        document::{self, Latency, LbState, LbView, Protocol, Reply, Verdict},
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
    /// What becomes of flows when an instance, or all, are down.
    pub flows: Option<&'a str>,
    /// The NICs that were captured, when there may be others; empty on a live host.
    pub captured: &'a [String],
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

    /// One series as the document has it at `now_ns`.
    pub fn series(&self, series: &Series, now_ns: u64) -> document::Series {
        let judgement = series.judgement();
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
            http_status: judgement.and_then(|judgement| judgement.http_status),
            tls_alert: judgement
                .and_then(|judgement| judgement.tls_alert)
                .map(|(alert, _)| tls::alert_name(alert)),
            proxy: series.proxy.map(|version| version.to_string()),
            role: series.plan.role.map(|role| role.to_string()),
            confirmed: series.confirmed,
            healed: 0,
            attempts: series.attempts - series.voided,
            counts: series.counts(),
            interval_s: series.interval_s(),
            cadences: series.cadences().to_vec(),
            limit_s: series.limit_s(),
            latency_ms: series.latency().map(latency),
            answer_ms: series.answers().map(latency),
            lb_view: self.view(series, now_ns),
        }
    }

    /// What the load balancer must think. A single connection is no probe, and what is old is not known any more.
    fn view(&self, series: &Series, now_ns: u64) -> Option<LbView> {
        if !series.confirmed {
            return None;
        }
        let (view, rules) = (series.view(), &series.plan.rules);
        let known = !series.is_stale(now_ns);
        Some(LbView {
            state: if known { view.state() } else { LbState::Unknown },
            code: if known { view.code(series.protocol) } else { "NA" }.to_owned(),
            since: view.since_ns().filter(|_| known).map(|at| rfc3339(self.clock.wall_ns(at))),
            threshold: rules.fall,
            rise: rules.rise,
            failures_left: view.failures_left().filter(|_| known),
            successes_left: view.successes_left().filter(|_| known),
            failover_s: series.expected_interval_s().map(|interval| interval * f64::from(rules.fall)),
            changes: view.changes(),
            flows: self.flows.map(str::to_owned),
        })
    }

    /// The failures of a series, as diagnosis wants them.
    pub fn failures(&self, series: &Series) -> Failures {
        let counted = series.failures();
        let latest = series.failing_verdict().and_then(|verdict| series.latest.get(&verdict));
        let judgement = latest.and_then(|attempt| attempt.judgement);
        let answer = latest
            .and_then(|attempt| attempt.answer.here.or(attempt.syn_ack.here).map(|left| (attempt, left)));
        Failures {
            failed: counted.failed,
            judged: counted.judged,
            recovered: counted.recovered(),
            intermittent: counted.intermittent(),
            out_devices: series.out_nics.iter().map(|(nic, count)| (self.names.get(*nic), *count)).collect(),
            icmp: latest.and_then(|attempt| attempt.icmp_code),
            closed_by_application: judgement.is_some_and(|judgement| judgement.closed_by_application),
            accepted_unanswered: judgement.is_some_and(|judgement| judgement.timed_out),
            http_status: judgement.and_then(|judgement| judgement.http_status),
            tls_alert: judgement
                .and_then(|judgement| judgement.tls_alert)
                .map(|(alert, by_prober)| (tls::alert_name(alert), by_prober)),
            answer: latest.map(|attempt| first_line(attempt.answer_bytes())).unwrap_or_default(),
            took_s: answer.map(|(attempt, left)| left.at_ns.saturating_sub(attempt.started_ns) as f64 / 1e9),
            accepted: series.plan.rules.statuses.to_string(),
            captured: self.captured.to_vec(),
            passed_on: self.passed_on(series, latest),
        }
    }

    fn passed_on(&self, series: &Series, failed: Option<&Attempt>) -> Option<PassedOn> {
        let forwarded = series.forwarded?;
        let (address, port) = forwarded.to;
        Some(PassedOn {
            device: self.names.get(forwarded.device),
            to: SocketAddr::new(from_mapped(&address), port),
            probes: series.passed_on.probes,
            returned: series.passed_on.returned,
            back: forwarded.returned.map(|returned| self.names.get(returned.nic)),
            withheld: failed.is_some_and(Attempt::is_withheld),
        })
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
                    http_status: judgement.http_status,
                    tls_alert: judgement.tls_alert.map(|(alert, _)| tls::alert_name(alert)),
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
            probe::Event::View { series, from, to, at_ns } => {
                let series = find(series)?;
                event::Event::LbView {
                    time: time(*at_ns),
                    nic: series.nic,
                    source: series.source,
                    target: series.target,
                    port: series.port,
                    from: Some(*from).filter(|state| *state != LbState::Unknown),
                    to: *to,
                    code: series.lb_view.map_or_else(|| "NA".to_owned(), |view| view.code),
                }
            }
            probe::Event::Lost { count, at_ns } => event::Event::Loss { time: time(*at_ns), count: *count },
        })
    }
}

fn latency(histogram: &Histogram<u64>) -> Latency {
    let ms = |ns: u64| ns as f64 / 1e6;
    Latency {
        p50: ms(histogram.value_at_quantile(0.5)),
        p99: ms(histogram.value_at_quantile(0.99)),
        max: ms(histogram.max()),
    }
}

/// The first line of an answer, at most 60 characters of it.
fn first_line(bytes: &[u8]) -> String {
    let line = bytes.split(|byte| matches!(byte, b'\r' | b'\n')).find(|line| !line.is_empty()).unwrap_or(&[]);
    String::from_utf8_lossy(line).chars().filter(|c| !c.is_control()).take(60).collect()
}
