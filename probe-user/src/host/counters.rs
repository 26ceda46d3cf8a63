//! The network stack's own counters, and how much they rose.

use std::{collections::BTreeMap, fs};

pub const REVERSE_PATH_FILTER: &str = "TcpExtIPReversePathFilter";
pub const LISTEN_OVERFLOWS: &str = "TcpExtListenOverflows";
pub const LISTEN_DROPS: &str = "TcpExtListenDrops";
/// SYNs that found the queue of requests full and no cookie allowed.
pub const REQUEST_QUEUE_FULL_DROP: &str = "TcpExtTCPReqQFullDrop";
pub const OUT_NO_ROUTES: &str = "IpOutNoRoutes";
pub const IN_DISCARDS: &str = "IpInDiscards";
pub const IN_ADDR_ERRORS: &str = "IpInAddrErrors";
pub const IN_NO_ROUTES: &str = "IpExtInNoRoutes";
pub const IN6_ADDR_ERRORS: &str = "Ip6InAddrErrors";
pub const OUT6_NO_ROUTES: &str = "Ip6OutNoRoutes";
pub const IN6_DISCARDS: &str = "Ip6InDiscards";
pub const XFRM_OUT_POLICY_BLOCK: &str = "XfrmOutPolBlock";
pub const XFRM_OUT_NO_STATES: &str = "XfrmOutNoStates";
pub const XFRM_IN_NO_POLICIES: &str = "XfrmInNoPols";

/// Counters by the names that `nstat` gives them: `IpOutNoRoutes`, `TcpExtListenDrops`, `Ip6InAddrErrors`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<String, u64>);

impl Counters {
    /// Reads them from the calling thread's network namespace.
    pub fn read() -> Result<Self, String> {
        let file = |name: &str| {
            let path = format!("/proc/thread-self/net/{name}");
            fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"))
        };
        let mut counters = Self::default();
        counters.add_table(&file("snmp")?);
        counters.add_table(&file("netstat")?);
        // Kernels without IPv6 or IPsec have neither; then these counters are unknown.
        for name in ["snmp6", "xfrm_stat"] {
            if let Ok(text) = file(name) {
                counters.add_lines(&text);
            }
        }
        Ok(counters)
    }

    /// Makes them by hand.
    pub fn of<'a>(values: impl IntoIterator<Item = (&'a str, u64)>) -> Self {
        Self(values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// The value of one; `None` when this kernel does not count it, or it was not read.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// Whether it is known and above zero: of a difference, that it rose.
    pub fn rose(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value > 0)
    }

    /// How much each rose since. One that is missing on either side, or fell, is unknown.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let difference =
            |(name, value): (&String, &u64)| Some((name.clone(), value.checked_sub(earlier.get(name)?)?));
        Self(self.0.iter().filter_map(difference).collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// `snmp` and `netstat`: a line of names, a line of values, both with the group in front.
    fn add_table(&mut self, text: &str) {
        let mut lines = text.lines();
        while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
            let (Some((group, names)), Some((same, values))) =
                (names.split_once(':'), values.split_once(':'))
            else {
                continue;
            };
            if group != same {
                continue;
            }
            for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
                // MaxConn is -1: no counter.
                if let Ok(value) = value.parse() {
                    self.0.insert(format!("{group}{name}"), value);
                }
            }
        }
    }

    /// `snmp6` and `xfrm_stat`: a name and a value on each line.
    fn add_lines(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.split_whitespace();
            if let (Some(name), Some(Ok(value))) = (words.next(), words.next().map(str::parse)) {
                self.0.insert(name.to_owned(), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNMP: &str = "Ip: Forwarding OutNoRoutes\nIp: 1 7\nTcp: MaxConn ActiveOpens\nTcp: -1 3\n";

    #[test]
    fn names_are_those_of_nstat() {
        let mut counters = Counters::default();
        counters.add_table(SNMP);
        counters.add_lines("Ip6InAddrErrors                 \t5\nrubbish\nIp6OutNoRoutes x\n");
        assert_eq!(counters.get(OUT_NO_ROUTES), Some(7));
        assert_eq!(counters.get("TcpMaxConn"), None);
        assert_eq!((counters.get(IN6_ADDR_ERRORS), counters.get(OUT6_NO_ROUTES)), (Some(5), None));
    }

    #[test]
    fn differences_know_only_what_both_sides_know() {
        let before = Counters::of([(LISTEN_DROPS, 3), (OUT_NO_ROUTES, 9), (IN_DISCARDS, 4)]);
        let after =
            Counters::of([(LISTEN_DROPS, 5), (OUT_NO_ROUTES, 2), (IN_DISCARDS, 4), (IN_NO_ROUTES, 1)]);
        assert_eq!(after.since(&before), Counters::of([(LISTEN_DROPS, 2), (IN_DISCARDS, 0)]));
        assert!(after.since(&before).rose(LISTEN_DROPS) && !after.since(&before).rose(OUT_NO_ROUTES));
    }

    #[test]
    fn the_running_kernel_counts() {
        let counters = Counters::read().expect("procfs is there");
        for name in [REVERSE_PATH_FILTER, LISTEN_OVERFLOWS, LISTEN_DROPS, OUT_NO_ROUTES, IN_ADDR_ERRORS] {
            assert!(counters.get(name).is_some(), "{name}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken(text in "\\PC*", lines in "([A-Za-z]*: ?[a-z0-9 -]*\n){0,6}") {
            let mut counters = Counters::default();
            counters.add_table(&text);
            counters.add_table(&lines);
            counters.add_lines(&text);
        }
    }
}
