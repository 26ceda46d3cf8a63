//! Remarks, one or two lines each: nobody gets up for them.

use super::{Style, finding, ports};
use crate::report::{
    document::{Finding, Severity},
    endpoint::endpoint,
    style::{clean, width, wrap},
};

/// Equal remarks on several series are one. With nothing else to say, a remark has room for its evidence.
pub(super) fn lines(infos: &[&Finding], room: bool, style: Style) -> Vec<String> {
    let mut groups: Vec<Vec<&Finding>> = Vec::new();
    for info in infos {
        let alike = |group: &&mut Vec<&Finding>| {
            let first = group.first().map(|first| (&first.code, &first.cause, &first.summary, &first.fixes));
            first == Some((&info.code, &info.cause, &info.summary, &info.fixes))
        };
        match groups.iter_mut().find(alike) {
            Some(group) => group.push(info),
            None => groups.push(vec![info]),
        }
    }
    let mut lines = Vec::new();
    for group in &groups {
        let Some(info) = group.first() else { continue };
        let severity = format!("INFO {}", clean(&info.code));
        let cause = if info.cause == "unknown" { String::new() } else { format!(" (cause: {})", info.cause) };
        let text = format!(
            "{severity}{}: {}",
            clean(&format!("{cause}{}", places(group, style.columns()))),
            clean(&info.summary)
        );
        let mut told = wrap(&text, "", "  ", style.columns());
        if let Some(first) = told.first_mut() {
            let painted = if first.starts_with(&severity) { severity.as_str() } else { "INFO" };
            *first = first.replacen(painted, &style.severity(Severity::Info, painted), 1);
        }
        lines.extend(told);
        if group.len() == 1 && (room || info.summary.is_empty()) {
            lines.extend(finding::evidence(&info.evidence, style));
        }
        lines.extend(info.fixes.iter().flat_map(|fix| finding::commands(fix, style.columns())));
    }
    lines
}

/// ` eth0 10.4.2.101:8000-8063, eth1 10.4.3.101:8008, +3`: at most about a line.
fn places(group: &[&Finding], columns: usize) -> String {
    let mut places: Vec<(String, Vec<u16>)> = Vec::new();
    for info in group {
        let nic = info.nic.as_deref().unwrap_or_default();
        let place = match (&info.target, info.port) {
            (Some(target), Some(_)) => format!("{nic} {}", endpoint(target, "")),
            (None, Some(_)) => format!("{nic} port "),
            _ => nic.to_owned(),
        };
        match places.iter_mut().find(|(other, _)| *other == place) {
            Some((_, ports)) => ports.extend(info.port),
            None => places.push((place, info.port.into_iter().collect())),
        }
    }
    let mut pieces: Vec<(String, usize)> = Vec::new();
    for (place, ports) in &places {
        if ports.is_empty() && !place.is_empty() {
            pieces.push((place.clone(), 1));
        }
        for (index, (range, count)) in ports::ranges(ports).into_iter().enumerate() {
            let range = if index == 0 { format!("{place}{range}") } else { range };
            pieces.push((range, count));
        }
    }
    let mut text = String::new();
    let mut left: usize = pieces.iter().map(|(_, count)| count).sum();
    for (index, (piece, count)) in pieces.iter().enumerate() {
        if index > 0 && width(&text) + width(piece) > columns * 2 / 3 {
            text = format!("{text}, +{left}");
            break;
        }
        text = format!("{text}{}{piece}", if index == 0 { " " } else { ", " });
        left -= count;
    }
    text
}
