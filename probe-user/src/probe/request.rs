//! What a prober speaks, told from the first bytes that it sends.

use crate::report::document::Protocol;

/// Signature of a PROXY protocol v2 header (haproxy's proxy-protocol.txt, 2.2).
const PROXY_V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// HTTP when a request line follows (behind a PROXY preface, if there is one), HTTPS for a TLS handshake record,
/// plain TCP otherwise.
pub fn protocol(payload: &[u8]) -> Protocol {
    let payload = behind_proxy(payload);
    // RFC 8446, 5.1: handshake record, legacy version 3.x.
    if let [22, 3, ..] = payload {
        return Protocol::Https;
    }
    let methods: [&[u8]; 4] = [b"GET ", b"HEAD ", b"OPTIONS ", b"POST "];
    if methods.iter().any(|method| payload.starts_with(method)) { Protocol::Http } else { Protocol::Tcp }
}

fn behind_proxy(payload: &[u8]) -> &[u8] {
    if payload.starts_with(PROXY_V2) {
        let length = match payload.get(14..16) {
            Some([high, low]) => usize::from(u16::from_be_bytes([*high, *low])),
            _ => return payload,
        };
        return payload.get(16 + length..).unwrap_or(&[]);
    }
    if payload.starts_with(b"PROXY ") {
        let end = payload.windows(2).position(|pair| pair == b"\r\n");
        return end.and_then(|end| payload.get(end + 2..)).unwrap_or(&[]);
    }
    payload
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell_the_protocol() {
        assert_eq!(protocol(b"GET /health HTTP/1.1\r\n"), Protocol::Http);
        assert_eq!(protocol(b"\x16\x03\x01\x02\x00\x01"), Protocol::Https);
        assert_eq!(protocol(b"SSH-2.0-x"), Protocol::Tcp);
        assert_eq!(protocol(b""), Protocol::Tcp);
    }

    #[test]
    fn a_proxy_preface_is_skipped() {
        assert_eq!(protocol(b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET / HTTP/1.1\r\n"), Protocol::Http);
        let mut v2 = PROXY_V2.to_vec();
        v2.extend([0x21, 0x11, 0, 4, 1, 2, 3, 4]);
        v2.extend(b"GET / HTTP/1.0\r\n");
        assert_eq!(protocol(&v2), Protocol::Http);
        assert_eq!(protocol(&v2[..15]), Protocol::Tcp);
    }
}
