//! Whether the host forwards packets at all.

use std::fs;

/// `net.ipv4.ip_forward` and `net.ipv6.conf.all.forwarding` of this thread's network namespace; `None` where it could not
/// be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forwarding {
    pub v4: Option<bool>,
    pub v6: Option<bool>,
}

/// Sysctls under net/ are those of the reading thread's namespace (net/sysctl_net.c).
pub(super) fn read() -> Forwarding {
    let on = |path: &str| Some(fs::read_to_string(path).ok()?.trim() != "0");
    Forwarding { v4: on("/proc/sys/net/ipv4/ip_forward"), v6: on("/proc/sys/net/ipv6/conf/all/forwarding") }
}
