//! A look without observing: what the host's configuration says, and what would happen to probes. Needs no privilege.

use anyhow::Context as _;

use super::{Settings, boot_ns, clock::Clock, nics};
use crate::{
    diagnose::condition::{self, Scene},
    host::Facts,
    predict::predict,
    report::{
        document::{NOT_OBSERVED, Nic, Observer, ObserverState, Platform, Reason, Report, SCHEMA, Window},
        time::rfc3339,
    },
};

/// The report of this thread's network namespace as it is configured.
pub async fn look(settings: &Settings) -> anyhow::Result<Report> {
    let facts = Facts::read().await.context("cannot read the host's network configuration")?;
    let judged = nics::judged(&settings.nics, &facts.links)?;
    let expected = &settings.judging.expected;
    nics::check_expected(expected, &judged, &facts.links)?;
    let predictions = predict(&facts, &judged, &settings.sources, expected, |_, _| false).await;
    let rows: Vec<Nic> = judged
        .iter()
        .map(|nic| Nic {
            name: facts.links.name(*nic),
            ifindex: *nic,
            mac: facts.links.by_index(*nic).and_then(|link| link.mac).map(super::mac),
            members: facts.links.members(*nic).iter().map(|link| link.name.clone()).collect(),
            ingress: None,
            egress: None,
            note: "not observed".to_owned(),
        })
        .collect();
    let names: Vec<String> = rows.iter().map(|nic| nic.name.clone()).collect();
    let scene = Scene {
        cases: &[],
        expected,
        window_s: 0.0,
        nics: &names,
        profile: settings.judging.profile,
        sources: &settings.sources,
        facts: Some(&facts),
        advise: true,
        listeners: &facts.listeners,
        broken: &[],
        own: None,
    };
    let mut findings = condition::find(&scene);
    findings.sort_by_key(|finding| finding.severity);
    let now = rfc3339(Clock::start().wall_ns(boot_ns()));
    let mut reasons = vec![Reason {
        code: NOT_OBSERVED.to_owned(),
        text: "no packet was looked at: this is what the configuration says".to_owned(),
    }];
    reasons.extend(facts.unread.iter().map(|unread| Reason {
        code: "not-looked-at".to_owned(),
        text: format!("{}: {}", unread.what, unread.why),
    }));
    Ok(Report {
        schema: SCHEMA.to_owned(),
        window: Window { from: now.clone(), to: now },
        observer: Observer { state: ObserverState::Degraded, reasons, lost: 0, evicted: 0 },
        nics: rows,
        probes: Vec::new(),
        findings,
        flows: Vec::new(),
        ha_ports: Vec::new(),
        shares: Vec::new(),
        platform: Platform::default(),
        predictions,
    })
}
