//! The first line: what somebody woken at night needs to know.

use std::fmt::Write; // to a String it cannot fail

use super::{Style, headline, lb, observer, predicted};
use crate::report::{
    document::{Finding, LbState, NOT_OBSERVED, ObserverState, Report, Series, Severity, Verdict},
    endpoint::endpoint,
    style::{clean, count, width, wrap},
};

/// Two default intervals of Azure's API (15 s): a shorter look may fall between two probes.
const TELLING_S: f64 = 30.0;

const INDENT: &str = "      ";
/// Of what is too long for a line.
const DEEPER: &str = "        ";

/// One line; what does not fit starts a line of its own. The most urgent comes first.
pub(super) fn lines(report: &Report, style: Style) -> Vec<String> {
    let observed = is_observed(report);
    let (word, mut parts) = if observed { answer(report) } else { predicted(report) };
    if observed && report.observer.state == ObserverState::Degraded {
        parts.push("nvaprobe does not see everything".to_owned());
    }
    let complete = report.observer.state == ObserverState::Complete;
    let painted = match word {
        "FAIL" | "WOULD FAIL" => style.severity(Severity::Error, word),
        "OK" if complete => style.good(word),
        _ => style.severity(Severity::Warning, word),
    };
    let lead = if width(word) < 5 { format!("{word:<5} ") } else { format!("{word} ") };
    let mut packed: Vec<String> = Vec::new();
    for part in parts.iter().map(|part| clean(part)) {
        let used = if packed.len() < 2 { width(&lead) } else { INDENT.len() };
        match packed.last_mut() {
            Some(last) if used + width(last) + 2 + width(&part) <= style.columns() => {
                *last = format!("{last}; {part}");
            }
            _ => packed.push(part),
        }
    }
    let mut lines = Vec::new();
    for part in &packed {
        let first = if lines.is_empty() { lead.as_str() } else { INDENT };
        lines.extend(wrap(part, first, DEEPER, style.columns()));
    }
    if let Some(first) = lines.first_mut() {
        *first = first.replacen(word, &painted, 1);
    }
    lines
}

/// Whether there was anything to see: without observing nothing is, whatever happens.
pub(super) fn is_observed(report: &Report) -> bool {
    !report.observer.reasons.iter().any(|reason| reason.code == NOT_OBSERVED)
}

/// What would happen; nobody looked at packets.
fn predicted(report: &Report) -> (&'static str, Vec<String>) {
    let failing: Vec<_> = report.predictions.iter().filter(|prediction| prediction.fails).collect();
    let all = count(report.predictions.len() as u64, "place", "places");
    let Some(first) = failing.first() else {
        let text = match report.predictions.len() {
            0 => "no address of a judged NIC could be probed by a source".to_owned(),
            _ => format!("probes of {all} would be answered by their own NIC, as far as that is known"),
        };
        return ("PREDICTED", vec![text, "nothing was observed".to_owned()]);
    };
    let mut parts = vec![format!("{}: {}", predicted::place(first), first.text)];
    if failing.len() > 1 {
        parts.push(format!("{} of {all} would fail", failing.len()));
    }
    parts.push("nothing was observed".to_owned());
    ("WOULD FAIL", parts)
}

