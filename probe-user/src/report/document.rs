//! The report document, schema `nvaprobe.report/1`: adding a field is a minor change, removing or
//! renaming one a major.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Value of [`Report::schema`].
pub const SCHEMA: &str = "nvaprobe.report/1";

/// One look at a host (or a capture).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    pub schema: String,
    pub window: Window,
    pub observer: Observer,
    pub nics: Vec<Nic>,
    pub probes: Vec<Series>,
    pub findings: Vec<Finding>,
    pub flows: Vec<Flows>,
    pub ha_ports: Vec<HaPorts>,
    /// Traffic over time, by NIC and frontend; empty while flows are off.
    pub shares: Vec<Share>,
    pub platform: Platform,
    /// What would happen to probes where none was seen.
    #[serde(default)]
    pub predictions: Vec<Prediction>,
}

/// The time looked at, RFC 3339.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    pub from: String,
    pub to: String,
}

/// How complete the observation was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Observer {
    pub state: ObserverState,
    pub reasons: Vec<Reason>,
    /// Observations lost because the ring was full.
    pub lost: u64,
    /// Probe entries evicted from the kernel's table.
    pub evicted: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ObserverState {
    Complete,
    Degraded,
}

/// Code of the reason of a look that was to observe nothing.
pub const NOT_OBSERVED: &str = "not-observed";

/// One reason for a degraded observer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// Kebab-case, stable.
    pub code: String,
    pub text: String,
}

/// A logical NIC that is judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Nic {
    pub name: String,
    pub ifindex: u32,
    pub mac: Option<String>,
    /// Devices whose packets count as this NIC's (VF, bond members).
    pub members: Vec<String>,
    /// `xdp-native`, `xdp-generic` or `tc`; null for a capture.
    pub ingress: Option<String>,
    /// `tcx` or `clsact`; null for a capture.
    pub egress: Option<String>,
    /// Why this mode.
    pub note: String,
}

/// Verdict codes of an attempt; a series carries the verdict of its latest judged attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Verdict {
    Ok,
    Asymmetric,
    NoReply,
    Refused,
    IcmpReject,
    HttpStatus,
    Slow,
    TlsFail,
    Pending,
}

impl Verdict {
    /// The code as in JSON.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Asymmetric => "ASYMMETRIC",
            Self::NoReply => "NO_REPLY",
            Self::Refused => "REFUSED",
            Self::IcmpReject => "ICMP_REJECT",
            Self::HttpStatus => "HTTP_STATUS",
            Self::Slow => "SLOW",
            Self::TlsFail => "TLS_FAIL",
            Self::Pending => "PENDING",
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.code())
    }
}

/// What the first deciding reply was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    SynAck,
    Rst,
    Data,
    Icmp,
    None,
}

/// What the prober speaks, as far as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    Tcp,
    Http,
    Https,
}

/// The attempts from one source to one local address and port on one NIC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    pub nic: String,
    /// The configured source (address or prefix) that matched.
    pub source: String,
    /// The prober's addresses seen, at most 8.
    pub addresses: Vec<String>,
    pub target: String,
    pub port: u16,
    pub protocol: Protocol,
    pub verdict: Verdict,
    pub reply: Reply,
    /// The NIC the reply left by, when it is another one.
    pub out_nic: Option<String>,
    /// Status of the latest judged answer; null when none was readable (TLS hides it).
    pub http_status: Option<u16>,
    /// Name of the TLS alert that ended the latest failed handshake (RFC 8446, 6).
    pub tls_alert: Option<String>,
    /// `v1` or `v2` when a PROXY protocol header precedes the requests.
    pub proxy: Option<String>,
    /// `active` or `standby` when the configuration expects this probe.
    pub role: Option<String>,
    /// False for a single inbound attempt: it may be a port test.
    pub confirmed: bool,
    pub healed: u64,
    pub attempts: u64,
    /// Attempts by verdict code, `PENDING` included.
    pub counts: BTreeMap<Verdict, u64>,
    /// Seconds between attempts; the shortest cadence. Null until two attempts were seen.
    pub interval_s: Option<f64>,
    /// Every cadence, seconds.
    pub cadences: Vec<f64>,
    /// Seconds within which an answer counts.
    pub limit_s: Option<f64>,
    /// SYN to SYN-ACK.
    pub latency_ms: Option<Latency>,
    /// Request to the first byte of its answer.
    pub answer_ms: Option<Latency>,
    pub lb_view: Option<LbView>,
}

/// Latency in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
}

/// What a load balancer makes of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LbState {
    Up,
    Down,
    /// Fluctuating: it comes back later than its threshold says, how much later is not published.
    Held,
    /// Nothing is known, or what was known is too old.
    Unknown,
}

impl std::fmt::Display for LbState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Held => "held",
            Self::Unknown => "unknown",
        })
    }
}

/// The state the load balancer must have reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LbView {
    pub state: LbState,
    /// Azure's health-status reason code.
    pub code: String,
    /// When the state last changed, RFC 3339; null before the first change.
    pub since: Option<String>,
    /// Failures in a row that take the instance out.
    pub threshold: u32,
    /// Successes in a row that bring it back.
    pub rise: u32,
    /// How many more failures in a row flip it; null unless it is up.
    pub failures_left: Option<u32>,
    /// How many more successes in a row flip it; null unless it is down.
    pub successes_left: Option<u32>,
    /// Seconds from a failure to its removal that interval and threshold imply.
    pub failover_s: Option<f64>,
    /// Changes of state within the last ten intervals.
    pub changes: u32,
    /// What becomes of flows when this instance, or all, are down.
    pub flows: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warning,
    Info,
}

