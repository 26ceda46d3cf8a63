//! What a table's row says of a series, or of many that are healthy and alike.

use std::collections::HashMap;

use super::{lb, ms, ports, tenths};
use crate::report::{
    document::{LbState, Protocol, Report, Series, Severity, Verdict, Window},
    endpoint::endpoint,
    style::clean,
};

/// From this many series on, healthy ones that are alike share rows: fewer are read faster one by one.
const MANY: usize = 17;
/// So many of a kind share a row.
const ALIKE: usize = 4;
/// Columns for the ports of a shared row.
const PORTS: usize = 11;

/// A series, or several that differ in nothing but port, number of attempts, all answered, and latency.
pub(super) struct Row<'a> {
    pub series: &'a Series,
    ports: String,
    /// The fewest and the most attempts that were OK.
    ok: (u64, u64),
    /// The highest.
    p99: Option<f64>,
    shared: bool,
}

impl Row<'_> {
    pub(super) fn target(&self) -> String {
        endpoint(&self.series.target, &self.ports)
    }

    /// `OK (TLS only)`, `HTTP_STATUS 404`, `TLS_FAIL protocol_version`, `ASYMMETRIC by eth0`.
    pub(super) fn verdict(&self) -> String {
        let series = self.series;
        let mut text = series.verdict.code().to_owned();
        let detail = match series.verdict {
            Verdict::HttpStatus => series.http_status.map(|status| status.to_string()),
            Verdict::TlsFail => series.tls_alert.clone(),
            _ => None,
        };
        if let Some(detail) = detail {
            text = format!("{text} {detail}");
        }
        if let Some(out) = &series.out_nic {
            text = format!("{text} by {out}");
        }
        // The status inside TLS is not visible here.
        let tls = series.protocol == Protocol::Https && series.verdict == Verdict::Ok;
        let standby = series.role.as_deref() == Some("standby");
        let notes: Vec<&str> = [(tls, "TLS only"), (standby, "standby")]
            .iter()
            .filter(|note| note.0)
            .map(|note| note.1)
            .collect();
        if !notes.is_empty() {
            text = format!("{text} ({})", notes.join(", "));
        }
        clean(&text)
    }

    pub(super) fn lb(&self) -> String {
        self.series.lb_view.as_ref().map_or_else(none, lb::brief)
    }

    pub(super) fn since(&self, window: &Window) -> String {
        let since = self.series.lb_view.as_ref().and_then(|view| lb::since(view, window));
        since.map_or_else(none, |since| clean(&since))
    }

    /// `http+proxy v2`.
    pub(super) fn protocol(&self) -> String {
        let protocol = match self.series.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Http => "http",
            Protocol::Https => "https",
        };
        let proxy = self.series.proxy.as_ref().map(|version| format!("{protocol}+proxy {}", clean(version)));
        proxy.unwrap_or_else(|| protocol.to_owned())
    }

    pub(super) fn attempts(&self) -> String {
        let each = if self.shared { " each" } else { "" };
        let failed = lb::failed(self.series);
        match self.ok {
            (fewest, most) if fewest == most => format!("{most}/{failed}{each}"),
            (fewest, most) => format!("{fewest}-{most}/{failed}{each}"),
        }
    }

    pub(super) fn every(&self) -> String {
        every(self.series)
    }

    pub(super) fn p99(&self) -> String {
        let most = if self.shared { "≤" } else { "" };
        self.p99.map_or_else(none, |p99| format!("{most}{}", ms(p99)))
    }

    /// More than half the time that there is.
    pub(super) fn late(&self) -> bool {
        late(self.series)
    }
}

/// Rows in the order of the series; every port is in one of them.
pub(super) fn rows(report: &Report) -> Vec<Row<'_>> {
    let mut alike: HashMap<String, Vec<&Series>> = HashMap::new();
    if report.probes.len() >= MANY {
        for series in &report.probes {
            if let Some(key) = key(series, report) {
                alike.entry(key).or_default().push(series);
            }
        }
        alike.retain(|_, group| group.len() >= ALIKE);
    }
    let mut rows = Vec::new();
    for series in &report.probes {
        // Where the first of a kind stands, all of them do.
        match key(series, report).and_then(|key| alike.get_mut(&key)) {
            Some(group) => rows.extend(shared(&std::mem::take(group))),
            None => rows.push(single(series)),
        }
    }
    rows
}

fn single(series: &Series) -> Row<'_> {
    let ok = ok(series);
    Row { series, ports: series.port.to_string(), ok: (ok, ok), p99: p99(series), shared: false }
}

fn shared<'a>(group: &[&'a Series]) -> Vec<Row<'a>> {
    let Some(series) = group.first() else { return Vec::new() };
    let ports: Vec<u16> = group.iter().map(|series| series.port).collect();
    let oks = group.iter().map(|series| ok(series));
    let ok = (oks.clone().min().unwrap_or(0), oks.max().unwrap_or(0));
    let p99 = group.iter().filter_map(|series| p99(series)).reduce(f64::max);
    let pieces = ports::pieces(&ports, PORTS);
    pieces.into_iter().map(|ports| Row { series, ports, ok, p99, shared: true }).collect()
}

/// Equal for series that a row can stand for; `None` for one that deserves its own.
fn key(series: &Series, report: &Report) -> Option<String> {
    let view = series.lb_view.as_ref();
    let healthy = series.verdict == Verdict::Ok && lb::failed(series) == 0 && series.healed == 0;
    let up = view.is_none_or(|view| view.state == LbState::Up && view.failures_left == Some(view.threshold));
    if !(series.confirmed && healthy && up && series.out_nic.is_none() && !late(series)) {
        return None;
    }
    let talked_of = report.findings.iter().any(|finding| {
        finding.severity != Severity::Info
            && finding.port == Some(series.port)
            && finding.target.as_ref() == Some(&series.target)
    });
    let Series { nic, source, target, protocol, proxy, role, http_status, .. } = series;
    let lb = view.map(|view| (lb::brief(view), lb::since(view, &report.window)));
    let one = (nic, source, target, protocol, proxy, role, http_status, every(series), lb);
    (!talked_of).then(|| format!("{one:?}"))
}

fn ok(series: &Series) -> u64 {
    series.counts.get(&Verdict::Ok).copied().unwrap_or(0)
}

/// Milliseconds: of the answer where a request is sent, of the handshake otherwise.
fn p99(series: &Series) -> Option<f64> {
    let latency = match series.protocol {
        Protocol::Tcp => series.latency_ms,
        Protocol::Http | Protocol::Https => series.answer_ms,
    };
    latency.map(|latency| latency.p99)
}

fn late(series: &Series) -> bool {
    p99(series).zip(series.limit_s).is_some_and(|(p99, limit)| p99 > limit * 1000.0 / 2.0)
}

/// Every cadence: two load balancers on one port are two.
fn every(series: &Series) -> String {
    let seconds = |seconds| format!("{}s", tenths(seconds));
    match series.interval_s {
        Some(_) if series.cadences.len() > 1 => {
            series.cadences.iter().map(|cadence| seconds(*cadence)).collect::<Vec<_>>().join("+")
        }
        Some(interval) => seconds(interval),
        None if series.confirmed => "?".to_owned(),
        None => "once".to_owned(),
    }
}

fn none() -> String {
    "-".to_owned()
}
