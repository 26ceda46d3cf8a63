//! `iptables-save -c` and `ip6tables-save -c`, of the legacy tables and of those that iptables keeps in nftables.

use super::{
    Chain, Counter, Rule, Ruleset,
    base::{Backend, Base, Family, Hook},
    iptables,
};

/// The tables that a save file lists.
pub(super) fn parse(text: &str, family: Family) -> Ruleset {
    let mut ruleset = Ruleset::default();
    let mut table = String::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('*') {
            name.clone_into(&mut table);
        } else if let Some(chain) = line.strip_prefix(':') {
            match chain_line(chain, &table, family) {
                Some(chain) => ruleset.chains.push(chain),
                None => {
                    ruleset.unread.push(format!("iptables prints a chain that is not understood: {line}"));
                }
            }
        } else if line.starts_with('[') || line.starts_with("-A ") {
            if rule_line(&mut ruleset, line, &table, family).is_none() {
                ruleset.unread.push(format!("iptables prints a rule that is not understood: {line}"));
            }
        } else if line.starts_with("# Table") {
            // "# Table `x' is incompatible, use 'nft' tool."
            ruleset.unread.push(line.trim_start_matches("# ").to_owned());
        }
    }
    ruleset
}

/// `INPUT ACCEPT [0:0]`, `own-chain - [0:0]`.
fn chain_line(line: &str, table: &str, family: Family) -> Option<Chain> {
    let mut words = line.split_whitespace();
    let (name, policy) = (words.next()?, words.next()?);
    let counter = words.next().and_then(counter);
    let base = if policy == "-" {
        None
    } else {
        let hook = Hook::from_word(name)?;
        Some(Base {
            kind: if table == "nat" { "nat" } else { "filter" }.to_owned(),
            hook,
            priority: priority(table, hook)?,
            drops: policy == "DROP",
            counter,
            devices: Some(Vec::new()),
            active: Some(true),
        })
    };
    let (table, name) = (table.to_owned(), name.to_owned());
    Some(Chain { backend: Backend::Legacy, family, table, name, base, rules: Vec::new() })
}

/// linux/netfilter_ipv4.h, `enum nf_ip_hook_priorities`.
fn priority(table: &str, hook: Hook) -> Option<i32> {
    Some(match (table, hook) {
        ("raw", _) => -300,
        ("mangle", _) => -150,
        ("nat", Hook::Prerouting | Hook::Output) => -100,
        ("nat", _) => 100,
        ("filter", _) => 0,
        ("security", _) => 50,
        _ => return None,
    })
}

/// `[packets:bytes]`
fn counter(text: &str) -> Option<Counter> {
    let (packets, bytes) = text.strip_prefix('[')?.strip_suffix(']')?.split_once(':')?;
    Some(Counter { packets: packets.parse().ok()?, bytes: bytes.parse().ok()? })
}

/// `[0:0] -A INPUT -i eth0 -j DROP`
fn rule_line(ruleset: &mut Ruleset, line: &str, table: &str, family: Family) -> Option<()> {
    let (counted, rest) = match line.split_once(' ') {
        Some((first, rest)) if first.starts_with('[') => (counter(first), rest),
        _ => (None, line),
    };
    let words = iptables::split(rest);
    let ["-A", name, words @ ..] = &*words.iter().map(String::as_str).collect::<Vec<_>>() else {
        return None;
    };
    let own: Vec<String> =
        ruleset.chains.iter().filter(|chain| chain.table == table).map(|chain| chain.name.clone()).collect();
    let statements = iptables::statements(words, family == Family::Ip, &own);
    let text = rest.strip_prefix("-A ")?.strip_prefix(name).unwrap_or(rest).trim().to_owned();
    let chain = ruleset.chains.iter_mut().find(|chain| chain.table == table && chain.name == *name)?;
    let handle = chain.rules.len() as u64 + 1;
    chain.rules.push(Rule { handle, text, counter: counted, statements });
    Some(())
}
