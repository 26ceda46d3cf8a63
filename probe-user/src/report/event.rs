//! What `run` says while it runs: JSON Lines, or one line each for people.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    document::{Finding, Protocol, Reply, Verdict},
    style::{Style, clean},
    text, time,
};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// An attempt was judged, or judged anew.
    Attempt(Attempt),
    /// A series' verdict changed.
    Series(Change),
    /// A series turned bad, and why.
    Finding {
        /// RFC 3339.
        time: String,
        finding: Finding,
    },
    /// Observations were lost: verdicts of that moment are missing.
    Loss {
        /// RFC 3339.
        time: String,
        count: u64,
    },
    /// A device came, went, or can no longer be observed.
    Observer {
        /// RFC 3339.
        time: String,
        text: String,
    },
}

/// One judged attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// RFC 3339; when the SYN came in.
    pub time: String,
    pub nic: String,
    pub source: String,
    /// The prober's address.
    pub address: String,
    pub source_port: u16,
    pub target: String,
    pub port: u16,
    pub protocol: Protocol,
    pub verdict: Verdict,
    pub reply: Reply,
    pub out_nic: Option<String>,
    /// SYN to SYN-ACK, milliseconds.
    pub latency_ms: Option<f64>,
    pub retransmits: u32,
    /// A later packet changed an earlier judgement.
    pub revised: bool,
}

/// A change of a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// RFC 3339.
    pub time: String,
    pub nic: String,
    pub source: String,
    pub target: String,
    pub port: u16,
    /// Null for the first verdict.
    pub from: Option<Verdict>,
    pub to: Verdict,
}

impl Event {
    /// One line, or for a finding a few.
    pub fn human(&self, style: Style) -> String {
        match self {
            Self::Attempt(attempt) => attempt.human(style),
            Self::Series(change) => change.human(style),
            Self::Finding { finding, .. } => text::finding(finding, style).join("\n"),
            Self::Loss { time, count } => format!(
                "{} {count} observations lost: verdicts of this moment are missing",
                style.faint(time::clock(time))
            ),
            Self::Observer { time, text } => format!("{} {}", style.faint(time::clock(time)), clean(text)),
        }
    }
}

impl Attempt {
    fn human(&self, style: Style) -> String {
        let verdict = style.verdict(self.verdict, &format!("{:<11}", self.verdict.code()));
        let how = match (self.reply, self.latency_ms) {
            (Reply::SynAck, Some(latency)) if self.out_nic.is_none() => {
                format!("SYN-ACK {}", text::ms(latency))
            }
            (Reply::SynAck, _) => "SYN-ACK".to_owned(),
            (Reply::Rst, _) => "RST".to_owned(),
            (Reply::Data, _) => "answer".to_owned(),
            (Reply::Icmp, _) => "ICMP error".to_owned(),
            (Reply::None, _) => "no reply".to_owned(),
        };
        let out = self.out_nic.as_ref().map(|nic| format!(" left by {}", clean(nic))).unwrap_or_default();
        let again = match (self.retransmits, self.revised) {
            (_, true) => ", revised".to_owned(),
            (0, _) => String::new(),
            (n, _) => format!(", {n} retransmissions"),
        };
        format!(
            "{} {verdict} {} {} → {}  {how}{out}{again}",
            style.faint(time::clock(&self.time)),
            clean(&self.nic),
            endpoint(&self.address, self.source_port),
            endpoint(&self.target, self.port),
        )
    }
}

impl Change {
    fn human(&self, style: Style) -> String {
        let from = self.from.map_or("new", Verdict::code);
        format!(
            "{} {} {} {}  {from} → {}",
            style.faint(time::clock(&self.time)),
            style.verdict(self.to, "series     "),
            clean(&self.nic),
            endpoint(&self.target, self.port),
            style.verdict(self.to, self.to.code()),
        )
    }
}

/// `address:port`, IPv6 in brackets.
pub(super) fn endpoint(address: &str, port: u16) -> String {
    match address.parse::<IpAddr>() {
        Ok(IpAddr::V6(v6)) => format!("[{v6}]:{port}"),
        _ => format!("{}:{port}", clean(address)),
    }
}
