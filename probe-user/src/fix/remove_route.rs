//! A leftover route: away now, and where it came from.

use super::{family::manager, networkd, shell::word};
use crate::{
    host::{Facts, managers::Manager, routes::Route},
    report::document::Fix,
};

/// `RTPROT_DHCP` (linux/rtnetlink.h).
const DHCP: u8 = 16;

pub(super) fn fixes(route: &Route, facts: &Facts) -> Vec<Fix> {
    networkd_to_dns(route, facts).into_iter().chain([at_once(route)]).collect()
}

fn at_once(route: &Route) -> Fix {
    let ip = if route.destination.addr().is_ipv6() { "ip -6" } else { "ip" };
    // Device names have no white space, so a word of the text is a word of the command.
    let words: Vec<String> = route.text().split_whitespace().map(word).collect();
    let text = format!(
        "# Comes back with whatever added it; look for it where the network is configured.\n\
         {ip} route del {} table {}",
        words.join(" "),
        route.table
    );
    Fix { family: "iproute2".to_owned(), persistent: false, text }
}

/// networkd adds a route to every DNS server that DHCP names, on each NIC (systemd.network(5), RoutesToDNS=). On Azure
/// that server is the prober.
fn networkd_to_dns(route: &Route, facts: &Facts) -> Option<Fix> {
    let [hop] = route.next_hops.as_slice() else { return None };
    if route.protocol != DHCP || route.destination.prefix_len() != route.destination.max_prefix_len() {
        return None;
    }
    let file = match manager(facts, &hop.device)? {
        Manager::Networkd(networkd) => networkd.file.rsplit('/').next()?.to_owned(),
        Manager::Netplan(netplan) if networkd_behind(facts) => format!("10-netplan-{}.network", netplan.id),
        _ => return None,
    };
    let section = if route.destination.addr().is_ipv4() { "[DHCPv4]" } else { "[DHCPv6]" };
    let mut lines = vec![
        "# Persistent: systemd-networkd then adds no route to the DNS servers that DHCP names,".to_owned(),
        "# which on Azure are 168.63.129.16.".to_owned(),
    ];
    lines.extend(networkd::drop_in(&file, &format!("{section}\nRoutesToDNS=no\n"), facts));
    lines.push("networkctl reload".to_owned());
    lines.push(format!("networkctl reconfigure {}", word(&hop.device)));
    Some(Fix { family: "systemd-networkd".to_owned(), persistent: true, text: lines.join("\n") })
}

fn networkd_behind(facts: &Facts) -> bool {
    facts.managers.networkd_runs
}
