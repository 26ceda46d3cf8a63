//! Why a series fails: facts in, findings out. Nothing here asks the system or reads a clock.

mod accept_queue;
mod bound_elsewhere;
mod closed;
pub mod condition;
mod evidence;
mod forward_drop;
mod http_status;
mod input_drop;
mod link_local_forwarded;
mod next_hop;
mod no_route;
mod not_local;
mod nothing_listening;
mod observer;
mod output_drop;
mod reject_rule;
mod route;
mod rp_filter;
mod standby;
mod timeout;
mod tls_alert;
pub mod trace;
mod unknown;
mod xfrm;

use condition::Scene;
pub(crate) use evidence::way;
use trace::Trace;

use crate::{
    fix,
    host::{Facts, lookup::RouteLookup},
    report::document::{Evidence, Finding, Observer, Series, Severity, Verdict},
};

/// What is known about one series.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    pub series: &'a Series,
    pub failures: Failures,
    /// What the kernel would do with the series' replies; `None` when nobody asked it (a stored capture).
    pub lookup: Option<&'a RouteLookup>,
    /// The host; `None` for a stored capture.
    pub facts: Option<&'a Facts>,
    /// What became of its packets inside the host; `None` for a stored capture, or when it does not fail.
    pub trace: Option<&'a Trace>,
}

/// The failures of one series, as the model counted them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Failures {
    /// Attempts judged as anything but OK.
    pub failed: u64,
    /// Attempts judged.
    pub judged: u64,
    /// One run of failures, then successes up to the end.
    pub recovered: bool,
    /// Failures among successes.
    pub intermittent: bool,
    /// By which devices replies left other than the NIC of the probe, with how many.
    pub out_devices: Vec<(String, u64)>,
    /// Type and code of the ICMP or ICMPv6 error that answered.
    pub icmp: Option<(u8, u8)>,
    /// The connection was closed after the request without an answer.
    pub closed_by_application: bool,
    /// The connection was accepted and the request seen, but not answered.
    pub accepted_unanswered: bool,
    /// Status of the latest failing answer.
    pub http_status: Option<u16>,
    /// Name of the alert that ended the latest failing handshake, and whether the prober sent it.
    pub tls_alert: Option<(String, bool)>,
    /// Beginning of the latest failing answer, printable.
    pub answer: String,
    /// Seconds from the start of the latest failing attempt to its answer.
    pub took_s: Option<f64>,
    /// HTTP statuses that count as healthy.
    pub accepted: String,
    /// NICs that were looked at, when there may be others (a capture); empty on a live host, where all are.
    pub captured: Vec<String>,
    /// Probes that left again for another machine, and what came back from it.
    pub passed_on: Option<condition::PassedOn>,
}

impl Case<'_> {
    /// The verdict that this series fails with; `None` when it does not fail.
    pub fn failing(&self) -> Option<Verdict> {
        let fails = |verdict: Verdict| !matches!(verdict, Verdict::Ok | Verdict::Pending);
        if self.failures.recovered || self.failures.failed == 0 {
            return None;
        }
        if fails(self.series.verdict) {
            return Some(self.series.verdict);
        }
        // Without a failure among successes, a series whose latest verdict is OK has recovered.
        if !self.failures.intermittent {
            return None;
        }
        let counts = self.series.counts.iter().filter(|(verdict, count)| fails(**verdict) && **count > 0);
        counts.max_by_key(|(_, count)| **count).map(|(verdict, _)| *verdict)
    }

    /// `4 of 6 probes`.
    fn share(&self) -> String {
        format!("{} of {} probes", self.failures.failed, self.failures.judged)
    }

    /// `10.4.3.101:8008`, `[fd00::1]:8008`.
    fn place(&self) -> String {
        if self.series.target.contains(':') {
            format!("[{}]:{}", self.series.target, self.series.port)
        } else {
            format!("{}:{}", self.series.target, self.series.port)
        }
    }
}

/// What a cause function has to say.
struct Explanation {
    /// Kebab-case cause code (DESIGN 5).
    cause: &'static str,
    summary: String,
    evidence: Vec<Evidence>,
    /// The reply that a policy route would put right.
    misroute: Option<fix::Misroute>,
    /// What else would put it right.
    remedy: Option<fix::Intent>,
}

