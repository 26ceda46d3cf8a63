//! `RULE_CHANGED`: a series went from OK to failing just when an address, a rule or a route that decides about its replies
//! changed. The most common relapse is a network daemon that restarts and takes a hand-made rule along.

use super::Scene;
use crate::{
    diagnose::{Case, evidence},
    report::document::{Finding, Severity, Verdict},
};

/// A series that fell by changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub nic: String,
    pub target: String,
    pub port: u16,
    pub verdict: Verdict,
    /// When each was, RFC 3339, and what.
    pub changes: Vec<(String, String)>,
}

impl Broken {
    fn place(&self) -> String {
        if self.target.contains(':') {
            format!("[{}]:{}", self.target, self.port)
        } else {
            format!("{}:{}", self.target, self.port)
        }
    }
}

pub(super) fn find(scene: &Scene<'_>) -> Vec<Finding> {
    let fails = |broken: &&Broken| {
        let same = |case: &&Case<'_>| {
            let series = case.series;
            (&series.nic, &series.target, series.port) == (&broken.nic, &broken.target, broken.port)
        };
        scene.cases.iter().find(same).is_some_and(|case| case.failing().is_some())
    };
    let broken: Vec<Broken> = scene.broken.iter().filter(fails).cloned().collect();
    changed(&broken)
}

/// One finding for all series of a NIC that the same changes broke.
pub fn changed(broken: &[Broken]) -> Vec<Finding> {
    let mut groups: Vec<Vec<&Broken>> = Vec::new();
    for one in broken.iter().filter(|one| !one.changes.is_empty()) {
        let alike = |group: &&mut Vec<&Broken>| {
            group.first().is_some_and(|first| (&first.nic, &first.changes) == (&one.nic, &one.changes))
        };
        match groups.iter_mut().find(alike) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups.iter().filter_map(|group| finding(group)).collect()
}

fn finding(group: &[&Broken]) -> Option<Finding> {
    let first = group.first()?;
    let (time, text) = first.changes.first()?;
    let places: Vec<String> = group.iter().map(|one| one.place()).collect();
    let places = match places.as_slice() {
        [only] => format!("{only} was"),
        [one, .., last] if places.len() > 3 => {
            format!("{one} to {last} ({} probed ports) were", places.len())
        }
        several => format!("{} were", several.join(", ")),
    };
    let more = match first.changes.len() {
        1 => String::new(),
        more => format!(" and {} more changed", more - 1),
    };
    let mut evidence: Vec<_> =
        first.changes.iter().map(|(time, text)| evidence::of("change", format!("{time} {text}"))).collect();
    evidence.extend(group.iter().map(|one| {
        let place = one.place();
        evidence::of("packets", format!("{place} on {}: OK before, {} since", one.nic, one.verdict))
    }));
    let single = group.len() == 1;
    Some(Finding {
        code: "RULE_CHANGED".to_owned(),
        cause: "unknown".to_owned(),
        severity: Severity::Warning,
        nic: Some(first.nic.clone()),
        out_nic: None,
        target: single.then(|| first.target.clone()),
        port: single.then_some(first.port),
        intermittent: false,
        summary: format!(
            "{places} answered well on {} until {time}: {text}{more}. A network daemon that restarts takes away what is not \
             in its own configuration.",
            first.nic
        ),
        evidence,
        fixes: Vec::new(),
    })
}
