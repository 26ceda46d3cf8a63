//! Cause `duplicate-routes`: several host routes to a source that differ in nothing but where they lead. The kernel takes the
//! first, or deals packets out among them; which one that is after a restart is left to chance.

use std::collections::BTreeMap;

use super::{Scene, advice::Advice};
use crate::{
    diagnose::{Case, evidence},
    host::{
        Facts,
        routes::{NextHop, Route, RouteKind},
    },
    report::document::{Finding, Severity, Verdict},
};

pub(super) fn find(scene: &Scene<'_>) -> Vec<Finding> {
    let Some(facts) = scene.facts else { return Vec::new() };
    let mut groups: BTreeMap<_, Vec<&Route>> = BTreeMap::new();
    for route in facts.routes.iter().filter(|route| leads_to_a_source(scene, route)) {
        groups.entry((route.table, route.destination, route.metric)).or_default().push(route);
    }
    groups.into_values().filter_map(|routes| finding(scene, facts, &routes)).collect()
}

fn leads_to_a_source(scene: &Scene<'_>, route: &Route) -> bool {
    route.kind == RouteKind::Unicast
        && scene.sources.iter().any(|source| source.is_exact() && source.net == route.destination)
}

fn finding(scene: &Scene<'_>, facts: &Facts, routes: &[&Route]) -> Option<Finding> {
    let mut devices: Vec<&str> =
        routes.iter().flat_map(|route| &route.next_hops).map(|hop: &NextHop| hop.device.as_str()).collect();
    devices.sort_unstable();
    devices.dedup();
    let (first, [_, _, ..]) = (routes.first()?, devices.as_slice()) else { return None };
    let affected = scene.cases.iter().find(|case| is_affected(case, first));
    let (table, to) = (facts.tables.name(first.table), first.destination.addr());
    let summary = format!(
        "Table {table} has several routes to {to} of equal metric, by {}: which one replies take is left to chance.",
        devices.join(" and ")
    );
    let evidence = routes.iter().map(|route| evidence::of("route", route.evidence(&facts.tables))).collect();
    let mut finding = Advice { cause: "duplicate-routes", summary, evidence }.finding();
    if let Some(case) = affected {
        finding.severity = Severity::Warning;
        finding.nic = Some(case.series.nic.clone());
    }
    Some(finding)
}

/// A series that fails, and whose replies these routes lead.
fn is_affected(case: &Case<'_>, route: &Route) -> bool {
    let routed = matches!(case.failing(), Some(Verdict::Asymmetric | Verdict::NoReply));
    let asked = case.lookup.and_then(|lookup| lookup.chosen()).and_then(|chosen| chosen.table);
    routed
        && case.series.addresses.contains(&route.destination.addr().to_string())
        && asked.is_none_or(|table| table == route.table)
}
