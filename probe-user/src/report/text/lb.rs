//! What the load balancer makes of a series, in words.

use std::fmt::Write; // to a String it cannot fail

use crate::report::{
    document::{LbState, LbView, Report, Series, Verdict, Window},
    style::count,
    time,
};

/// Short, for a table: `up, 1 left`, `down`, `held`. What is left flips it.
pub(super) fn brief(view: &LbView) -> String {
    match (view.state, left(view)) {
        (LbState::Up, Some(left)) => format!("up, {left} left"),
        // One success is what everybody expects: only more are said.
        (LbState::Down, Some(left)) if view.rise > 1 => format!("down, {left} left"),
        (state, _) => state.to_string(),
    }
}

/// For a sentence: `down since 03:00:10 UTC`, `held (flapping)`, `up, 1 failure from down`.
pub(super) fn phrase(view: &LbView, window: &Window) -> String {
    let mut text = match view.state {
        LbState::Held => "held (flapping)".to_owned(),
        state => state.to_string(),
    };
    if let Some(since) = since(view, window) {
        let _ = write!(text, " since {since} UTC");
    }
    match (view.state, left(view)) {
        (LbState::Up, Some(left)) => {
            let _ = write!(text, ", {} from down", count(left.into(), "failure", "failures"));
        }
        (LbState::Down, Some(left)) if view.rise > 1 => {
            let _ = write!(text, ", {} from up", count(left.into(), "success", "successes"));
        }
        _ => {}
    }
    text
}

/// For the first line: what takes an instance out is loud.
pub(super) fn loud(view: &LbView, window: &Window) -> String {
    let phrase = phrase(view, window);
    match phrase.strip_prefix("down") {
        Some(rest) => format!("load balancer: DOWN{rest}"),
        None => format!("load balancer: {phrase}"),
    }
}

/// With what an operator compares it in the portal: `down since …; Down_Probe_TcpProbeTimeout, threshold 1, …`.
pub(super) fn evidence(view: &LbView, window: &Window) -> String {
    let mut text = format!("{}; {}, threshold {}", phrase(view, window), view.code, view.threshold);
    if let Some(seconds) = view.failover_s {
        let _ = write!(text, ", out of rotation {} s after a failure", super::tenths(seconds));
    }
    text
}

/// Time of day of the last change; with its date when that is not the window's last.
pub(super) fn since(view: &LbView, window: &Window) -> Option<String> {
    let since = view.since.as_deref()?;
    let clock = time::clock(since);
    let clock = clock.split_once('.').map_or(clock, |(seconds, _)| seconds);
    let date = |time: &str| time.split_once('T').map(|(date, _)| date.to_owned());
    Some(match date(since) {
        Some(day) if Some(&day) != date(&window.to).as_ref() => format!("{day} {clock}"),
        _ => clock.to_owned(),
    })
}

/// A standby that does what it is configured for: it answers no probe.
pub(super) fn resting(series: &Series) -> bool {
    let silent = matches!(
        series.verdict,
        Verdict::NoReply | Verdict::Refused | Verdict::IcmpReject | Verdict::HttpStatus
    );
    series.role.as_deref() == Some("standby") && silent
}

/// What becomes of flows, once for the report, when an instance that should be up is not, or failed.
pub(super) fn flows(report: &Report) -> Vec<&str> {
    let mut texts: Vec<&str> = Vec::new();
    for series in report.probes.iter().filter(|series| series.confirmed && !resting(series)) {
        let Some(view) = &series.lb_view else { continue };
        let out = matches!(view.state, LbState::Down | LbState::Held);
        if let Some(text) = view.flows.as_deref()
            && (out || failed(series) > 0)
            && !texts.contains(&text)
        {
            texts.push(text);
        }
    }
    texts
}

/// Attempts that the load balancer counts as failed.
pub(super) fn failed(series: &Series) -> u64 {
    let failures =
        series.counts.iter().filter(|(verdict, _)| !matches!(verdict, Verdict::Ok | Verdict::Pending));
    failures.fold(0, |sum, (_, count)| sum.saturating_add(*count))
}

const fn left(view: &LbView) -> Option<u32> {
    match view.state {
        LbState::Up => view.failures_left,
        LbState::Down => view.successes_left,
        LbState::Held | LbState::Unknown => None,
    }
}
