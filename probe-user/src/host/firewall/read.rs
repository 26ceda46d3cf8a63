//! Reads the rules of the calling thread's network namespace.

use std::fs;

use super::{
    Chain, Ruleset, Statement,
    base::Family,
    legacy,
    nfnetlink::{self, Bound, Table},
    nft, nft_hidden,
    tool::{Missing, run},
};

/// Everything that filters; what could not be looked at is in [`Ruleset::unread`].
pub(in crate::host) async fn read() -> Ruleset {
    let (mut ruleset, v4, v6) = tokio::join!(
        nftables(),
        old_iptables(Family::Ip, "ip_tables_names", "iptables-legacy-save"),
        old_iptables(Family::Ip6, "ip6_tables_names", "ip6tables-legacy-save"),
    );
    for legacy in [v4, v6] {
        ruleset.chains.extend(legacy.chains);
        ruleset.unread.extend(legacy.unread);
    }
    ruleset
}

fn unread(why: String) -> Ruleset {
    Ruleset { chains: Vec::new(), unread: vec![why] }
}

async fn nftables() -> Ruleset {
    let tables = match nfnetlink::tables() {
        Ok(tables) if tables.is_empty() => return Ruleset::default(),
        Ok(tables) => tables,
        Err(why) => return unread(why),
    };
    let mut ruleset = match run("nft", &["-j", "list", "ruleset"]).await {
        Ok(json) => match nft::parse(&json) {
            Ok(ruleset) => ruleset,
            Err(why) => return unread(why),
        },
        Err(Missing::Absent) => {
            let names: Vec<_> = tables.iter().map(|table| table.name.as_str()).collect();
            return unread(format!("nft is not installed, and nftables has tables: {}", names.join(", ")));
        }
        Err(Missing::Failed(why)) => return unread(why),
    };
    correct(&mut ruleset, &tables, &nfnetlink::bound().unwrap_or_default());
    nft_hidden::limit(&mut ruleset, &nft_hidden::limited().unwrap_or_default());
    for (family, program) in [(Family::Ip, "iptables-nft-save"), (Family::Ip6, "ip6tables-nft-save")] {
        let of_family = |chain: &&mut Chain| chain.family == family;
        if !ruleset.chains.iter().any(|chain| chain.family == family && has_modules(chain)) {
            continue;
        }
        // Without that tool these rules stay as nft tells them: conditions that are not understood.
        if let Ok(text) = run(program, &["-c"]).await {
            let known = legacy::parse(&text, family);
            ruleset.chains.iter_mut().filter(of_family).for_each(|chain| explain(chain, &known));
        }
    }
    ruleset
}

/// Puts right what some versions of nft print wrong or not at all.
fn correct(ruleset: &mut Ruleset, tables: &[Table], bound: &[Bound]) {
    for chain in &mut ruleset.chains {
        let Some(base) = &mut chain.base else { continue };
        let table = tables.iter().find(|table| table.family == chain.family && table.name == chain.table);
        if let Some(table) = table {
            base.active = Some(!table.dormant);
        }
        let same = |bound: &&Bound| {
            bound.family == chain.family && bound.table == chain.table && bound.chain == chain.name
        };
        if let Some(bound) = bound.iter().find(same) {
            base.devices = Some(bound.devices.clone());
        }
    }
}

/// Whether rules of the chain use modules of iptables, which nft shows by name only.
fn has_modules(chain: &Chain) -> bool {
    let module =
        |statement: &Statement| matches!(statement, Statement::Uncertain(words) if words.starts_with("xt "));
    chain.rules.iter().any(|rule| rule.statements.iter().any(module))
}

/// Replaces what nft tells about the rules by what iptables tells about them; both list them in the same order.
fn explain(chain: &mut Chain, known: &Ruleset) {
    let same = known.chains.iter().find(|other| other.table == chain.table && other.name == chain.name);
    let Some(same) = same.filter(|same| same.rules.len() == chain.rules.len()) else { return };
    for (rule, other) in chain.rules.iter_mut().zip(&same.rules) {
        rule.text.clone_from(&other.text);
        rule.statements.clone_from(&other.statements);
        rule.counter = rule.counter.or(other.counter);
    }
}

