//! Policy rules, and which of them picks the table for a reply.

use std::{fmt::Write, net::IpAddr};

use futures_util::TryStreamExt;
use ipnet::IpNet;
use rtnetlink::{
    IpVersion,
    packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleMessage},
};

use super::{
    netlink::{Netlink, NetlinkError, within},
    routes::table_name,
};

/// One policy rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub v6: bool,
    /// Lower is asked first.
    pub priority: u32,
    pub from: Option<IpNet>,
    pub to: Option<IpNet>,
    pub iif: Option<String>,
    pub oif: Option<String>,
    pub mark: Option<(u32, u32)>,
    pub table: u32,
    /// `lookup`, or another action by its name.
    pub action: String,
    pub invert: bool,
    /// A selector that depends on more than addresses: tos, ports, uid, l3mdev, suppressors, ….
    pub special: Option<String>,
}

impl Rule {
    /// As `ip rule` prints it.
    pub fn text(&self) -> String {
        let mut text = format!("{}:", self.priority);
        if self.invert {
            text.push_str(" not");
        }
        let prefix = |net: Option<IpNet>| match net {
            None => "all".to_owned(),
            Some(net) if net.prefix_len() == net.max_prefix_len() => net.addr().to_string(),
            Some(net) => net.to_string(),
        };
        // Writing to a String cannot fail.
        let _ = write!(text, " from {}", prefix(self.from));
        if self.to.is_some() {
            let _ = write!(text, " to {}", prefix(self.to));
        }
        if let Some((mark, mask)) = self.mark {
            let _ = write!(text, " fwmark {mark:#x}");
            if mask != u32::MAX {
                let _ = write!(text, "/{mask:#x}");
            }
        }
        for (word, device) in [("iif", &self.iif), ("oif", &self.oif)] {
            if let Some(device) = device {
                let _ = write!(text, " {word} {device}");
            }
        }
        if let Some(special) = &self.special {
            let _ = write!(text, " {special}");
        }
        let _ = match self.action.as_str() {
            "lookup" => write!(text, " lookup {}", table_name(self.table)),
            action => write!(text, " {action}"),
        };
        text
    }

    /// Whether the rule's addresses, devices and mark fit a packet that this host itself sends, unmarked. A special
    /// selector is not evaluated: the answer is then `None`, unknown.
    fn fits(&self, from: IpAddr, to: IpAddr) -> Option<bool> {
        let contains = |net: Option<IpNet>, address: IpAddr| net.is_none_or(|net| net.contains(&address));
        let fits = self.v6 == to.is_ipv6()
            && contains(self.from, from)
            && contains(self.to, to)
            // Locally generated packets have the loopback device as iif (net/ipv4/route.c), and no oif yet.
            && self.iif.as_deref().is_none_or(|iif| iif == "lo")
            && self.oif.is_none()
            && self.mark.is_none_or(|(mark, mask)| mark & mask == 0);
        match (&self.special, fits != self.invert) {
            (Some(_), true) => None,
            (_, fits) => Some(fits),
        }
    }
}

/// The rule that sends a packet of this host into `table`: the first that fits and names it. `None` when none does, or
/// when a rule with a special selector stands in front of it.
pub fn selecting(rules: &[Rule], from: IpAddr, to: IpAddr, table: u32) -> Option<&Rule> {
    let mut ordered: Vec<&Rule> = rules.iter().filter(|rule| rule.v6 == to.is_ipv6()).collect();
    ordered.sort_by_key(|rule| rule.priority);
    for rule in ordered {
        match rule.fits(from, to) {
            None if rule.table == table => return None,
            Some(true) if rule.action == "lookup" && rule.table == table => return Some(rule),
            _ => {}
        }
    }
    None
}

/// The lowest priority of a rule that could catch what goes from `from` to `to`, the local table's rule 0 apart.
pub fn lowest_catching(rules: &[Rule], from: IpAddr, to: IpAddr) -> Option<u32> {
    rules
        .iter()
        .filter(|rule| rule.priority > 0 && rule.fits(from, to) != Some(false))
        .map(|rule| rule.priority)
        .min()
}

/// Lists the rules, IPv4 and IPv6.
pub async fn read(netlink: &Netlink) -> Result<Vec<Rule>, NetlinkError> {
    let mut rules = Vec::new();
    for version in [IpVersion::V4, IpVersion::V6] {
        let v6 = version == IpVersion::V6;
        let request = netlink.handle.rule().get(version).execute().try_collect::<Vec<_>>();
        rules.extend(within("rules", request).await?.iter().map(|message| rule(message, v6)));
    }
    Ok(rules)
}