/// Verdict or condition + cause + evidence + fixes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// A verdict code or a condition code.
    pub code: String,
    /// Kebab-case cause; `unknown` when the evidence does not suffice.
    pub cause: String,
    pub severity: Severity,
    pub nic: Option<String>,
    pub out_nic: Option<String>,
    pub target: Option<String>,
    pub port: Option<u16>,
    /// True for failures among successes.
    pub intermittent: bool,
    /// One sentence a tired person understands.
    pub summary: String,
    pub evidence: Vec<Evidence>,
    pub fixes: Vec<Fix>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// `packets`, `route`, `rule`, `counter`, `socket`, …
    pub kind: String,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fix {
    /// `iproute2`, `netplan`, `systemd-networkd`, `networkmanager`, …
    pub family: String,
    /// False when a reboot or a network restart undoes it.
    pub persistent: bool,
    pub text: String,
}

/// Flow symmetry of one NIC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flows {
    pub nic: String,
    /// The tunnel pair whose inner flows these are; null for the NIC's own.
    pub tunnel: Option<TunnelPair>,
    /// Flows seen: the sum of the states below.
    pub tracked: u64,
    pub symmetric: u64,
    pub other_nic: u64,
    pub request_only: u64,
    pub reply_only: u64,
    /// Refused by the far end: RST or ICMP unreachable.
    pub reset: u64,
    pub unknown: u64,
    /// Asymmetric flows, at most 20.
    pub asymmetric: Vec<AsymmetricFlow>,
}

/// The two tunnels of a gateway load balancer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TunnelPair {
    pub external: String,
    pub internal: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AsymmetricFlow {
    /// `tcp`, `udp` or `icmp`.
    pub proto: String,
    /// `ip:port`, `[ip6]:port`; of ICMP the echo identifier in the port's place.
    pub client: String,
    pub server: String,
    /// `other-nic`, `request-only` or `reply-only`.
    pub state: String,
    pub other_nic: Option<String>,
}

/// HA-ports verdict of one NIC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HaPorts {
    pub nic: String,
    /// `consistent-up`, `consistent-down`, `masked-failure`, `false-down`, `draining`, `idle` or `unknown`.
    pub verdict: String,
    /// What the load balancer must think of this NIC's instance.
    pub view: LbState,
    /// `as-seen`, or `rules` when the metadata service says which ports are balanced here.
    pub basis: String,
    /// The ports with most unanswered flows, then most flows: at most 20.
    pub ports: Vec<HaPort>,
    /// The rest, summed.
    pub rest: Option<HaPortsRest>,
    /// The verdict in words.
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HaPort {
    pub proto: String,
    pub port: u16,
    /// New flows that entered to this port.
    pub opened: u64,
    pub answered: u64,
    /// Refused: RST or ICMP unreachable.
    pub reset: u64,
    /// Neither; those too young to tell are in none of these.
    pub unanswered: u64,
    /// Different clients.
    pub clients: u64,
    /// No flow was answered, and enough were tried to say so.
    pub dead: bool,
}

/// Ports that are not listed one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HaPortsRest {
    pub ports: u64,
    pub opened: u64,
    pub answered: u64,
    pub reset: u64,
    pub unanswered: u64,
}

/// Traffic of one NIC, or of one load-balancer frontend on it, over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    pub nic: String,
    /// The frontend's address; null for all of the NIC's traffic.
    pub frontend: Option<String>,
    /// Seconds.
    pub interval_s: f64,
    /// Oldest first, at most 60.
    pub steps: Vec<ShareStep>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShareStep {
    /// RFC 3339.
    pub from: String,
    /// Packets in and out by the device's own counters; null for a frontend.
    pub packets: Option<u64>,
    /// Flows that clients opened through this NIC.
    pub new_flows: u64,
}

/// VM-initiated traffic with a source: wire server, DNS, DHCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Platform {
    pub packets_out: u64,
    pub packets_in: u64,
}

/// What would happen to a probe and its reply, by the host's configuration as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Prediction {
    pub nic: String,
    /// The address that would be probed.
    pub address: String,
    /// The expected port; null when none is configured for this NIC.
    pub port: Option<u16>,
    pub source: String,
    /// The NIC that a reply would leave by; null when none would leave, or it is not known.
    pub out_nic: Option<String>,
    pub rp_filter: RpFilter,
    /// Who would hear the probe; null without a port.
    pub listener: Option<Hearing>,
    /// The load balancer would get no reply, or a refusal.
    pub fails: bool,
    pub text: String,
    pub evidence: Vec<Evidence>,
}

/// What the reverse-path filter would do with a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RpFilter {
    Pass,
    Drop,
    Unknown,
}

/// Whether a listener would hear a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Hearing {
    Hears,
    /// What listens on the port is bound to another address or device.
    Elsewhere,
    None,
    Unknown,
}

impl Report {
    /// Whether any finding is an error: the exit code is 1 then.
    pub fn has_error(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }
}
