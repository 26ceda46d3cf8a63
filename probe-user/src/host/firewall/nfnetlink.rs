//! Asks the kernel whether nftables has any table at all: without one there is no tool to miss.

use std::ffi::CStr;

use rtnetlink::sys::protocols::NETLINK_NETFILTER;

use crate::host::{
    dump::{attributes, dump},
    netlink::Failure,
};

/// `NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETTABLE` (linux/netfilter/nfnetlink.h, nf_tables.h).
const GET_TABLE: u16 = 10 << 8 | 1;
const NFTA_TABLE_NAME: u16 = 1;
/// `nfgenmsg`: family, version, resource id.
const HEADER: usize = 4;

/// Names of the tables in the calling thread's network namespace.
pub(super) fn tables() -> Result<Vec<String>, String> {
    match dump(NETLINK_NETFILTER, GET_TABLE, &[0; HEADER]) {
        Ok(messages) => Ok(messages.iter().filter_map(|message| name(&message.payload)).collect()),
        // A kernel without nftables: no netfilter socket, or nobody there who answers for that subsystem.
        Err(Failure::Errno(libc::EPROTONOSUPPORT | libc::EINVAL | libc::EOPNOTSUPP)) => Ok(Vec::new()),
        Err(failure) => Err(format!("cannot list the tables of nftables: {failure}")),
    }
}

fn name(payload: &[u8]) -> Option<String> {
    let (_, value) = attributes(payload.get(HEADER..)?).find(|(kind, _)| *kind == NFTA_TABLE_NAME)?;
    CStr::from_bytes_until_nul(value).ok()?.to_str().ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_name() {
        let payload = [2, 0, 0, 0, 8, 0, 1, 0, b'f', b'w', 0, 0, 8, 0, 2, 0, 0, 0, 0, 0];
        assert_eq!(name(&payload).as_deref(), Some("fw"));
        assert_eq!(name(&payload[..8]), None);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(0u8.., 0..60)) {
            name(&bytes);
        }
    }
}
