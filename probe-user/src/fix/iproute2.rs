//! Family `iproute2`: two commands, gone with the next reboot.

use super::PolicyFix;
use crate::{host::routes::net_text, report::document::Fix};

pub(super) fn render(fix: &PolicyFix) -> Fix {
    let ip = if fix.from.is_ipv6() { "ip -6" } else { "ip" };
    let PolicyFix { nic, from, gateway, table, .. } = fix;
    let to = net_text(&fix.to);
    let mut lines = vec!["# Lost on reboot and network restart: repeat it in the configuration.".to_owned()];
    if fix.gateway_assumed {
        lines.push(format!("# Assumed: the gateway is {gateway}, the first address, as on Azure."));
    }
    let onlink = if fix.onlink { " onlink" } else { "" };
    let metric = if fix.metric == 0 { String::new() } else { format!(" metric {}", fix.metric) };
    lines.push(format!("{ip} route replace {to} via {gateway} dev {nic}{onlink} table {table}{metric}"));
    if let Some(priority) = fix.priority {
        lines.push(format!("{ip} rule add from {from} to {to} lookup {table} priority {priority}"));
    }
    Fix { family: "iproute2".to_owned(), persistent: false, text: lines.join("\n") }
}
