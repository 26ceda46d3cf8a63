//! Conditions on the address family that nft does not print: it takes them for implied by what follows, also where they
//! are not. nft 1.0.6 prints `meta nfproto ipv6 reject with tcp reset` without its first half.

use super::{
    Ruleset, Statement,
    base::Family,
    elements::{Column, Element, Field, Match},
    nfnetlink::{GET_RULE, HEADER, family, list, text},
};
use crate::host::dump::{attributes, bytes_at};

// linux/netfilter/nf_tables.h
const NFTA_RULE_TABLE: u16 = 1;
const NFTA_RULE_CHAIN: u16 = 2;
const NFTA_RULE_HANDLE: u16 = 3;
const NFTA_RULE_EXPRESSIONS: u16 = 4;
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const NFTA_META_KEY: u16 = 2;
const NFT_META_NFPROTO: u32 = 15;
const NFTA_CMP_OP: u16 = 2;
const NFTA_CMP_DATA: u16 = 3;
const NFTA_DATA_VALUE: u16 = 1;
const NFT_CMP_EQ: u32 = 0;

/// A rule that looks at packets of one address family only (2 or 10).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Limited {
    family: Family,
    table: String,
    chain: String,
    handle: u64,
    to: u8,
}

/// The rules of the calling thread's network namespace that compare the address family.
pub(super) fn limited() -> Result<Vec<Limited>, String> {
    Ok(list(GET_RULE)?.iter().filter_map(|message| rule(&message.payload)).collect())
}

/// Adds the condition to the rules, once more if nft has printed it.
pub(super) fn limit(ruleset: &mut Ruleset, limited: &[Limited]) {
    for chain in &mut ruleset.chains {
        for rule in &mut chain.rules {
            let same = |limited: &&Limited| {
                limited.handle == rule.handle
                    && limited.family == chain.family
                    && limited.table == chain.table
                    && limited.chain == chain.name
            };
            if let Some(limited) = limited.iter().find(same) {
                rule.statements.insert(0, condition(limited.to));
            }
        }
    }
}

fn condition(family: u8) -> Statement {
    Statement::Match(Match {
        columns: vec![Column::whole(Field::Family)],
        rows: vec![vec![Element::number(family.into())]],
        negated: false,
        text: format!("meta nfproto {}", if family == 2 { "ipv4" } else { "ipv6" }),
    })
}

fn rule(payload: &[u8]) -> Option<Limited> {
    let mut limited =
        Limited { family: family(payload)?, table: String::new(), chain: String::new(), handle: 0, to: 0 };
    for (kind, value) in attributes(payload.get(HEADER..)?) {
        match kind {
            NFTA_RULE_TABLE => limited.table = text(value)?,
            NFTA_RULE_CHAIN => limited.chain = text(value)?,
            NFTA_RULE_HANDLE => limited.handle = u64::from_be_bytes(bytes_at(value, 0)?),
            NFTA_RULE_EXPRESSIONS => limited.to = compared(value)?,
            _ => {}
        }
    }
    (limited.to != 0).then_some(limited)
}

/// The family that a list of expressions asks for: `meta load nfproto`, and at once `cmp eq`.
fn compared(expressions: &[u8]) -> Option<u8> {
    let mut loaded = false;
    for (_, expression) in attributes(expressions) {
        let part = |wanted| attributes(expression).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
        let data = part(NFTA_EXPR_DATA).unwrap_or_default();
        let of = |wanted| attributes(data).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
        let number = |wanted| of(wanted).and_then(|value| bytes_at(value, 0)).map(u32::from_be_bytes);
        match part(NFTA_EXPR_NAME).and_then(text).as_deref() {
            Some("meta") => loaded = number(NFTA_META_KEY) == Some(NFT_META_NFPROTO),
            Some("cmp") if loaded && number(NFTA_CMP_OP) == Some(NFT_CMP_EQ) => {
                let (_, value) = attributes(of(NFTA_CMP_DATA)?).find(|(kind, _)| *kind == NFTA_DATA_VALUE)?;
                return value.first().copied();
            }
            _ => loaded = false,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn expression(name: &[u8], data: &[Vec<u8>]) -> Vec<u8> {
        attribute(1, &[attribute(NFTA_EXPR_NAME, name), attribute(NFTA_EXPR_DATA, &data.concat())].concat())
    }

    fn payload(key: u32, operator: u32) -> Vec<u8> {
        let value = attribute(NFTA_DATA_VALUE, &[10]);
        let expressions = [
            expression(
                b"meta\0",
                &[attribute(1, &[0, 0, 0, 1]), attribute(NFTA_META_KEY, &key.to_be_bytes())],
            ),
            expression(
                b"cmp\0",
                &[attribute(NFTA_CMP_OP, &operator.to_be_bytes()), attribute(NFTA_CMP_DATA, &value)],
            ),
        ];
        let parts = [
            vec![1, 0, 0, 0],
            attribute(NFTA_RULE_TABLE, b"t\0"),
            attribute(NFTA_RULE_CHAIN, b"c\0"),
            attribute(NFTA_RULE_HANDLE, &7u64.to_be_bytes()),
            attribute(NFTA_RULE_EXPRESSIONS, &expressions.concat()),
        ];
        parts.concat()
    }

    #[test]
    fn a_comparison_of_the_family_is_found() {
        let found = rule(&payload(NFT_META_NFPROTO, NFT_CMP_EQ)).unwrap();
        let (table, chain) = ("t".to_owned(), "c".to_owned());
        assert_eq!(found, Limited { family: Family::Inet, table, chain, handle: 7, to: 10 });
        assert_eq!(rule(&payload(16, NFT_CMP_EQ)), None);
        assert_eq!(rule(&payload(NFT_META_NFPROTO, 1)), None);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_taken(at in 0usize..120, value: u8, length in 0usize..130) {
            let mut bytes = payload(NFT_META_NFPROTO, NFT_CMP_EQ);
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
            bytes.truncate(length);
            rule(&bytes);
        }
    }
}
