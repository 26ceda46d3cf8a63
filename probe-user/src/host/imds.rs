//! Azure's instance metadata: which addresses of this machine a load balancer sends to, and the machine's NICs.
//!
//! <https://learn.microsoft.com/azure/load-balancer/howto-load-balancer-imds>. There is no probe port, protocol or interval
//! in it.

mod documents;
mod http;

use std::{net::SocketAddr, time::Duration};

use super::Facts;
pub use documents::{InboundRule, Interface, LoadBalancer};
use http::Answer;

const LOAD_BALANCER: &str = "/metadata/loadbalancer?api-version=2020-10-01";
const NETWORK: &str = "/metadata/instance/network?api-version=2021-02-01";

/// Why a document is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Unavailable {
    #[default]
    NotAsked,
    /// No connection: no Azure machine, or a firewall or route in between.
    Unreachable(String),
    TimedOut,
    /// 404: no load balancer, one of the basic SKU, or the service is not ready yet. Which of them is not said
    /// (<https://learn.microsoft.com/azure/load-balancer/troubleshoot-load-balancer-imds>).
    NotFound,
    /// 429 or 503: ask again later.
    Busy(u16),
    Status(u16),
    /// An answer that makes no sense.
    Malformed(String),
}

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotAsked => f.write_str("not asked"),
            Self::Unreachable(why) => write!(f, "no connection: {why}"),
            Self::TimedOut => f.write_str("no answer in time"),
            Self::NotFound => f.write_str("404: no standard load balancer, or not ready"),
            Self::Busy(status) => write!(f, "{status}: too busy, ask again later"),
            Self::Status(status) => write!(f, "status {status}"),
            Self::Malformed(why) => write!(f, "an answer that is not understood: {why}"),
        }
    }
}

/// What the metadata service says; each document by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imds {
    pub load_balancer: Result<LoadBalancer, Unavailable>,
    pub network: Result<Vec<Interface>, Unavailable>,
}

impl Default for Imds {
    fn default() -> Self {
        Self { load_balancer: Err(Unavailable::NotAsked), network: Err(Unavailable::NotAsked) }
    }
}

/// Where the service is, and how long it is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    pub address: SocketAddr,
    pub connect_within: Duration,
    /// All of one request, the connection included.
    pub answer_within: Duration,
}

impl Default for Service {
    fn default() -> Self {
        Self {
            address: SocketAddr::from(([169, 254, 169, 254], 80)),
            connect_within: Duration::from_millis(300),
            answer_within: Duration::from_secs(1),
        }
    }
}

impl Service {
    /// At another place: `127.0.0.1:8080`, `http://127.0.0.1:8080/`.
    pub fn at(base: &str) -> Result<Self, String> {
        let host = base.strip_prefix("http://").unwrap_or(base).trim_end_matches('/');
        let address =
            host.parse().or_else(|_| host.parse().map(|ip| SocketAddr::new(ip, 80))).map_err(|_| {
                format!("`{base}` is no address of a metadata service; write it as http://169.254.169.254:80")
            })?;
        Ok(Self { address, ..Self::default() })
    }

    /// Asks for both documents at once, from the calling thread's network namespace.
    pub async fn ask(&self) -> Imds {
        let (load_balancer, network) = tokio::join!(http::get(self, LOAD_BALANCER), http::get(self, NETWORK));
        Imds {
            load_balancer: document(load_balancer, documents::load_balancer),
            network: document(network, documents::network),
        }
    }
}

fn document<T>(
    answer: Result<Answer, Unavailable>,
    understand: fn(&serde_json::Value) -> Result<T, String>,
) -> Result<T, Unavailable> {
    let answer = answer?;
    match answer.status {
        200 => {
            let json = serde_json::from_slice(&answer.body)
                .map_err(|error| Unavailable::Malformed(error.to_string()))?;
            understand(&json).map_err(Unavailable::Malformed)
        }
        404 => Err(Unavailable::NotFound),
        status @ (429 | 503) => Err(Unavailable::Busy(status)),
        status => Err(Unavailable::Status(status)),
    }
}

impl Imds {
    /// The load balancer's inbound rules that lead to a NIC (or to a device that counts as it): by the NIC's own addresses
    /// and by those that the network document gives it. `None` when the rules are not known.
    pub fn inbound<'a>(&'a self, facts: &Facts, nic: u32) -> Option<Vec<&'a InboundRule>> {
        let rules = &self.load_balancer.as_ref().ok()?.inbound;
        Some(rules.iter().filter(|rule| self.nic(facts, rule) == Some(nic)).collect())
    }

    /// The logical NIC that a rule leads to.
    pub fn nic(&self, facts: &Facts, rule: &InboundRule) -> Option<u32> {
        let address = rule.private_address;
        let own = facts.addresses.iter().find(|own| own.net.addr() == address);
        if let Some(own) = own {
            return Some(facts.links.logical_nic(own.link));
        }
        let interfaces = self.network.as_ref().ok()?;
        let interface = interfaces.iter().find(|interface| interface.addresses.contains(&address))?;
        interface.nic(facts)
    }
}

#[cfg(test)]
#[path = "imds/imds_tests.rs"]
mod tests;
