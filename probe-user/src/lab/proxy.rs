//! Headers of the PROXY protocol (haproxy's proxy-protocol.txt), which Azure's private link service puts in front of
//! probes too.

use std::net::{IpAddr, SocketAddr};

const V2_SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, command PROXY.
const V2_PROXY: u8 = 0x21;
/// Azure's own TLV: a link identifier
/// (<https://learn.microsoft.com/azure/private-link/private-link-service-overview>).
const AZURE_TLV: [u8; 8] = [0xee, 0, 5, 1, 0x01, 0x00, 0x00, 0x30];

/// Version of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V1,
    V2,
}

/// The header for a connection.
pub fn header(version: Version, from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    if version == Version::V1 {
        let family = if from.is_ipv4() { "TCP4" } else { "TCP6" };
        let (source, target) = (from.ip(), to.ip());
        return format!("PROXY {family} {source} {target} {} {}\r\n", from.port(), to.port()).into_bytes();
    }
    let mut addresses = Vec::new();
    for ip in [from.ip(), to.ip()] {
        match ip {
            IpAddr::V4(ip) => addresses.extend(ip.octets()),
            IpAddr::V6(ip) => addresses.extend(ip.octets()),
        }
    }
    for port in [from.port(), to.port()] {
        addresses.extend(port.to_be_bytes());
    }
    addresses.extend(AZURE_TLV);
    let family = if from.is_ipv4() { 0x11 } else { 0x21 };
    let mut bytes = V2_SIGNATURE.to_vec();
    bytes.extend([V2_PROXY, family]);
    bytes.extend((addresses.len() as u16).to_be_bytes());
    bytes.extend(addresses);
    bytes
}

/// The length of the header at the beginning: 0 if there is none, `None` while more must come to tell.
pub fn length(stream: &[u8]) -> Option<usize> {
    if stream.starts_with(V2_SIGNATURE) {
        let body = stream.get(14..16)?;
        let whole = 16 + usize::from(u16::from_be_bytes([body[0], body[1]]));
        return (stream.len() >= whole).then_some(whole);
    }
    if stream.starts_with(b"PROXY ") {
        return stream.windows(2).position(|pair| pair == b"\r\n").map(|end| end + 2);
    }
    let begun = V2_SIGNATURE.starts_with(stream) || b"PROXY ".starts_with(stream);
    (!begun).then_some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_as_long_as_it_says() {
        let ends = |from: &str, to: &str| (from.parse().expect("valid"), to.parse().expect("valid"));
        for (from, to) in [ends("168.63.129.16:50000", "10.4.2.101:80"), ends("[fe80::1]:1", "[fd00::2]:443")]
        {
            for version in [Version::V1, Version::V2] {
                let mut bytes = header(version, from, to);
                let expected = bytes.len();
                bytes.extend(b"GET / HTTP/1.1\r\n\r\n");
                assert_eq!(length(&bytes), Some(expected), "{version:?}");
                assert!((0..expected).all(|cut| length(&bytes[..cut]).is_none()), "{version:?}");
            }
        }
        assert_eq!(length(b"GET / HTTP/1.1"), Some(0));
    }
}
