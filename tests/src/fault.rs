//! Faults in tables: which series fail, why, what shows it, and that nothing else is found.

use std::net::SocketAddr;

use probe_user::{
    lab::{fabric::Running, netns::Namespace, prober::Probe, topology::Topology},
    report::document::{Finding, Verdict},
};

use crate::{
    observe::{EVERY, Seen},
    process::tool,
};

/// A series that fails, and what must be said about it.
#[derive(Clone, Copy, Debug)]
pub struct Fault<'a> {
    nic: &'a str,
    port: u16,
    verdict: Verdict,
    cause: &'a str,
    out: Option<&'a str>,
    shows: &'a [&'a str],
}

/// A series without a reply.
pub fn silent<'a>(nic: &'a str, port: u16, cause: &'a str) -> Fault<'a> {
    Fault { nic, port, verdict: Verdict::NoReply, cause, out: None, shows: &[] }
}

/// A series that is refused.
pub fn refused<'a>(nic: &'a str, port: u16, cause: &'a str) -> Fault<'a> {
    Fault { verdict: Verdict::Refused, ..silent(nic, port, cause) }
}

/// A series that is answered with an ICMP error.
pub fn rejected<'a>(nic: &'a str, port: u16, cause: &'a str) -> Fault<'a> {
    Fault { verdict: Verdict::IcmpReject, ..silent(nic, port, cause) }
}

/// A series whose replies leave by another NIC because of a route.
pub fn misrouted<'a>(nic: &'a str, port: u16, out: &'a str) -> Fault<'a> {
    Fault { verdict: Verdict::Asymmetric, out: Some(out), ..silent(nic, port, "route") }
}

impl<'a> Fault<'a> {
    /// Each of these is part of some evidence.
    #[must_use]
    pub fn shows(self, shows: &'a [&'a str]) -> Self {
        Self { shows, ..self }
    }
}

/// A prober of any address behind a NIC.
pub fn probe_at(topology: &Topology, nic: usize, target: SocketAddr) -> Running {
    let delay = EVERY.mul_f64(0.1 * f64::from(target.port() % 10));
    topology.fabrics[nic].probe(Probe::tcp(target).every(EVERY).delayed(delay)).expect("a prober")
}

/// Probers of these ports on these NICs, not all at one instant.
pub fn probe(topology: &Topology, series: &[(usize, u16)]) -> Vec<Running> {
    series.iter().map(|(nic, port)| probe_at(topology, *nic, topology.target(*nic, *port))).collect()
}

/// Loads nftables rules as they would stand in a file.
pub fn nft(namespace: &Namespace, rules: &str) {
    tool(namespace, &format!("nft -f - <<'END'\n{rules}\nEND"));
}

impl Seen {
    /// These series fail with these causes, those are OK, and there is no other series, error or warning than named.
    pub fn assert_faults(&self, faults: &[Fault<'_>], fine: &[(&str, u16)], warnings: &[&str]) {
        for fault in faults {
            self.assert_verdict(fault.nic, fault.port, fault.verdict, fault.out);
        }
        for (nic, port) in fine {
            self.assert_verdict(nic, *port, Verdict::Ok, None);
        }
        let series = faults.len() + fine.len();
        assert_eq!(self.report.probes.len(), series, "{:#?}", self.report.probes);
        self.assert_findings(faults, warnings);
    }

    /// The findings alone: for series that were not of one verdict throughout.
    pub fn assert_findings(&self, faults: &[Fault<'_>], warnings: &[&str]) {
        let errors: Vec<_> =
            faults.iter().map(|fault| (fault.verdict.code(), fault.cause, fault.nic, fault.port)).collect();
        self.assert_errors(&errors);
        for fault in faults {
            let finding = self.findings(fault.verdict.code(), fault.port);
            let finding = finding.into_iter().find(|finding| finding.nic.as_deref() == Some(fault.nic));
            assert_shows(finding.expect("the errors were compared"), fault.shows);
        }
        let mut found = self.warnings();
        found.sort_unstable();
        assert_eq!(found, warnings, "{:#?}", self.report.findings);
    }

    /// The fixes of one family, each once, as one script.
    pub fn fixes(&self, family: &str) -> String {
        let mut scripts: Vec<&str> = Vec::new();
        for fix in self.report.findings.iter().flat_map(|finding| &finding.fixes) {
            if fix.family == family && !scripts.contains(&fix.text.as_str()) {
                scripts.push(&fix.text);
            }
        }
        scripts.join("\n")
    }
}

/// Each part is found in some evidence.
pub fn assert_shows(finding: &Finding, parts: &[&str]) {
    for part in parts {
        let shown = finding.evidence.iter().any(|evidence| evidence.text.contains(part));
        assert!(shown, "no evidence says '{part}': {finding:#?}");
    }
}
