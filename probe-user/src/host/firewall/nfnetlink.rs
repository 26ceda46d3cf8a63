//! What the kernel tells about nftables better than the tool: whether there is any table at all (without one there is
//! no tool to miss), whether it is switched off, and which devices a chain is bound to.

use std::ffi::CStr;

use rtnetlink::sys::protocols::NETLINK_NETFILTER;

use super::base::Family;
use crate::host::{
    dump::{Message, attributes, bytes_at, dump},
    netlink::Failure,
};

/// `NFNL_SUBSYS_NFTABLES << 8`, and `NFT_MSG_GETTABLE`, `…CHAIN`, `…RULE` (linux/netfilter/nf_tables.h).
const NFTABLES: u16 = 10 << 8;
const GET_TABLE: u16 = NFTABLES | 1;
const GET_CHAIN: u16 = NFTABLES | 4;
pub(super) const GET_RULE: u16 = NFTABLES | 7;
const NFTA_TABLE_NAME: u16 = 1;
const NFTA_TABLE_FLAGS: u16 = 2;
const NFT_TABLE_F_DORMANT: u32 = 1;
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_HOOK_DEV: u16 = 3;
const NFTA_HOOK_DEVS: u16 = 4;
const NFTA_DEVICE_NAME: u16 = 1;
/// `nfgenmsg`: family, version, resource id.
pub(super) const HEADER: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) family: Family,
    pub(super) name: String,
    pub(super) dormant: bool,
}

/// A chain that is bound to devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) family: Family,
    pub(super) table: String,
    pub(super) chain: String,
    pub(super) devices: Vec<String>,
}

/// The tables in the calling thread's network namespace.
pub(super) fn tables() -> Result<Vec<Table>, String> {
    Ok(list(GET_TABLE)?.iter().filter_map(|message| table(&message.payload)).collect())
}

/// The chains that are bound to devices.
pub(super) fn bound() -> Result<Vec<Bound>, String> {
    Ok(list(GET_CHAIN)?.iter().filter_map(|message| chain(&message.payload)).collect())
}

pub(super) fn list(kind: u16) -> Result<Vec<Message>, String> {
    match dump(NETLINK_NETFILTER, kind, &[0; HEADER]) {
        Ok(messages) => Ok(messages),
        // A kernel without nftables: no netfilter socket, or nobody there who answers for that subsystem.
        Err(Failure::Errno(libc::EPROTONOSUPPORT | libc::EINVAL | libc::EOPNOTSUPP)) => Ok(Vec::new()),
        Err(failure) => Err(format!("cannot ask the kernel for its nftables: {failure}")),
    }
}

fn table(payload: &[u8]) -> Option<Table> {
    let family = family(payload)?;
    let (mut name, mut flags) = (None, 0);
    for (kind, value) in attributes(payload.get(HEADER..)?) {
        match kind {
            NFTA_TABLE_NAME => name = text(value),
            NFTA_TABLE_FLAGS => flags = u32::from_be_bytes(bytes_at(value, 0)?),
            _ => {}
        }
    }
    Some(Table { family, name: name?, dormant: flags & NFT_TABLE_F_DORMANT != 0 })
}

fn chain(payload: &[u8]) -> Option<Bound> {
    let mut bound =
        Bound { family: family(payload)?, table: String::new(), chain: String::new(), devices: Vec::new() };
    for (kind, value) in attributes(payload.get(HEADER..)?) {
        match kind {
            NFTA_CHAIN_TABLE => bound.table = text(value)?,
            NFTA_CHAIN_NAME => bound.chain = text(value)?,
            NFTA_CHAIN_HOOK => bound.devices = devices(value),
            _ => {}
        }
    }
    (!bound.devices.is_empty()).then_some(bound)
}

fn devices(hook: &[u8]) -> Vec<String> {
    let mut devices = Vec::new();
    for (kind, value) in attributes(hook) {
        match kind {
            NFTA_HOOK_DEV => devices.extend(text(value)),
            NFTA_HOOK_DEVS => {
                let names = attributes(value).filter(|(kind, _)| *kind == NFTA_DEVICE_NAME);
                devices.extend(names.filter_map(|(_, name)| text(name)));
            }
            _ => {}
        }
    }
    devices
}

/// `NFPROTO_*` (linux/netfilter.h).
pub(super) fn family(payload: &[u8]) -> Option<Family> {
    Some(match payload.first()? {
        1 => Family::Inet,
        2 => Family::Ip,
        3 => Family::Arp,
        5 => Family::Netdev,
        7 => Family::Bridge,
        10 => Family::Ip6,
        _ => return None,
    })
}

pub(super) fn text(value: &[u8]) -> Option<String> {
    CStr::from_bytes_until_nul(value).ok()?.to_str().ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_name_and_may_be_dormant() {
        let payload = [2, 0, 0, 0, 8, 0, 1, 0, b'f', b'w', 0, 0, 8, 0, 2, 0, 0, 0, 0, 1];
        let name = "fw".to_owned();
        assert_eq!(table(&payload), Some(Table { family: Family::Ip, name: name.clone(), dormant: true }));
        assert_eq!(table(&payload[..12]), Some(Table { family: Family::Ip, name, dormant: false }));
        assert_eq!(table(&payload[..8]), None);
    }

    #[test]
    fn a_chain_is_bound_to_one_device_or_to_several() {
        let head = [5, 0, 0, 0, 6, 0, 1, 0, b't', 0, 0, 0, 6, 0, 3, 0, b'c', 0, 0, 0];
        let one = [12, 0, 4, 0x80, 6, 0, 3, 0, b'a', 0, 0, 0];
        let two = [24, 0, 4, 0x80, 20, 0, 4, 0x80, 6, 0, 1, 0, b'a', 0, 0, 0, 6, 0, 1, 0, b'b', 0, 0, 0];
        let devices = |hook: &[u8]| chain(&[&head[..], hook].concat()).map(|bound| bound.devices);
        assert_eq!(devices(&one), Some(vec!["a".to_owned()]));
        assert_eq!(devices(&two), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(devices(&[]), None);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(0u8..12, 0..60)) {
            table(&bytes);
            chain(&bytes);
        }
    }
}