fn answer(report: &Report) -> (&'static str, Vec<String>) {
    let of = |severity| report.findings.iter().filter(move |finding| finding.severity == severity);
    let errors: Vec<&Finding> = of(Severity::Error).collect();
    if !errors.is_empty() {
        return ("FAIL", headline::parts(report, &errors));
    }
    let held = report.probes.iter().filter_map(|series| series.lb_view.as_ref());
    let held = held.filter(|view| view.state == LbState::Held).count() > 0;
    // Both are said in other words.
    let said = |finding: &&Finding| finding.code == "DEGRADED_OBSERVER" || finding.code == "FLAPPING" && held;
    let warnings = warnings(of(Severity::Warning).filter(|finding| !said(finding)));
    let (probed, single): (Vec<&Series>, Vec<&Series>) =
        report.probes.iter().partition(|series| series.confirmed);
    if probed.is_empty() {
        return ("NO PROBES SEEN", [nothing(report, single.len())].into_iter().chain(warnings).collect());
    }
    let judged: Vec<&Series> =
        probed.iter().copied().filter(|series| series.verdict != Verdict::Pending).collect();
    let open = probed.len() - judged.len();
    if judged.is_empty() {
        let seen = format!("{} seen, none judged yet", ports(open));
        return ("WAIT", [seen].into_iter().chain(warnings).collect());
    }
    let (resting, wanted): (Vec<&Series>, Vec<&Series>) =
        judged.iter().partition(|series| lb::resting(series));
    let mut parts = headline::differing(report, &wanted);
    parts.extend(warnings);
    let warned = !parts.is_empty();
    let answered = wanted.iter().filter(|series| series.verdict == Verdict::Ok).count();
    if !wanted.is_empty() {
        parts.push(probed_ports(&wanted, answered, open));
    } else if open > 0 {
        parts.push(format!("{} not judged yet", ports(open)));
    }
    let up = |series: &&Series| series.lb_view.as_ref().is_some_and(|view| view.state == LbState::Up);
    if !wanted.is_empty() && wanted.iter().all(up) {
        parts.push(format!("load balancer sees {} up", if wanted.len() == 1 { "it" } else { "all" }));
    }
    if !resting.is_empty() {
        let standbys = count(resting.len() as u64, "standby does not answer", "standbys do not answer");
        parts.push(format!("{standbys}, as configured"));
    }
    (if answered == wanted.len() && !warned { "OK" } else { "WARN" }, parts)
}

fn probed_ports(wanted: &[&Series], answered: usize, open: usize) -> String {
    let mut text = if answered == wanted.len() {
        format!("{} answered on the probe's own NIC", ports(answered))
    } else {
        format!("{answered} of {} answered on the probe's own NIC", ports(wanted.len()))
    };
    if open > 0 {
        let _ = write!(text, ", {open} not judged yet");
    }
    // No error finding, yet not every attempt was OK: it failed for a while.
    let recovered =
        wanted.iter().filter(|series| series.verdict == Verdict::Ok && lb::failed(series) > 0).count();
    if recovered > 0 {
        let _ = write!(text, ", {recovered} after failures");
    }
    text
}

/// `LATENCY on eth1 10.4.3.101:8008`, `3 warnings: LATENCY, PROXIED`.
fn warnings<'a>(warnings: impl Iterator<Item = &'a Finding>) -> Option<String> {
    let warnings: Vec<&Finding> = warnings.collect();
    let [one] = warnings.as_slice() else {
        let mut codes: Vec<&str> = warnings.iter().map(|finding| finding.code.as_str()).collect();
        codes.sort_unstable();
        codes.dedup();
        return (!codes.is_empty()).then(|| format!("{} warnings: {}", warnings.len(), codes.join(", ")));
    };
    let place = match (&one.nic, &one.target, one.port) {
        (Some(nic), Some(target), Some(port)) => format!(" on {nic} {}", endpoint(target, port)),
        (Some(nic), ..) => format!(" on {nic}"),
        _ => String::new(),
    };
    Some(format!("{}{place}", one.code))
}

fn nothing(report: &Report, single: usize) -> String {
    let names: Vec<&str> = report.nics.iter().map(|nic| nic.name.as_str()).collect();
    let mut text = String::new();
    if !names.is_empty() {
        let _ = write!(text, "on {}", names.join(", "));
    }
    let seconds = observer::seconds(&report.window);
    if let Some(seconds) = seconds {
        let _ = write!(text, " in {seconds:.0} s");
    }
    if single > 0 {
        let connections =
            count(single as u64, "connection that may be a test", "connections that may be tests");
        let _ = write!(text, ", only {connections}");
    }
    if seconds.is_some_and(|seconds| seconds < TELLING_S) {
        text.push_str(": too short a look to tell, Azure probes every 5 to 15 s");
    }
    text.trim_start().to_owned()
}

fn ports(number: usize) -> String {
    count(number as u64, "probed port", "probed ports")
}
