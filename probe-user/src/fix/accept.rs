//! A rule that accepts, in front of the one that drops.

use super::{
    intent::{Accept, Hook, Tool},
    shell::word,
};
use crate::{host::routes::net_text, report::document::Fix};

pub(super) fn fix(accept: &Accept) -> Fix {
    match accept.chain.tool {
        Tool::Nft => nft(accept),
        Tool::Iptables => iptables(accept, "iptables", "/etc/iptables/rules.v4", "/etc/sysconfig/iptables"),
        Tool::Ip6tables => {
            iptables(accept, "ip6tables", "/etc/iptables/rules.v6", "/etc/sysconfig/ip6tables")
        }
    }
}

/// `iifname` and so on, as each tool calls them.
struct Selectors {
    device: &'static str,
    address: &'static str,
    port: &'static str,
}

fn selectors(hook: Hook, nft: bool) -> Selectors {
    let (nft_words, iptables_words) = match hook {
        Hook::Input => (["iifname", "saddr", "dport"], ["-i", "-s", "--dport"]),
        Hook::Output | Hook::Forward => (["oifname", "daddr", "sport"], ["-o", "-d", "--sport"]),
    };
    let [device, address, port] = if nft { nft_words } else { iptables_words };
    Selectors { device, address, port }
}

fn nft(accept: &Accept) -> Fix {
    let Accept { chain, hook, nic, source, port } = accept;
    let of = selectors(*hook, true);
    let device =
        nic.as_ref().map(|nic| format!("{} \"{}\" ", of.device, nic.replace('"', ""))).unwrap_or_default();
    let ip = if source.addr().is_ipv6() { "ip6" } else { "ip" };
    let rule = format!("{device}{ip} {} {} tcp {} {port} accept", of.address, net_text(source), of.port);
    let place = format!("{} {} {}", chain.family, chain.table, chain.chain);
    // A chain's policy comes after its last rule; a rule that drops comes after one inserted at its handle.
    let command = match chain.rule {
        Some(handle) => format!("insert rule {place} handle {handle} {rule}"),
        None => format!("add rule {place} {rule}"),
    };
    let lines = [
        "# Lost when the ruleset is loaded again: put the rule into the file it comes from".to_owned(),
        "# (/etc/nftables.conf or what it includes; firewalld and ufw have files of their own),".to_owned(),
        format!(
            "# {}.",
            if chain.rule.is_some() { "in front of the rule that drops" } else { "at the end of the chain" }
        ),
        // Unlike `word`, always quoted: braces and quotes of the rule are nft's.
        format!("nft '{}'", command.replace('\'', r"'\''")),
    ];
    Fix { family: "nftables".to_owned(), persistent: false, text: lines.join("\n") }
}

fn iptables(accept: &Accept, tool: &str, debian: &str, red_hat: &str) -> Fix {
    let Accept { chain, hook, nic, source, port } = accept;
    let of = selectors(*hook, false);
    let device = nic.as_ref().map(|nic| format!("{} {} ", of.device, word(nic))).unwrap_or_default();
    let number = chain.rule.map(|number| format!(" {number}"));
    let place = match &number {
        Some(number) => format!("-I {}{number}", word(&chain.chain)),
        None => format!("-A {}", word(&chain.chain)),
    };
    let lines = [
        "# Lost on reboot unless the rules are saved afterwards, where they are loaded from:".to_owned(),
        format!("# {tool}-save > {debian} (Debian's netfilter-persistent) or {red_hat} (RHEL)."),
        format!(
            "{tool} -w -t {} {place} {device}{} {} -p tcp {} {port} -j ACCEPT",
            word(&chain.table),
            of.address,
            net_text(source),
            of.port
        ),
    ];
    Fix { family: "iptables".to_owned(), persistent: false, text: lines.join("\n") }
}
