//! The Azure guest agent guards the wire server with rules of its own (OS.EnableFirewall, WALinuxAgent's README): they
//! may drop probe replies, whose destination is the same address.

use super::{
    intent::{Chain, Tool},
    shell::word,
};
use crate::report::document::Fix;

const CONFIGURATION: &str = "/etc/waagent.conf";

pub(super) fn fix(chain: &Chain) -> Fix {
    let mut lines = vec![
        "# Persistent: told so, the agent adds no rules. Any user of this machine may then ask".to_owned(),
        "# the wire server for what only root could: keep others off 168.63.129.16 by rules of your"
            .to_owned(),
        "# own that leave tracked replies alone (ct state established).".to_owned(),
        format!(r"sed -i '/^[[:space:]]*OS\.EnableFirewall[[:space:]]*=/d' {CONFIGURATION}"),
        format!("echo OS.EnableFirewall=n >> {CONFIGURATION}"),
        // It puts the rules back at boot, before the agent runs.
        "systemctl disable --now waagent-network-setup.service 2>/dev/null || true".to_owned(),
        "systemctl restart walinuxagent.service 2>/dev/null || systemctl restart waagent.service".to_owned(),
    ];
    match chain.tool {
        Tool::Nft if chain.table == "walinuxagent" => {
            lines.push(format!("nft delete table {} {}", word(&chain.family), word(&chain.table)));
        }
        Tool::Nft => {
            let handle = chain.rule.map_or_else(String::new, |handle| format!(" handle {handle}"));
            let verb = if chain.rule.is_some() { "delete rule" } else { "flush chain" };
            lines.push(format!(
                "nft {verb} {} {} {}{handle}",
                word(&chain.family),
                word(&chain.table),
                word(&chain.chain)
            ));
        }
        Tool::Iptables | Tool::Ip6tables => {
            let tool = if chain.tool == Tool::Iptables { "iptables" } else { "ip6tables" };
            let (table, name) = (word(&chain.table), word(&chain.chain));
            lines.push(format!(
                "# This empties the chain; see first what else is in it: {tool} -t {table} -S {name}"
            ));
            lines.push(format!("{tool} -w -t {table} -F {name}"));
        }
    }
    Fix { family: "waagent".to_owned(), persistent: true, text: lines.join("\n") }
}
