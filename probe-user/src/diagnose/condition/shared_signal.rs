//! `SHARED_SIGNAL`: the probed port belongs to a side service. It answers as long as the host lives, whether or not the
//! appliance behind it forwards anything.

use super::{Scene, confirmed, of};
use crate::{
    diagnose::evidence,
    report::document::{Finding, Severity, Verdict},
};

/// Services that say nothing about forwarding, by the name of their process.
const SIDE_SERVICES: [&str; 17] = [
    "sshd",
    "sshd-session",
    "dropbear",
    "telnetd",
    "in.telnetd",
    "rpcbind",
    "cupsd",
    "snmpd",
    "chronyd",
    "ntpd",
    "xrdp",
    "cockpit-ws",
    "cockpit-tls",
    "node_exporter",
    "zabbix_agentd",
    "python3-waagent",
    "systemd-resolve",
];
/// Proxies and responders that people do put on any port: what they answer is the signal.
const DATA_PATH: [&str; 8] =
    ["haproxy", "nginx", "envoy", "squid", "traefik", "caddy", "keepalived", "varnishd"];
/// The same services by port (IANA), where the process does not tell: ssh, telnet, sunrpc, ms-wbt-server, cockpit.
const SIDE_PORTS: [(u16, &str); 5] =
    [(22, "ssh"), (23, "telnet"), (111, "rpcbind"), (3389, "rdp"), (9090, "cockpit")];

pub(super) fn find(scene: &Scene<'_>) -> Vec<Finding> {
    confirmed(scene)
        .filter_map(|case| {
            let series = case.series;
            // Where nothing answers, nothing can be taken for a signal.
            series.counts.get(&Verdict::Ok)?;
            let processes: Vec<&str> = scene
                .listeners
                .iter()
                .filter(|listener| listener.port == series.port)
                .filter_map(|listener| listener.process.as_deref())
                .collect();
            let side = processes.iter().find(|name| SIDE_SERVICES.contains(name));
            let named = processes.iter().any(|name| DATA_PATH.contains(name));
            let by_port = SIDE_PORTS.iter().find(|(port, _)| *port == series.port && !named);
            let (service, proof) = match (side, by_port) {
                (Some(name), _) => ((*name).to_owned(), format!("{name} listens on port {}", series.port)),
                (None, Some((port, service))) => {
                    let who = match processes.first() {
                        Some(name) => format!("; {name} listens on it"),
                        None => "; whose process listens on it is not known".to_owned(),
                    };
                    ((*service).to_owned(), format!("port {port} is {service}'s{who}"))
                }
                (None, None) => return None,
            };
            let mut evidence = vec![evidence::of("socket", proof)];
            let v6 = series.target.contains(':');
            let sysctls = case.facts.map(|facts| &facts.sysctls);
            let forwards =
                sysctls.and_then(|sysctls| if v6 { sysctls.v6_forwarding } else { sysctls.v4_forwarding });
            if forwards == Some(false) {
                let sysctl = if v6 { "net.ipv6.conf.all.forwarding" } else { "net.ipv4.ip_forward" };
                evidence.push(evidence::of("sysctl", format!("{sysctl} = 0: this host forwards nothing")));
            }
            let summary = format!(
                "The probe of {} on {} asks {service}: it does not reflect forwarding health. {service} answers while \
                 the appliance behind it is dead, and its restart takes the appliance out.",
                case.place(),
                series.nic
            );
            Some(of(case, "SHARED_SIGNAL", Severity::Warning, summary, evidence))
        })
        .collect()
}
