//! How it was observed: when, by which hooks and why those, and what was lost.

use jiff::Timestamp;

use super::{Style, answer};
use crate::report::{
    document::{Nic, Observer, ObserverState, Report, Window},
    style::{clean, count, pad, width, wrap},
};

const LABEL: &str = "observer";

pub(super) fn lines(report: &Report, style: Style) -> Vec<String> {
    let columns = style.columns();
    let nics = if answer::is_observed(report) { alike(&report.nics) } else { Vec::new() };
    let names = nics.iter().map(|(names, _)| width(&clean(names)));
    let label = names.chain([LABEL.len()]).max().unwrap_or(0).min(columns / 3);
    let indent = " ".repeat(label + 2);
    let mut lines = Vec::new();
    let mut say = |kind: &str, text: &str| {
        let kind = clean(kind);
        if width(&kind) > label {
            lines.extend(wrap(&kind, "", "  ", columns));
            lines.extend(wrap(&clean(text), &indent, &indent, columns));
        } else {
            lines.extend(wrap(&clean(text), &format!("{}  ", pad(&kind, label)), &indent, columns));
        }
    };
    if answer::is_observed(report) {
        say(LABEL, &state(&report.observer, &report.window));
    } else {
        say(LABEL, &format!("none, at {}", report.window.from));
    }
    // A finding says them already, as a rule.
    if !report.findings.iter().any(|finding| finding.code == "DEGRADED_OBSERVER") {
        for reason in &report.observer.reasons {
            say("", &format!("{}: {}", reason.code, reason.text));
        }
    }
    for (names, hooks) in &nics {
        say(names, hooks);
    }
    if report.platform.packets_out + report.platform.packets_in > 0 {
        let (out, back) = (report.platform.packets_out, report.platform.packets_in);
        let packets = count(out, "packet", "packets");
        say("platform", &format!("{packets} out, {back} in: traffic that this host started, not probes"));
    }
    lines.iter().map(|line| style.faint(line.trim_end())).collect()
}

fn state(observer: &Observer, window: &Window) -> String {
    let state = match observer.state {
        ObserverState::Complete => "complete",
        ObserverState::Degraded => "DEGRADED",
    };
    let losses = match (observer.lost, observer.evicted) {
        (0, 0) => "nothing lost".to_owned(),
        (lost, evicted) => format!(
            "{} lost, {} evicted",
            count(lost, "observation", "observations"),
            count(evicted, "probe", "probes")
        ),
    };
    let looked = match seconds(window) {
        Some(seconds) => format!("{seconds:.1} s from {}", window.from),
        None => format!("{} to {}", window.from, window.to),
    };
    format!("{state}, {losses}, {looked}")
}

/// NICs observed in the same way share a line: names, and how.
fn alike(nics: &[Nic]) -> Vec<(String, String)> {
    let mut groups: Vec<(String, String)> = Vec::new();
    for nic in nics {
        let hooks = hooks(nic);
        match groups.iter_mut().find(|(_, other)| *other == hooks) {
            Some((names, _)) => *names = format!("{names}, {}", nic.name),
            None => groups.push((nic.name.clone(), hooks)),
        }
    }
    groups
}

fn hooks(nic: &Nic) -> String {
    let hooks = match (&nic.ingress, &nic.egress) {
        (Some(ingress), Some(egress)) => format!("in by {ingress}, out by {egress}"),
        _ => "from a capture".to_owned(),
    };
    let members =
        if nic.members.is_empty() { String::new() } else { format!(", with {}", nic.members.join(", ")) };
    let note = if nic.note.is_empty() { String::new() } else { format!(" ({})", nic.note) };
    format!("{hooks}{members}{note}")
}

/// How long a window is; `None` when its ends are no times.
pub(super) fn seconds(window: &Window) -> Option<f64> {
    let from: Timestamp = window.from.parse().ok()?;
    let to: Timestamp = window.to.parse().ok()?;
    Some(to.duration_since(from).as_secs_f64())
}
