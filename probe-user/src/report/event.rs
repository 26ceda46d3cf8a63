//! What `run` says while it runs: JSON Lines, or one line each for people.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    document::{Finding, LbState, Protocol, Reply, Verdict},
    endpoint::endpoint,
    style::{Style, clean, count, width},
    text, time,
};

/// From this width on, a line holds the prober's address with its port.
const FULL: usize = 100;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// An attempt was judged, or judged anew.
    Attempt(Attempt),
    /// A series' verdict changed.
    Series(Change),
    /// What the load balancer makes of a series changed.
    LbView {
        /// RFC 3339.
        time: String,
        nic: String,
        source: String,
        target: String,
        port: u16,
        /// Null for the first state.
        from: Option<LbState>,
        to: LbState,
        /// Azure's health-status reason code.
        code: String,
    },
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
    /// Status of the answer; null when none was readable (TLS hides it).
    pub http_status: Option<u16>,
    /// Name of the TLS alert that ended the handshake (RFC 8446, 6).
    pub tls_alert: Option<String>,
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
            Self::LbView { time, nic, target, port, from, to, code, .. } => {
                let change = |style: Style| {
                    let from = from.map_or_else(|| "new".to_owned(), |from| from.to_string());
                    let at = clock(time, style);
                    let (label, to) = (style.lb(*to, "lb-view    "), style.lb(*to, &to.to_string()));
                    format!("{at} {label} {} {}  {from} → {to}", clean(nic), endpoint(target, *port))
                };
                let used = width(&change(Style { colour: false, ..style }));
                let room = usize::from(style.width).saturating_sub(used + 2);
                change(style) + &reason(&clean(code), room)
            }
            Self::Finding { time, finding } => {
                let mut lines = text::finding(finding, style);
                if let Some(head) = lines.first_mut() {
                    *head = format!("{} {head}", clock(time, style));
                }
                lines.join("\n")
            }
            Self::Loss { time, count: lost } => format!(
                "{} {} lost: verdicts of this moment are missing",
                clock(time, style),
                count(*lost, "observation", "observations")
            ),
            Self::Observer { time, text } => format!("{} {}", clock(time, style), clean(text)),
        }
    }
}

impl Attempt {
    fn human(&self, style: Style) -> String {
        // On a narrow terminal the port stands alone: it finds the packet in a capture, and the address is nearly
        // always the same. By width, not by line, so that columns stay columns.
        let from = if usize::from(style.width) < FULL {
            format!(":{}", self.source_port)
        } else {
            endpoint(&self.address, self.source_port)
        };
        let verdict = style.verdict(self.verdict, &format!("{:<11}", self.verdict.code()));
        format!(
            "{} {verdict} {} {from} → {}  {}",
            clock(&self.time, style),
            clean(&self.nic),
            endpoint(&self.target, self.port),
            self.how()
        )
    }

    /// What answered, where it left, and what was unusual.
    fn how(&self) -> String {
        let mut how = match (self.http_status, &self.tls_alert, self.reply) {
            (Some(status), ..) => format!("HTTP {status}"),
            (None, Some(alert), _) => format!("alert {}", clean(alert)),
            (None, None, Reply::SynAck) => "SYN-ACK".to_owned(),
            (None, None, Reply::Rst) => "RST".to_owned(),
            // The status inside is not visible.
            (None, None, Reply::Data) if self.protocol == Protocol::Https => "TLS only".to_owned(),
            (None, None, Reply::Data) => "answer".to_owned(),
            (None, None, Reply::Icmp) => "ICMP error".to_owned(),
            (None, None, Reply::None) => "no reply".to_owned(),
        };
        if let Some(nic) = &self.out_nic {
            how = format!("{how} left by {}", clean(nic));
        } else if let (Some(latency), None) = (self.latency_ms, &self.tls_alert) {
            // The latency is the handshake's, whatever came after it.
            let handshake = if how == "SYN-ACK" { "" } else { ", SYN-ACK" };
            how = format!("{how}{handshake} {}", text::ms(latency));
        }
        match (self.retransmits, self.reply) {
            (0, _) => {}
            (again, Reply::None) => how = format!("{how} to {} SYNs", u64::from(again) + 1),
            (again, _) => {
                let again = count(again.into(), "retransmission", "retransmissions");
                how = format!("{how}, {again}");
            }
        }
        if self.revised {
            how += ", revised";
        }
        how
    }
}

impl Change {
    fn human(&self, style: Style) -> String {
        let from = self.from.map_or("new", Verdict::code);
        format!(
            "{} {} {} {}  {from} → {}",
            clock(&self.time, style),
            style.verdict(self.to, "series     "),
            clean(&self.nic),
            endpoint(&self.target, self.port),
            style.verdict(self.to, self.to.code()),
        )
    }
}

/// A code as far as there is room: whole, without what the state says already, or not at all.
fn reason(code: &str, room: usize) -> String {
    let short = code.split_once("_Probe_").map_or(code, |(_, reason)| reason);
    let fitting = [code, short].into_iter().find(|code| !code.is_empty() && width(code) <= room);
    fitting.map_or_else(String::new, |code| format!("  {code}"))
}

fn clock(time: &str, style: Style) -> String {
    style.faint(&clean(time::clock(time)))
}

#[cfg(test)]
#[path = "event_tests.rs"]
mod tests;
