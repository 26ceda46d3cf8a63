//! A probe, as configured on a load balancer.

use std::{
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    time::Duration,
};

use super::{
    proxy::Version,
    signature::Signature,
    view::Counting,
    wire::{PROBE_V4, PROBE_V6},
};

/// How the prober ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    Fin,
    Rst,
}

/// When the prober ends a connection that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// When the next attempt is due, as Azure Load Balancer is seen to do (azure-docs 34281).
    Next,
    /// As soon as the answer is there.
    Answer,
    /// A RST is the reply to the SYN-ACK; only TCP probes can do that.
    HalfOpen,
}

/// What an attempt asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The handshake only.
    Tcp,
    /// `GET path`; an accepted status is success.
    Http { path: String },
    /// A ClientHello; a ServerHello is success, and nothing is said afterwards.
    Https,
}

/// A PROXY header in front of the first request of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preface {
    pub version: Version,
    /// In a segment of its own.
    pub alone: bool,
}

/// The probe.
#[derive(Clone, Debug)]
pub struct Probe {
    pub target: SocketAddr,
    /// Source addresses, used in turn.
    pub sources: Vec<IpAddr>,
    pub kind: Kind,
    pub interval: Duration,
    /// The first attempt is sent this long after the start.
    pub delay: Duration,
    pub close: Close,
    pub ends: Ends,
    /// Give up after this long. `None`: when the next attempt is due, or after 30 s for a request.
    pub timeout: Option<Duration>,
    /// How an open connection ends at the timeout.
    pub give_up: Close,
    /// HTTP statuses that are success.
    pub accept: Vec<RangeInclusive<u16>>,
    pub preface: Option<Preface>,
    /// Cut requests into segments of this size.
    pub split: Option<usize>,
    /// Between the handshake and the request.
    pub pause: Duration,
    /// Ask again on the connection of the previous attempt, while that is open.
    pub reuse: bool,
    /// Attempts from the first on that hear nothing: what is sent to them is lost on the way.
    pub deaf: usize,
    /// User-Agent of an HTTP request.
    pub agent: String,
    pub counting: Counting,
    /// Stop after so many attempts; `None` goes on until stopped.
    pub attempts: Option<usize>,
    pub signature: Signature,
    /// Multiplies retransmission times, never the interval.
    pub time_scale: f64,
}

impl Probe {
    /// Azure's TCP probe with the portal's default interval of 5 s.
    pub fn tcp(target: SocketAddr) -> Self {
        let (source, signature) = match target {
            SocketAddr::V4(_) => (IpAddr::V4(PROBE_V4), Signature::azure_v4()),
            SocketAddr::V6(_) => (IpAddr::V6(PROBE_V6), Signature::azure_v6()),
        };
        Self {
            target,
            sources: vec![source],
            kind: Kind::Tcp,
            interval: Duration::from_secs(5),
            delay: Duration::ZERO,
            close: Close::Fin,
            ends: Ends::Next,
            timeout: None,
            give_up: Close::Rst,
            accept: vec![200..=200],
            preface: None,
            split: None,
            pause: Duration::ZERO,
            reuse: false,
            deaf: 0,
            agent: "Load Balancer Agent".to_owned(),
            counting: Counting::threshold(1),
            attempts: None,
            signature,
            time_scale: 1.0,
        }
    }

    /// Azure's HTTP probe.
    pub fn http(target: SocketAddr, path: impl Into<String>) -> Self {
        Self { kind: Kind::Http { path: path.into() }, ..Self::tcp(target) }
    }

    /// Azure's HTTPS probe, as far as the ServerHello.
    pub fn https(target: SocketAddr) -> Self {
        Self { kind: Kind::Https, ..Self::tcp(target) }
    }

    /// One of Traffic Manager's probers, with its defaults: every 30 s, 10 s to answer, three failures tolerated
    /// (<https://learn.microsoft.com/azure/traffic-manager/traffic-manager-monitoring>). No trace of its SYN is public;
    /// it has the load balancer's.
    #[must_use]
    pub fn traffic_manager(mut self, source: IpAddr) -> Self {
        self.sources = vec![source];
        self.interval = Duration::from_secs(30);
        self.timeout = Some(Duration::from_secs(10));
        self.ends = Ends::Answer;
        // A TCP probe is reset after the SYN-ACK.
        self.close = if self.kind == Kind::Tcp { Close::Rst } else { Close::Fin };
        "Azure Traffic Manager Endpoint Monitor".clone_into(&mut self.agent);
        self.counting = Counting::tolerating(3);
        self
    }

    #[must_use]
    pub fn every(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    #[must_use]
    pub fn delayed(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    #[must_use]
    pub fn attempts(mut self, attempts: usize) -> Self {
        self.attempts = Some(attempts);
        self
    }

    #[must_use]
    pub fn close(mut self, close: Close) -> Self {
        self.close = close;
        self
    }

    #[must_use]
    pub fn ends(mut self, ends: Ends) -> Self {
        self.ends = ends;
        self
    }

    #[must_use]
    pub fn timeout(mut self, timeout: Duration, give_up: Close) -> Self {
        self.timeout = Some(timeout);
        self.give_up = give_up;
        self
    }

    #[must_use]
    pub fn accept(mut self, statuses: impl IntoIterator<Item = RangeInclusive<u16>>) -> Self {
        self.accept = statuses.into_iter().collect();
        self
    }

    #[must_use]
    pub fn preface(mut self, version: Version, alone: bool) -> Self {
        self.preface = Some(Preface { version, alone });
        self
    }

    #[must_use]
    pub fn split(mut self, size: usize) -> Self {
        self.split = Some(size);
        self
    }

    #[must_use]
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    #[must_use]
    pub fn reuse(mut self) -> Self {
        self.reuse = true;
        self
    }

    #[must_use]
    pub fn deaf(mut self, attempts: usize) -> Self {
        self.deaf = attempts;
        self
    }

    #[must_use]
    pub fn counting(mut self, counting: Counting) -> Self {
        self.counting = counting;
        self
    }

    #[must_use]
    pub fn sources(mut self, sources: impl IntoIterator<Item = IpAddr>) -> Self {
        self.sources = sources.into_iter().collect();
        self
    }

    #[must_use]
    pub fn signature(mut self, signature: Signature) -> Self {
        self.signature = signature;
        self
    }

    #[must_use]
    pub fn time_scale(mut self, scale: f64) -> Self {
        self.time_scale = scale;
        self
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.sources.is_empty() {
            return Err("a prober needs a source address".to_owned());
        }
        if self.sources.iter().any(|source| source.is_ipv4() != self.target.is_ipv4()) {
            return Err(format!("the source of a prober for {} is of the other IP family", self.target));
        }
        if self.interval < Duration::from_millis(10) {
            return Err("a prober's interval must be at least 10 ms".to_owned());
        }
        if self.timeout.is_some_and(|timeout| timeout > self.interval) {
            return Err("a prober's timeout must not be longer than its interval".to_owned());
        }
        if self.split == Some(0) {
            return Err("a request cannot be cut into segments of no bytes".to_owned());
        }
        if self.ends == Ends::HalfOpen && self.kind != Kind::Tcp {
            return Err("only a TCP probe can leave a connection half open".to_owned());
        }
        if self.counting.fall == 0 || self.counting.rise == 0 {
            return Err("a prober's threshold must be at least 1".to_owned());
        }
        if !(self.time_scale.is_finite() && self.time_scale > 0.0) {
            return Err(format!("a prober's time scale must be positive, not {}", self.time_scale));
        }
        Ok(())
    }
}
