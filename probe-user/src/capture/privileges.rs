//! What observing needs from the kernel, checked one by one before anything is touched.

use caps::{CapSet, Capability};
use thiserror::Error;

/// A capability with the reason it is needed (`capabilities(7)`).
const NEEDED: [(Capability, &str); 3] = [
    (Capability::CAP_BPF, "to load the BPF programs and maps"),
    (Capability::CAP_NET_ADMIN, "to attach them to network devices"),
    (Capability::CAP_PERFMON, "for direct packet access in them (the verifier's pointer checks)"),
];

#[derive(Debug, Error)]
#[error(
    "missing privileges: {}; run as root, or grant them: setcap cap_bpf,cap_net_admin,cap_perfmon+ep nvaprobe",
    .0.join("; ")
)]
pub struct MissingPrivileges(pub Vec<String>);

/// Names every capability that is missing. `CAP_SYS_ADMIN` stands in for `CAP_BPF` and `CAP_PERFMON`, as it
/// does in the kernel (since 5.8, include/linux/capability.h `bpf_capable`, `perfmon_capable`).
pub fn check() -> Result<(), MissingPrivileges> {
    let has = |capability| caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false);
    let missing = missing(has);
    if missing.is_empty() { Ok(()) } else { Err(MissingPrivileges(missing)) }
}

fn missing(has: impl Fn(Capability) -> bool) -> Vec<String> {
    NEEDED
        .iter()
        .filter(|(capability, _)| {
            let stands_in = *capability != Capability::CAP_NET_ADMIN && has(Capability::CAP_SYS_ADMIN);
            !has(*capability) && !stands_in
        })
        .map(|(capability, reason)| format!("{capability} ({reason})"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_missing_capability_is_named() {
        assert_eq!(missing(|_| true), Vec::<String>::new());
        for (absent, _) in NEEDED {
            let named = missing(|capability| capability != absent && capability != Capability::CAP_SYS_ADMIN);
            assert_eq!(named.len(), 1);
            assert!(named[0].starts_with(&absent.to_string()), "{named:?}");
        }
    }

    #[test]
    fn sys_admin_stands_in_for_all_but_net_admin() {
        assert_eq!(missing(|c| c == Capability::CAP_SYS_ADMIN || c == Capability::CAP_NET_ADMIN).len(), 0);
        assert_eq!(missing(|c| c == Capability::CAP_SYS_ADMIN).len(), 1);
    }
}
