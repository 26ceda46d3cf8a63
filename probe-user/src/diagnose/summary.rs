//! Sentences that several causes share.

use std::net::IpAddr;

use super::Case;

/// `10.4.3.101:8008` or `[fd00::1]:8008`.
pub(super) fn target(case: &Case<'_>) -> String {
    match case.series.target.parse::<IpAddr>() {
        Ok(IpAddr::V6(v6)) => format!("[{v6}]:{}", case.series.port),
        _ => format!("{}:{}", case.series.target, case.series.port),
    }
}

/// `3 of 9 probes` when only some failed, `probes` when all did.
pub(super) fn which(case: &Case<'_>) -> String {
    let failures = case.failures;
    if failures.failed < failures.judged {
        format!("{} of {} probes", failures.failed, failures.judged)
    } else {
        "probes".to_owned()
    }
}

/// What the load balancer makes of it.
pub(super) fn consequence(case: &Case<'_>) -> &'static str {
    if case.failures.last_ok {
        "each failure counts against this instance"
    } else {
        "the load balancer takes this instance for down"
    }
}

/// Starts with a capital letter.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
