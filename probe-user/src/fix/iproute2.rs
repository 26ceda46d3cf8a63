//! Family `iproute2`: two commands, gone with the next reboot.

use super::PolicyFix;
use crate::{host::routes::net_text, report::document::Fix};

pub(super) fn render(fix: &PolicyFix) -> Fix {
    let ip = if fix.from.is_ipv6() { "ip -6" } else { "ip" };
    let PolicyFix { from, gateway, table, .. } = fix;
    let nic = word(&fix.nic);
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

/// A device name as one shell word: Linux allows any byte but '/' and white space in it (net/core/dev.c,
/// `dev_valid_name`), and these lines are pasted as root.
fn word(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-@:".contains(c);
    if !name.is_empty() && name.chars().all(plain) {
        name.to_owned()
    } else {
        format!("'{}'", name.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::word;

    #[test]
    fn a_device_name_is_one_word_and_never_a_command() {
        assert_eq!(word("eth0.100"), "eth0.100");
        assert_eq!(word("$(reboot)"), "'$(reboot)'");
        assert_eq!(word("a;b"), "'a;b'");
        assert_eq!(word("a'b"), r"'a'\''b'");
    }
}
