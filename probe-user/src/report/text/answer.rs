//! The first line: what somebody woken at night needs to know.

use std::fmt::Write; // to a String it cannot fail

use super::{Style, observer};
use crate::report::{
    document::{Finding, ObserverState, Report, Series, Severity, Verdict},
    endpoint::endpoint,
    style::{clean, count, width, wrap},
};

/// Two default intervals of Azure's API (15 s): a shorter look may fall between two probes.
const TELLING_S: f64 = 30.0;

pub(super) fn lines(report: &Report, style: Style) -> Vec<String> {
    let (word, mut text) = answer(report);
    if report.observer.state == ObserverState::Degraded {
        text.push_str("; nvaprobe does not see everything");
    }
    let complete = report.observer.state == ObserverState::Complete;
    let painted = match word {
        "FAIL" => style.severity(Severity::Error, word),
        "OK" if complete => style.good(word),
        _ => style.severity(Severity::Warning, word),
    };
    let lead = if width(word) < 5 { format!("{word:<5} ") } else { format!("{word} ") };
    let mut lines = wrap(&clean(&text), &lead, "      ", style.columns());
    if let Some(first) = lines.first_mut() {
        *first = first.replacen(word, &painted, 1);
    }
    lines
}

fn answer(report: &Report) -> (&'static str, String) {
    let of = |severity| report.findings.iter().filter(move |finding| finding.severity == severity);
    let errors: Vec<&Finding> = of(Severity::Error).collect();
    if let Some(first) = errors.first() {
        let more = match errors.len() {
            1 => String::new(),
            n => format!(", and {} more", n - 1),
        };
        return ("FAIL", format!("{}{more}", headline(first)));
    }
    let (probed, single): (Vec<&Series>, Vec<&Series>) =
        report.probes.iter().partition(|series| series.confirmed);
    if probed.is_empty() {
        return ("NO PROBES SEEN", nothing(report, single.len()));
    }
    let judged: Vec<&&Series> = probed.iter().filter(|series| series.verdict != Verdict::Pending).collect();
    let open = probed.len() - judged.len();
    if judged.is_empty() {
        return ("WAIT", format!("{} seen, none judged yet", ports(open)));
    }
    let answered = judged.iter().filter(|series| series.verdict == Verdict::Ok).count();
    let mut text = if answered == judged.len() {
        format!("{} answered on the NIC the probe came in on", ports(answered))
    } else {
        format!("{answered} of {} answered on the NIC the probe came in on", ports(judged.len()))
    };
    if open > 0 {
        let _ = write!(text, ", {open} not judged yet");
    }
    // No error finding, yet not every attempt was OK: it failed for a while.
    let recovered =
        judged.iter().filter(|series| series.verdict == Verdict::Ok && failed(series) > 0).count();
    if recovered > 0 {
        let _ = write!(text, ", {recovered} after failures");
    }
    let warnings = of(Severity::Warning).filter(|finding| finding.code != "DEGRADED_OBSERVER").count();
    if warnings > 0 {
        let _ = write!(text, "; {}", count(warnings as u64, "warning", "warnings"));
    }
    (if answered == judged.len() { "OK" } else { "WARN" }, text)
}

/// Attempts that the load balancer counts as failed.
pub(super) fn failed(series: &Series) -> u64 {
    let failures =
        series.counts.iter().filter(|(verdict, _)| !matches!(verdict, Verdict::Ok | Verdict::Pending));
    failures.map(|(_, count)| count).sum()
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

fn headline(finding: &Finding) -> String {
    let nic = finding.nic.as_deref().unwrap_or("host");
    let target = match (&finding.target, finding.port) {
        (Some(target), Some(port)) => format!(" {}", endpoint(target, port)),
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
        code => format!("{sometimes}{code}"),
    };
    format!("{nic}{target}: {what} (cause: {})", finding.cause)
}
