//! The report for people: the answer first, then one line a series, then what is wrong, why, and what to type.

use std::fmt::Write;

use super::{
    document::{Finding, ObserverState, Report, Series, Severity, Verdict},
    event::endpoint,
    style::{clean, wrap},
};

pub use super::style::Style;

/// The whole report.
pub fn report(report: &Report, style: Style) -> String {
    let mut lines = answer(report, style);
    if !report.probes.is_empty() {
        lines.push(String::new());
        lines.extend(table(&report.probes, style));
    }
    for finding in &report.findings {
        lines.push(String::new());
        lines.extend(self::finding(finding, style));
    }
    lines.push(String::new());
    lines.extend(observer(report, style));
    lines.join("\n") + "\n"
}

/// The first line: which NIC, which fault.
fn answer(report: &Report, style: Style) -> Vec<String> {
    let width = usize::from(style.width);
    let errors: Vec<&Finding> =
        report.findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
    let degraded = report.observer.state == ObserverState::Degraded;
    let (word, text) = if let Some(first) = errors.first() {
        let more = match errors.len() {
            1 => String::new(),
            n => format!(" (and {} more)", n - 1),
        };
        ("FAIL", format!("{}{more}", headline(first)))
    } else {
        let judged = report.probes.iter().filter(|series| series.verdict != Verdict::Pending).count();
        match (judged, report.probes.len()) {
            (0, 0) => ("NONE", "no probe came in while nvaprobe looked".to_owned()),
            (0, n) => ("WAIT", format!("{} seen, none judged yet", ports(n))),
            (n, _) => ("OK", format!("{} answered on the NIC the probe came in on", ports(n))),
        }
    };
    let text = if degraded { format!("{text}; nvaprobe does not see everything") } else { text };
    let painted = match word {
        "FAIL" => style.severity(Severity::Error, word),
        "OK" => style.good(word),
        _ => style.severity(Severity::Warning, word),
    };
    let mut lines = wrap(&clean(&text), &format!("{word:<5} "), "      ", width);
    if let Some(first) = lines.first_mut() {
        *first = first.replacen(word, &painted, 1);
    }
    lines
}

fn ports(count: usize) -> String {
    if count == 1 { "1 probed port".to_owned() } else { format!("{count} probed ports") }
}

/// What stands in the first line of a failing report.
fn headline(finding: &Finding) -> String {
    let nic = finding.nic.as_deref().unwrap_or("host");
    let target = match (&finding.target, finding.port) {
        (Some(target), Some(port)) => format!(" {}", endpoint(target, port)),
        _ => String::new(),
    };
    let what = match (&finding.out_nic, finding.code.as_str()) {
        (Some(out), "ASYMMETRIC") => format!("probe replies leave by {out}"),
        (_, "NO_REPLY") => "probes get no reply".to_owned(),
        (_, "REFUSED") => "probes are refused".to_owned(),
        (_, "ICMP_REJECT") => "probes are rejected by ICMP".to_owned(),
        (_, code) => code.to_owned(),
    };
    let sometimes = if finding.intermittent { ", sometimes" } else { "" };
    format!("{nic}{target}: {what}{sometimes} (cause: {})", finding.cause)
}

/// One line a series; narrow terminals get fewer columns.
fn table(series: &[Series], style: Style) -> Vec<String> {
    let mut rows = vec![[
        "NIC".to_owned(),
        "TARGET".to_owned(),
        "PROTO".to_owned(),
        "VERDICT".to_owned(),
        "OUT".to_owned(),
        "OK/ALL".to_owned(),
        "EVERY".to_owned(),
        "P99".to_owned(),
    ]];
    for one in series {
        let ok = one.counts.get(&Verdict::Ok).copied().unwrap_or(0);
        rows.push([
            clean(&one.nic),
            endpoint(&one.target, one.port),
            format!("{:?}", one.protocol).to_lowercase(),
            one.verdict.code().to_owned(),
            one.out_nic.as_deref().map_or_else(|| "-".to_owned(), clean),
            format!("{ok}/{}", one.attempts),
            one.interval_s.map_or_else(|| "?".to_owned(), |s| format!("{s:.1}s")),
            one.latency_ms.map_or_else(|| "-".to_owned(), |latency| ms(latency.p99)),
        ]);
    }
    // From the right, columns go until the row fits; NIC, target and verdict stay.
    let mut columns = vec![0, 1, 2, 3, 4, 5, 6, 7];
    let wide = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    for dropped in [2, 7, 6, 5, 4] {
        let total: usize = columns.iter().map(|column| wide(*column) + 2).sum::<usize>() - 2;
        if total <= usize::from(style.width) {
            break;
        }
        columns.retain(|column| *column != dropped);
    }
    rows.iter()
        .enumerate()
        .map(|(index, row)| {
            let mut line = String::new();
            for column in &columns {
                let cell = format!("{:<width$}", row[*column], width = wide(*column));
                let cell = match index {
                    0 => style.faint(&cell),
                    _ if *column == 3 => style.verdict(series[index - 1].verdict, &cell),
                    _ => cell,
                };
                if !line.is_empty() {
                    line.push_str("  ");
                }
                line.push_str(&cell);
            }
            line.trim_end().to_owned()
        })
        .collect()
}

/// Milliseconds in three significant places.
pub(super) fn ms(milliseconds: f64) -> String {
    if milliseconds < 1.0 {
        format!("{milliseconds:.2}ms")
    } else if milliseconds < 100.0 {
        format!("{milliseconds:.1}ms")
    } else {
        format!("{milliseconds:.0}ms")
    }
}

/// One finding: code and summary, the evidence, the commands.
pub(super) fn finding(finding: &Finding, style: Style) -> Vec<String> {
    let width = usize::from(style.width);
    let head = format!("{} ({})", finding.code, finding.cause);
    let mut lines = vec![style.severity(finding.severity, &clean(&head))];
    lines.extend(wrap(&clean(&finding.summary), "  ", "  ", width));
    for evidence in &finding.evidence {
        let label = format!("  {:<9} ", clean(&evidence.kind));
        let indent = " ".repeat(label.chars().count());
        lines.extend(wrap(&clean(&evidence.text), &label, &indent, width));
    }
    for fix in &finding.fixes {
        let lasting = if fix.persistent { "persistent" } else { "lost on reboot" };
        lines.push(format!("  fix, {} ({lasting}):", clean(&fix.family)));
        // Unwrapped, so that it can be pasted; a terminal breaks long lines without inserting anything.
        lines.extend(fix.text.lines().map(|line| format!("    {}", clean(line))));
    }
    lines
}

/// How the NICs were observed, and what was lost.
fn observer(report: &Report, style: Style) -> Vec<String> {
    let width = usize::from(style.width);
    let mut text = String::new();
    for nic in &report.nics {
        if !text.is_empty() {
            text.push_str(", ");
        }
        // Writing to a String cannot fail.
        let _ = match (&nic.ingress, &nic.egress) {
            (Some(ingress), Some(egress)) => write!(text, "{} ({ingress} in, {egress} out)", nic.name),
            _ => write!(text, "{}", nic.name),
        };
    }
    if text.is_empty() {
        text.push_str("no NIC");
    }
    let _ = write!(text, " from {} to {}", report.window.from, report.window.to);
    if report.observer.lost > 0 {
        let _ = write!(text, "; {} observations lost", report.observer.lost);
    }
    if report.observer.evicted > 0 {
        let _ = write!(text, "; {} probes evicted", report.observer.evicted);
    }
    wrap(&clean(&text), "observed ", "         ", width).iter().map(|line| style.faint(line)).collect()
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