fn rule(message: &RuleMessage, v6: bool) -> Rule {
    let mut rule = Rule {
        v6,
        priority: 0,
        from: None,
        to: None,
        iif: None,
        oif: None,
        mark: None,
        table: u32::from(message.header.table),
        action: action(message.header.action),
        invert: message.header.flags.contains(RuleFlags::Invert),
        special: (message.header.tos != 0).then(|| format!("tos {:#x}", message.header.tos)),
    };
    let mut mask = None;
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Priority(priority) => rule.priority = *priority,
            RuleAttribute::Source(address) => rule.from = IpNet::new(*address, message.header.src_len).ok(),
            RuleAttribute::Destination(address) => {
                rule.to = IpNet::new(*address, message.header.dst_len).ok();
            }
            RuleAttribute::Iifname(name) => rule.iif = Some(name.clone()),
            RuleAttribute::Oifname(name) => rule.oif = Some(name.clone()),
            RuleAttribute::FwMark(mark) => rule.mark = Some((*mark, u32::MAX)),
            RuleAttribute::FwMask(value) => mask = Some(*value),
            RuleAttribute::Table(table) => rule.table = *table,
            RuleAttribute::L3MDev(true) => rule.special = Some("l3mdev".to_owned()),
            RuleAttribute::UidRange(range) => {
                rule.special = Some(format!("uidrange {}-{}", range.start, range.end));
            }
            // (u32)-1 is "no suppressor" (net/core/fib_rules.c).
            RuleAttribute::SuppressPrefixLen(length) if *length != u32::MAX => {
                rule.special = Some(format!("suppress_prefixlength {length}"));
            }
            RuleAttribute::SuppressIfGroup(group) if *group != u32::MAX => {
                rule.special = Some(format!("suppress_ifgroup {group}"));
            }
            RuleAttribute::IpProtocol(protocol) => {
                rule.special = Some(format!("ipproto {protocol:?}").to_lowercase());
            }
            RuleAttribute::SourcePortRange(range) => {
                rule.special = Some(format!("sport {}-{}", range.start, range.end));
            }
            RuleAttribute::DestinationPortRange(range) => {
                rule.special = Some(format!("dport {}-{}", range.start, range.end));
            }
            RuleAttribute::TunId(id) => rule.special = Some(format!("tun_id {id}")),
            _ => {}
        }
    }
    if let (Some((mark, _)), Some(mask)) = (rule.mark, mask) {
        rule.mark = Some((mark, mask));
    }
    rule
}

fn action(action: RuleAction) -> String {
    match action {
        RuleAction::ToTable => "lookup",
        RuleAction::Goto => "goto",
        RuleAction::Nop => "nop",
        RuleAction::Blackhole => "blackhole",
        RuleAction::Unreachable => "unreachable",
        RuleAction::Prohibit => "prohibit",
        _ => "other",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(priority: u32, from: Option<&str>, to: Option<&str>, table: u32) -> Rule {
        let net = |text: &str| crate::source::parse(text).expect("valid");
        Rule {
            v6: false,
            priority,
            from: from.map(net),
            to: to.map(net),
            iif: None,
            oif: None,
            mark: None,
            table,
            action: "lookup".to_owned(),
            invert: false,
            special: None,
        }
    }

    fn defaults() -> Vec<Rule> {
        vec![rule(0, None, None, 255), rule(32766, None, None, 254), rule(32767, None, None, 253)]
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("valid")
    }

    #[test]
    fn rules_print_as_iproute2_does() {
        assert_eq!(rule(32766, None, None, 254).text(), "32766: from all lookup main");
        assert_eq!(
            rule(100, Some("10.4.3.101"), Some("168.63.129.16"), 201).text(),
            "100: from 10.4.3.101 to 168.63.129.16 lookup 201"
        );
        let marked = Rule { mark: Some((2, 0xff)), ..rule(5, Some("10.0.0.0/8"), None, 7) };
        assert_eq!(marked.text(), "5: from 10.0.0.0/8 fwmark 0x2/0xff lookup 7");
    }

    #[test]
    fn the_rule_behind_an_answer_is_the_first_that_fits() {
        let mut rules = defaults();
        rules.push(rule(100, Some("10.4.3.101"), None, 201));
        let (from, to) = (ip("10.4.3.101"), ip("168.63.129.16"));
        assert_eq!(selecting(&rules, from, to, 201).map(|r| r.priority), Some(100));
        assert_eq!(selecting(&rules, ip("10.4.2.101"), to, 254).map(|r| r.priority), Some(32766));
        assert_eq!(selecting(&rules, ip("10.4.2.101"), to, 201), None);
        assert_eq!(lowest_catching(&rules, from, to), Some(100));
        assert_eq!(lowest_catching(&rules, ip("10.4.2.101"), to), Some(32766));
    }

    #[test]
    fn marks_and_devices_do_not_fit_an_unmarked_local_packet() {
        let mut rules = defaults();
        rules.push(Rule { mark: Some((1, u32::MAX)), ..rule(10, None, None, 201) });
        rules.push(Rule { iif: Some("eth1".to_owned()), ..rule(11, None, None, 202) });
        let (from, to) = (ip("10.4.3.101"), ip("168.63.129.16"));
        assert_eq!(selecting(&rules, from, to, 201), None);
        assert_eq!(selecting(&rules, from, to, 202), None);
        assert_eq!(lowest_catching(&rules, from, to), Some(32766));
    }

    #[test]
    fn a_special_selector_is_unknown_not_guessed() {
        let mut rules = defaults();
        rules.push(Rule { special: Some("l3mdev".to_owned()), ..rule(1000, None, None, 254) });
        assert_eq!(selecting(&rules, ip("10.0.0.1"), ip("10.0.0.2"), 254), None);
    }
}