/// The legacy tables of one IP version. The kernel names those that it has in this namespace: without any there is
/// nothing to ask, and nothing to miss.
async fn old_iptables(family: Family, names: &str, program: &str) -> Ruleset {
    let path = format!("/proc/thread-self/net/{names}");
    let tables = match fs::read_to_string(&path) {
        Ok(tables) => tables.split_whitespace().collect::<Vec<_>>().join(", "),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ruleset::default(),
        Err(error) => return unread(format!("cannot read {path}: {error}")),
    };
    if tables.is_empty() {
        return Ruleset::default();
    }
    // Where iptables is not split in two, its one tool is the legacy one.
    let mut output = run(program, &["-c"]).await;
    if output == Err(Missing::Absent) {
        output = run(&program.replace("-legacy", ""), &["-c"]).await;
    }
    match output {
        Ok(text) => {
            let found = legacy::parse(&text, family);
            let missing: Vec<&str> = tables
                .split(", ")
                .filter(|table| !found.chains.iter().any(|chain| chain.table == **table))
                .collect();
            if missing.is_empty() {
                found
            } else {
                let why =
                    format!("{program} does not list the kernel's legacy tables {}", missing.join(", "));
                Ruleset { unread: [found.unread, vec![why]].concat(), ..found }
            }
        }
        Err(Missing::Absent) => {
            unread(format!("{program} is not installed, and the kernel has legacy tables: {tables}"))
        }
        Err(Missing::Failed(why)) => unread(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::firewall::packet::{CtState, Device, Packet};
    use crate::host::firewall::{Hook, Outcome, blocking};

    /// `iptables-nft -t security -A OUTPUT -d 168.63.129.16 -p tcp -m conntrack --ctstate INVALID,NEW -j DROP`.
    const NFT: &str = include_str!("fixtures/iptables_nft.json");
    const SAVE: &str = include_str!("fixtures/iptables_nft.save");

    #[test]
    fn what_nft_hides_iptables_tells() {
        let mut ruleset = nft::parse(NFT).unwrap();
        let oif = Device { index: 3, name: "eth1".to_owned() };
        let (from, to) = ("10.4.3.101:8008".parse().unwrap(), "168.63.129.16:50000".parse().unwrap());
        let reply = Packet::syn_ack(Hook::Output, oif, from, to);
        let outcome = |ruleset: &Ruleset, packet: &Packet| blocking(ruleset, packet)[0].outcome.clone();
        let Outcome::CannotTell { why, may } = outcome(&ruleset, &reply) else { panic!("{ruleset:#?}") };
        assert!(why.contains("xt match conntrack"), "{why}");
        assert_eq!(may.len(), 1);

        let known = legacy::parse(SAVE, Family::Ip);
        ruleset.chains.iter_mut().for_each(|chain| explain(chain, &known));
        assert_eq!(outcome(&ruleset, &reply), Outcome::Accepts);
        let stray = Packet { ct_state: Some(CtState::New), ..reply.clone() };
        let Outcome::Drops(place) = outcome(&ruleset, &stray) else { panic!("{ruleset:#?}") };
        assert_eq!(
            place.text(),
            "nft table ip security, chain OUTPUT, handle 2: -d 168.63.129.16/32 -p tcp -m conntrack --ctstate \
             INVALID,NEW -j DROP"
        );

        // A list of another length is of another moment.
        let mut torn = nft::parse(NFT).unwrap();
        let known = legacy::parse(&SAVE.replace("[0:0] -A", "[0:0] -A OUTPUT -j DROP\n[0:0] -A"), Family::Ip);
        torn.chains.iter_mut().for_each(|chain| explain(chain, &known));
        assert!(matches!(outcome(&torn, &reply), Outcome::CannotTell { .. }));
    }
}
