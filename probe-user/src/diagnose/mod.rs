//! Why a series fails: evidence in, findings out. One file a cause; all of them pure.

mod application;
mod not_a_probe;
mod observer;
mod route;
mod summary;
mod unknown;

use crate::{
    host::{Facts, lookup::Lookup},
    probe::series::Failures,
    report::document::{Evidence, Finding, Observer, Series, Severity},
};

/// Everything known about one series.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    pub series: &'a Series,
    pub failures: Failures,
    /// The latest failure, which is what is explained.
    pub failure: Option<Failure>,
    /// What the kernel would do with a reply now; `None` when it was not asked or could not be.
    pub lookup: Option<&'a Lookup>,
    pub facts: &'a Facts,
    /// Devices that replies left by, other than the series' own: name and how often.
    pub out_nics: Vec<(String, u64)>,
}

/// What the latest failure was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub verdict: crate::report::document::Verdict,
    pub reply: crate::report::document::Reply,
    pub out_nic: Option<String>,
    pub closed_by_application: bool,
    pub timed_out: bool,
    /// Type and code of an ICMP error.
    pub icmp: Option<(u8, u8)>,
    pub retransmits: u32,
}

/// One cause: a finding when its evidence is there.
type Cause = fn(&Case<'_>, &Failure) -> Option<Finding>;

/// The causes, most specific first; the last one always answers.
const CAUSES: [Cause; 4] = [route::explain, application::timeout, application::closed, unknown::explain];

/// The findings of one look: exactly one error for each failing series, none for a healthy one.
pub fn diagnose(cases: &[Case<'_>], observer: &Observer) -> Vec<Finding> {
    let mut findings: Vec<Finding> = cases.iter().filter_map(one).collect();
    findings.extend(observer::explain(observer));
    findings.sort_by(|a, b| (a.severity, &a.nic, &a.port).cmp(&(b.severity, &b.nic, &b.port)));
    findings
}

/// The finding of one series, if one is due.
pub fn one(case: &Case<'_>) -> Option<Finding> {
    if !case.series.confirmed {
        return Some(not_a_probe::explain(case));
    }
    let failure = case.failure.as_ref().filter(|_| case.failures.failing())?;
    CAUSES.iter().find_map(|cause| cause(case, failure))
}

/// A finding about a series, to be filled.
fn about(case: &Case<'_>, failure: &Failure, cause: &str, summary: String) -> Finding {
    let series = case.series;
    Finding {
        code: failure.verdict.code().to_owned(),
        cause: cause.to_owned(),
        severity: Severity::Error,
        nic: Some(series.nic.clone()),
        out_nic: failure.out_nic.clone(),
        target: Some(series.target.clone()),
        port: Some(series.port),
        intermittent: case.failures.intermittent(),
        summary,
        evidence: Vec::new(),
        fixes: Vec::new(),
    }
}

fn evidence(kind: &str, text: String) -> Evidence {
    Evidence { kind: kind.to_owned(), text }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
