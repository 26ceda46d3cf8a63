//! Addresses with ports.

use std::{fmt::Display, net::IpAddr};

use super::style::clean;

/// `address:port`, IPv6 in brackets (RFC 5952 section 6); `port` may stand for several.
pub(super) fn endpoint(address: &str, port: impl Display) -> String {
    match address.parse::<IpAddr>() {
        Ok(IpAddr::V6(v6)) => format!("[{v6}]:{port}"),
        // With a zone (`fe80::1%eth0`) it is no IpAddr, but needs the brackets all the same.
        _ if address.contains(':') => format!("[{}]:{port}", clean(address)),
        _ => format!("{}:{port}", clean(address)),
    }
}

#[cfg(test)]
mod tests {
    use super::endpoint;

    #[test]
    fn ipv6_stands_in_brackets() {
        assert_eq!(endpoint("10.4.3.101", 8008), "10.4.3.101:8008");
        assert_eq!(endpoint("fe80:0:0::1", 80), "[fe80::1]:80");
        assert_eq!(endpoint("fe80::1%eth0", 80), "[fe80::1%eth0]:80");
        assert_eq!(endpoint("a\x1bb", 1), "a\\u{1b}b:1");
    }
}
