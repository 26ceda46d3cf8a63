//! The documents, read leniently: what an entry lacks is left out, and what is unknown is skipped.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;

use crate::host::Facts;

/// One inbound rule: what comes to the frontend goes to this private address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundRule {
    pub frontend: Option<IpAddr>,
    /// `tcp`, `udp`, or whatever stands for all of them, in lower case.
    pub protocol: Option<String>,
    /// 0 is likely to mean every port: how an HA-ports rule looks is not documented.
    pub frontend_port: Option<u16>,
    pub backend_port: Option<u16>,
    pub private_address: IpAddr,
}

impl std::fmt::Display for InboundRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let port = |port: Option<u16>| match port {
            None => "?".to_owned(),
            Some(0) => "every port".to_owned(),
            Some(port) => port.to_string(),
        };
        let frontend = self.frontend.map_or_else(|| "?".to_owned(), |address| address.to_string());
        let protocol = self.protocol.as_deref().unwrap_or("?");
        write!(
            f,
            "{frontend} {protocol} {} to {} {}",
            port(self.frontend_port),
            self.private_address,
            port(self.backend_port)
        )
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadBalancer {
    pub inbound: Vec<InboundRule>,
    /// Private addresses that have a public one of their own, and those with an outbound rule.
    pub public: Vec<IpAddr>,
    pub outbound: Vec<IpAddr>,
}

/// One NIC, as the platform knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    pub mac: Option<[u8; 6]>,
    /// Private addresses of both families.
    pub addresses: Vec<IpAddr>,
    pub subnets: Vec<IpNet>,
}

impl Interface {
    /// The logical NIC with this MAC: a VF shares it with its synthetic NIC, and counts as it.
    pub fn nic(&self, facts: &Facts) -> Option<u32> {
        let mac = self.mac?;
        let link = facts.links.iter().find(|link| link.mac == Some(mac))?;
        Some(facts.links.logical_nic(link.index))
    }
}

pub(super) fn load_balancer(json: &Value) -> Result<LoadBalancer, String> {
    let body = json.get("loadbalancer").ok_or("no `loadbalancer` in it")?;
    let private =
        |list: &str| entries(body, list).filter_map(|entry| address(entry, "privateIpAddress")).collect();
    let inbound = entries(body, "inboundRules").filter_map(|entry| {
        Some(InboundRule {
            frontend: address(entry, "frontendIpAddress"),
            protocol: entry.get("protocol").and_then(Value::as_str).map(str::to_ascii_lowercase),
            frontend_port: port(entry, "frontendPort"),
            backend_port: port(entry, "backendPort"),
            private_address: address(entry, "privateIpAddress")?,
        })
    });
    Ok(LoadBalancer {
        inbound: inbound.collect(),
        public: private("publicIpAddresses"),
        outbound: private("outboundRules"),
    })
}

pub(super) fn network(json: &Value) -> Result<Vec<Interface>, String> {
    // The whole instance document has it one level down.
    let body = json.get("network").unwrap_or(json);
    if body.get("interface").and_then(Value::as_array).is_none() {
        return Err("no `interface` list in it".to_owned());
    }
    Ok(entries(body, "interface").map(interface).collect())
}

fn interface(entry: &Value) -> Interface {
    let families = || ["ipv4", "ipv6"].into_iter().filter_map(|family| entry.get(family));
    let addresses = families()
        .flat_map(|family| entries(family, "ipAddress"))
        .filter_map(|entry| address(entry, "privateIpAddress"));
    let subnets = families().flat_map(|family| entries(family, "subnet")).filter_map(|subnet| {
        let length = subnet.get("prefix")?;
        let length = length.as_u64().or_else(|| length.as_str()?.parse().ok())?;
        IpNet::new(address(subnet, "address")?, u8::try_from(length).ok()?).ok()
    });
    Interface {
        mac: entry.get("macAddress").and_then(Value::as_str).and_then(mac),
        addresses: addresses.collect(),
        subnets: subnets.collect(),
    }
}

fn entries<'a>(body: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    body.get(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default().iter()
}

fn address(entry: &Value, name: &str) -> Option<IpAddr> {
    entry.get(name)?.as_str()?.trim_matches(['[', ']']).parse().ok()
}

fn port(entry: &Value, name: &str) -> Option<u16> {
    let port = entry.get(name)?;
    let port = port.as_u64().or_else(|| port.as_str()?.parse().ok())?;
    u16::try_from(port).ok()
}

/// Hexadecimal digits, with or without separators.
fn mac(text: &str) -> Option<[u8; 6]> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|letter| !matches!(letter, ':' | '-'))
        .map(|letter| letter.to_digit(16))
        .collect::<Option<_>>()?;
    let bytes: Vec<u8> =
        digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | *digit as u8)).collect();
    if digits.len() == 12 { bytes.try_into().ok() } else { None }
}
