//! What is most urgent: of the failures, the one for which the load balancer took an instance out.

use super::lb;
use crate::report::{
    document::{Finding, LbState, LbView, Report, Series, Verdict},
    endpoint::endpoint,
    style::count,
};

/// The worst error, what the load balancer makes of it, and how many more there are.
pub(super) fn parts(report: &Report, errors: &[&Finding]) -> Vec<String> {
    let view = |finding: &Finding| series(report, finding).and_then(|series| series.lb_view.as_ref());
    let Some(worst) = errors.iter().min_by_key(|finding| rank(view(finding))) else { return Vec::new() };
    let mut parts = vec![headline(worst, series(report, worst))];
    if let Some(view) = view(worst) {
        parts.push(lb::loud(view, &report.window));
    }
    let others: Vec<&&Finding> = errors.iter().filter(|other| !std::ptr::eq(**other, *worst)).collect();
    if !others.is_empty() {
        let mut nics: Vec<&str> = others.iter().filter_map(|finding| finding.nic.as_deref()).collect();
        nics.sort_unstable();
        nics.dedup();
        let on = if nics.is_empty() { String::new() } else { format!(" on {}", nics.join(", ")) };
        parts.push(format!("{}{on}", count(others.len() as u64, "more error", "more errors")));
    }
    parts
}

/// The series that a finding speaks of; of several sources, the one that is worst off.
pub(super) fn series<'a>(report: &'a Report, finding: &Finding) -> Option<&'a Series> {
    let meant = report.probes.iter().filter(|series| {
        finding.nic.as_ref() == Some(&series.nic)
            && finding.target.as_ref() == Some(&series.target)
            && finding.port == Some(series.port)
    });
    meant.min_by_key(|series| (series.verdict.code() != finding.code, rank(series.lb_view.as_ref())))
}

/// Series that no error speaks of, yet that the load balancer does not see up: the one worst off, and how many more.
pub(super) fn differing(report: &Report, series: &[&Series]) -> Vec<String> {
    let views = series.iter().filter_map(|series| Some((*series, series.lb_view.as_ref()?)));
    let out: Vec<(&Series, &LbView)> = views.filter(|(_, view)| view.state != LbState::Up).collect();
    let Some((worst, view)) = out.iter().min_by_key(|(_, view)| rank(Some(view))) else { return Vec::new() };
    let answered = if worst.verdict == Verdict::Ok { "answered, but " } else { "" };
    let place = endpoint(&worst.target, worst.port);
    let mut parts = vec![format!("{} {place} {answered}{}", worst.nic, lb::loud(view, &report.window))];
    if out.len() > 1 {
        parts.push(format!("{} more not up", out.len() - 1));
    }
    parts
}

fn rank(view: Option<&LbView>) -> u8 {
    match view.map(|view| view.state) {
        Some(LbState::Down) => 0,
        Some(LbState::Held) => 1,
        Some(LbState::Unknown) | None => 2,
        Some(LbState::Up) => 3,
    }
}

fn headline(finding: &Finding, series: Option<&Series>) -> String {
    let nic = finding.nic.as_deref().unwrap_or("host");
    let target = match (&finding.target, finding.port) {
        (Some(target), Some(port)) => format!(" {}", endpoint(target, port)),
        (None, Some(port)) => format!(" port {port}"),
        _ => String::new(),
    };
    let sometimes = if finding.intermittent { "sometimes " } else { "" };
    let what = match finding.code.as_str() {
        "ASYMMETRIC" => {
            let out = finding.out_nic.as_deref().unwrap_or("another device");
            format!("probe replies {sometimes}leave by {out}")
        }
        "NO_REPLY" => format!("probes {sometimes}get no reply"),
        "REFUSED" => format!("probes are {sometimes}refused"),
        "ICMP_REJECT" => format!("probes are {sometimes}rejected by ICMP"),
        "HTTP_STATUS" => format!("probes {sometimes}get {}", status(series)),
        "SLOW" => format!("probes are {sometimes}answered too late"),
        "TLS_FAIL" => {
            let alert = series.and_then(|series| series.tls_alert.as_deref());
            let alert = alert.map_or_else(|| "alert".to_owned(), |alert| format!("alert {alert}"));
            format!("{sometimes}TLS {alert}")
        }
        "NOT_ARRIVING" => "expected probes do not arrive".to_owned(),
        code => format!("{sometimes}{code}"),
    };
    format!("{nic}{target}: {what} (cause: {})", finding.cause)
}

/// The latest status is the culprit only while the latest verdict says so.
fn status(series: Option<&Series>) -> String {
    let failing = series.filter(|series| series.verdict == Verdict::HttpStatus);
    failing
        .and_then(|series| series.http_status)
        .map_or_else(|| "an HTTP status that is not accepted".to_owned(), |status| format!("HTTP {status}"))
}