/// Every cause, in the order tried. The last one always answers.
const CAUSES: &[fn(&Case<'_>, Verdict) -> Option<Explanation>] = &[
    route::explain,
    // What the packets alone prove.
    closed::explain,
    timeout::explain,
    http_status::explain,
    tls_alert::explain,
    link_local_forwarded::explain,
    // Passed on, or nobody's.
    forward_drop::explain,
    not_local::explain,
    // On the way in.
    rp_filter::explain,
    no_route::explain,
    accept_queue::explain,
    input_drop::explain,
    // On the way out.
    xfrm::explain,
    output_drop::explain,
    next_hop::explain,
    // Answered with a no.
    reject_rule::explain,
    nothing_listening::explain,
    bound_elsewhere::explain,
    unknown::explain,
];

/// Every finding: of the series, of the conditions around them, and of what the observer may have missed. Sorted by
/// severity, then NIC, address and port.
pub fn everything(scene: &Scene<'_>, observer: &Observer) -> Vec<Finding> {
    let mut findings = diagnose(scene.cases);
    findings.extend(condition::find(scene));
    findings.extend(observer::explain(observer));
    sort(&mut findings);
    findings
}

fn sort(findings: &mut [Finding]) {
    findings.sort_by(|a, b| {
        (a.severity, &a.nic, &a.target, a.port).cmp(&(b.severity, &b.nic, &b.target, b.port))
    });
}

/// The findings of all series: exactly one error for each that fails, none for a healthy one. Sorted by
/// severity, then NIC, address and port.
pub fn diagnose(cases: &[Case<'_>]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    let mut misroutes = Vec::new();
    for case in cases {
        if !case.series.confirmed {
            findings.push(single_attempt(case));
            continue;
        }
        let Some(verdict) = case.failing() else { continue };
        let Some(explanation) = explain(case, verdict) else { continue };
        misroutes.extend(explanation.misroute.map(|misroute| (findings.len(), misroute)));
        let remedy = explanation.remedy.as_slice();
        let fixes =
            case.facts.map_or_else(Vec::new, |facts| fix::offer(remedy, facts, fix::Choice::Auto).fixes);
        let standby = standby::expects(case, verdict);
        findings.push(Finding {
            code: verdict.code().to_owned(),
            cause: explanation.cause.to_owned(),
            severity: if standby { Severity::Info } else { Severity::Error },
            nic: Some(case.series.nic.clone()),
            out_nic: (verdict == Verdict::Asymmetric).then(|| evidence::out_nic(case)).flatten(),
            target: Some(case.series.target.clone()),
            port: Some(case.series.port),
            intermittent: case.failures.intermittent,
            summary: if standby { standby::summary(case, verdict) } else { explanation.summary },
            evidence: explanation.evidence,
            fixes,
        });
    }
    add_fixes(&mut findings, &misroutes, cases.iter().find_map(|case| case.facts));
    sort(&mut findings);
    findings
}

/// The policy routes that the findings of these cases print, each once: for applying them.
pub fn policies(cases: &[Case<'_>]) -> Vec<fix::PolicyFix> {
    let Some(facts) = cases.iter().find_map(|case| case.facts) else { return Vec::new() };
    let wanted: Vec<fix::Misroute> = cases
        .iter()
        .filter(|case| case.series.confirmed)
        .filter_map(|case| explain(case, case.failing()?)?.misroute)
        .collect();
    let mut policies: Vec<fix::PolicyFix> = Vec::new();
    for policy in fix::plan(facts, &wanted).into_iter().flatten() {
        if !policies.contains(&policy) {
            policies.push(policy);
        }
    }
    policies
}

fn explain(case: &Case<'_>, verdict: Verdict) -> Option<Explanation> {
    CAUSES.iter().find_map(|explain| explain(case, verdict))
}

/// Plans all policy routes together, so that tables and priorities of several NICs do not collide.
fn add_fixes(findings: &mut [Finding], misroutes: &[(usize, fix::Misroute)], facts: Option<&Facts>) {
    let Some(facts) = facts else { return };
    let wanted: Vec<fix::Misroute> = misroutes.iter().map(|(_, misroute)| misroute.clone()).collect();
    let plans = fix::plan(facts, &wanted);
    let policies: Vec<fix::PolicyFix> = plans.iter().flatten().cloned().collect();
    for ((index, _), plan) in misroutes.iter().zip(plans) {
        let Some(finding) = findings.get_mut(*index) else { continue };
        match plan {
            Ok(policy) => finding.fixes.extend(fix::for_finding(&policy, &policies, facts)),
            Err(why) => finding.evidence.push(evidence::of("fix", why.to_string())),
        }
    }
}

fn single_attempt(case: &Case<'_>) -> Finding {
    let series = case.series;
    Finding {
        code: "NOT_A_PROBE".to_owned(),
        cause: "unknown".to_owned(),
        severity: Severity::Info,
        nic: Some(series.nic.clone()),
        out_nic: series.out_nic.clone(),
        target: Some(series.target.clone()),
        port: Some(series.port),
        intermittent: false,
        summary: format!(
            "One single connection from {} to {} on {}: not judged as a probe, for a port test looks the same.",
            series.source,
            case.place(),
            series.nic
        ),
        evidence: vec![evidence::of(
            "packets",
            format!(
                "{} attempt, verdict {}; a second one would confirm a probe",
                series.attempts, series.verdict
            ),
        )],
        fixes: Vec::new(),
    }
}

#[cfg(test)]
#[path = "diagnose_tests.rs"]
mod tests;

#[cfg(test)]
mod cause_tests;
