//! What a prober speaks, told from the first bytes that it sends.

use std::fmt;

use crate::report::document::Protocol;

/// Signature of a PROXY protocol v2 header (haproxy's proxy-protocol.txt, 2.2).
const PROXY_V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const PROXY_V1: &[u8] = b"PROXY ";
/// The longest v1 header, its CRLF included (proxy-protocol.txt, 2.1).
const PROXY_V1_LONGEST: usize = 107;
/// Request methods that probers use, or may be told to use.
const METHODS: [&[u8]; 5] = [b"GET ", b"HEAD ", b"OPTIONS ", b"POST ", b"PUT "];

/// Version of the PROXY protocol header in front of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proxy {
    V1,
    V2,
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        })
    }
}

/// What the first bytes say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub proxy: Option<Proxy>,
    /// `None` while more bytes could still tell. Plain TCP for what is no request.
    pub speaks: Option<Protocol>,
}

/// Reads the beginning of what a prober sent.
pub fn sniff(stream: &[u8]) -> Request {
    let Some((proxy, rest)) = behind_proxy(stream) else {
        return Request { proxy: None, speaks: None };
    };
    Request { proxy, speaks: rest.and_then(speaks) }
}

/// The version of the header in front, and what lies behind it once it is whole; `None` while it may still become one.
fn behind_proxy(stream: &[u8]) -> Option<(Option<Proxy>, Option<&[u8]>)> {
    if stream.starts_with(PROXY_V2) {
        let rest = match stream.get(14..16) {
            Some([high, low]) => stream.get(16 + usize::from(u16::from_be_bytes([*high, *low]))..),
            _ => None,
        };
        return Some((Some(Proxy::V2), rest));
    }
    if stream.starts_with(PROXY_V1) {
        let line = stream.get(..PROXY_V1_LONGEST.min(stream.len())).unwrap_or(stream);
        return match line.windows(2).position(|pair| pair == b"\r\n") {
            Some(end) => Some((Some(Proxy::V1), stream.get(end + 2..))),
            None if stream.len() < PROXY_V1_LONGEST => Some((Some(Proxy::V1), None)),
            None => Some((None, Some(stream))),
        };
    }
    let may_become = begins(PROXY_V2, stream) || begins(PROXY_V1, stream);
    (!may_become).then_some((None, Some(stream)))
}

fn speaks(stream: &[u8]) -> Option<Protocol> {
    match stream {
        [] | [22] => None,
        // RFC 8446, 5.1: a handshake record, legacy version 3.x.
        [22, 3, ..] => Some(Protocol::Https),
        _ if METHODS.iter().any(|method| stream.starts_with(method)) => Some(Protocol::Http),
        _ if METHODS.iter().any(|method| begins(method, stream)) => None,
        _ => Some(Protocol::Tcp),
    }
}

/// Whether `stream` is a proper beginning of `whole`.
fn begins(whole: &[u8], stream: &[u8]) -> bool {
    stream.len() < whole.len() && whole.starts_with(stream)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn v2() -> Vec<u8> {
        let mut v2 = PROXY_V2.to_vec();
        v2.extend([0x21, 0x11, 0, 4, 1, 2, 3, 4]);
        v2
    }

    fn speaks(stream: &[u8]) -> Option<Protocol> {
        sniff(stream).speaks
    }

    #[test]
    fn the_first_bytes_tell_the_protocol() {
        assert_eq!(speaks(b"GET /health HTTP/1.1\r\n"), Some(Protocol::Http));
        assert_eq!(speaks(b"HEAD / HTTP/1.0\r\n"), Some(Protocol::Http));
        assert_eq!(speaks(b"\x16\x03\x01\x02\x00\x01"), Some(Protocol::Https));
        assert_eq!(speaks(b"SSH-2.0-x"), Some(Protocol::Tcp));
        assert_eq!(speaks(b"GETTING"), Some(Protocol::Tcp));
        assert_eq!(speaks(b"\x16\x02"), Some(Protocol::Tcp));
    }

    #[test]
    fn a_beginning_asks_for_more() {
        for begun in [&b""[..], b"G", b"GET", b"\x16", b"PRO", b"\r\n\r\n", b"P", b"O"] {
            assert_eq!(sniff(begun), Request::default(), "{begun:?}");
        }
    }

    #[test]
    fn a_proxy_header_is_named_and_skipped() {
        let http = |proxy| Request { proxy: Some(proxy), speaks: Some(Protocol::Http) };
        assert_eq!(sniff(b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET / HTTP/1.1\r\n"), http(Proxy::V1));
        assert_eq!(sniff(b"PROXY UNKNOWN\r\nHEAD / HTTP/1.1\r\n"), http(Proxy::V1));
        assert_eq!(sniff(b"PROXY UNKNOWN\r\n"), Request { proxy: Some(Proxy::V1), speaks: None });
        assert_eq!(sniff(&v2()), Request { proxy: Some(Proxy::V2), speaks: None });
        assert_eq!(sniff(&[v2(), b"GET / HTTP/1.0\r\n".to_vec()].concat()), http(Proxy::V2));
        assert_eq!(sniff(&v2()[..15]), Request { proxy: Some(Proxy::V2), speaks: None });
        let endless = [b"PROXY ".as_slice(), &[b'x'; 200]].concat();
        assert_eq!(sniff(&endless), Request { proxy: None, speaks: Some(Protocol::Tcp) });
    }

    proptest! {
        /// What a longer beginning says, a shorter one does not contradict.
        #[test]
        fn more_bytes_never_change_an_answer(
            preface in prop_oneof![Just(vec![]), Just(v2()), Just(b"PROXY UNKNOWN\r\n".to_vec())],
            rest in prop_oneof![prop::collection::vec(any::<u8>(), 0..64), Just(b"GET / HTTP/1.1\r\n\r\n".to_vec())],
        ) {
            let whole = [preface, rest].concat();
            let last = sniff(&whole);
            for length in 0..whole.len() {
                let earlier = sniff(&whole[..length]);
                if earlier.speaks.is_some() {
                    prop_assert_eq!(earlier, last);
                }
            }
        }
    }
}
