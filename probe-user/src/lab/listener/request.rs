//! Where a request ends, and what it is.

use crate::lab::{proxy, tls};

const METHODS: [&[u8]; 4] = [b"GET ", b"HEAD ", b"POST ", b"OPTIONS "];
/// What is no request is waited for no longer than this.
const LONGEST: usize = 16 << 10;

/// What a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Http,
    ClientHello,
    Garbage,
}

/// The length and the form of the request at the beginning of a stream, once it is whole. `proxied`: a PROXY header
/// has to come first.
pub(super) fn request(stream: &[u8], proxied: bool) -> Option<(usize, Form)> {
    if stream.is_empty() {
        return None;
    }
    if !proxied {
        return plain(stream);
    }
    match proxy::length(stream)? {
        0 => Some((stream.len(), Form::Garbage)),
        header => plain(stream.get(header..)?).map(|(length, form)| (header + length, form)),
    }
}

fn plain(stream: &[u8]) -> Option<(usize, Form)> {
    if tls::begins(stream) {
        return tls::record_length(stream).map(|length| (length, Form::ClientHello));
    }
    let begun = |method: &&[u8]| stream.starts_with(method) || method.starts_with(stream);
    if METHODS.iter().any(begun) {
        let end = stream.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        return match end {
            Some(end) => Some((end + 4, Form::Http)),
            None => (stream.len() > LONGEST).then_some((stream.len(), Form::Garbage)),
        };
    }
    // A PROXY header that nobody expects is read whole, so that the answer to it is not cut off by a reset.
    proxy::length(stream).map(|_| (stream.len(), Form::Garbage))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_end_where_they_end() {
        assert_eq!(request(b"GET / HTTP/1.1\r\n\r\nGET", false), Some((18, Form::Http)));
        assert_eq!(request(b"GET / HTTP/1.1\r\n\r", false), None);
        assert_eq!(request(b"GE", false), None);
        assert_eq!(request(b"PROXY UNKNOWN\r\nGET / HTTP/1.0\r\n\r\n", true), Some((33, Form::Http)));
        assert_eq!(request(b"PROXY UNKNOWN\r\n", true), None);
        assert_eq!(request(b"PROXY UNKNOWN\r\n", false), Some((15, Form::Garbage)));
        assert_eq!(request(b"GET / HTTP/1.1\r\n\r\n", true), Some((18, Form::Garbage)));
        assert_eq!(request(b"SSH-2.0-x\r\n", false), Some((11, Form::Garbage)));
        let hello = tls::client_hello([1; 32]);
        assert_eq!(request(&hello, false), Some((hello.len(), Form::ClientHello)));
        assert_eq!(request(&hello[..20], false), None);
    }
}
