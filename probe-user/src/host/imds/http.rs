//! One GET over plain HTTP/1.1. The service is a link-local address on the host: no proxy, no TLS, no redirects, no
//! keep-alive; a client library would bring all of them.

use std::io;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::{Service, Unavailable};

/// The documents have a few kilobytes.
const LIMIT: u64 = 1 << 20;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

pub(super) async fn get(service: &Service, path: &str) -> Result<Answer, Unavailable> {
    let answer = timeout(service.answer_within, exchange(service, path)).await;
    let bytes = answer.map_err(|_| Unavailable::TimedOut)??;
    parse(&bytes).map_err(Unavailable::Malformed)
}

async fn exchange(service: &Service, path: &str) -> Result<Vec<u8>, Unavailable> {
    let failed = |error: io::Error| Unavailable::Unreachable(error.to_string());
    let connection = timeout(service.connect_within, TcpStream::connect(service.address)).await;
    let mut connection = connection
        .map_err(|_| Unavailable::Unreachable("the connection was not answered".to_owned()))?
        .map_err(failed)?;
    // IMDS refuses requests without this header, and those that passed a proxy.
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nMetadata: true\r\nAccept: application/json\r\nConnection: close\r\n\r\n",
        service.address
    );
    connection.write_all(request.as_bytes()).await.map_err(failed)?;
    let mut bytes = Vec::new();
    let mut limited = connection.take(LIMIT);
    // A server that ignores `Connection: close` is not waited for: the length tells when it is all there.
    while limited.read_buf(&mut bytes).await.map_err(failed)? > 0 && !is_whole(&bytes) {}
    Ok(bytes)
}

fn is_whole(bytes: &[u8]) -> bool {
    split(bytes).is_some_and(|(head, body)| {
        if is_chunked(head) {
            chunks(body).is_some()
        } else {
            length(head).is_some_and(|length| body.len() >= length)
        }
    })
}

/// Head and body.
fn split(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let at = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    Some((std::str::from_utf8(bytes.get(..at)?).ok()?, bytes.get(at + 4..)?))
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .find_map(|(key, value)| key.trim().eq_ignore_ascii_case(name).then(|| value.trim()))
}

fn length(head: &str) -> Option<usize> {
    header(head, "content-length")?.parse().ok()
}

fn is_chunked(head: &str) -> bool {
    header(head, "transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
}

/// The body that chunks make (RFC 9112, 7.1); `None` when the last one is missing.
fn chunks(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    let mut rest = bytes;
    loop {
        let at = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = std::str::from_utf8(rest.get(..at)?).ok()?.split(';').next()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        rest = rest.get(at + 2..)?;
        if size == 0 {
            return Some(body);
        }
        body.extend(rest.get(..size)?);
        rest = rest.get(size.checked_add(2)?..)?;
    }
}

fn parse(bytes: &[u8]) -> Result<Answer, String> {
    let (head, body) = split(bytes).ok_or("no HTTP answer")?;
    let mut words = head.split_whitespace();
    let version = words.next().is_some_and(|word| word.starts_with("HTTP/1."));
    let status = words.next().and_then(|word| word.parse().ok()).filter(|_| version);
    let status = status.ok_or_else(|| "no HTTP status line".to_owned())?;
    let body = match (is_chunked(head), length(head)) {
        (true, _) => chunks(body).ok_or("the body ends early")?,
        (false, Some(length)) => body.get(..length).ok_or("the body ends early")?.to_vec(),
        (false, None) => body.to_vec(),
    };
    Ok(Answer { status, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_come_by_length_by_chunks_and_until_the_end() {
        let body = |text: &str| parse(text.as_bytes()).map(|answer| answer.body);
        assert_eq!(body("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}rest"), Ok(b"{}".to_vec()));
        assert_eq!(
            body("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;x\r\n{\r\n1\r\n}\r\n0\r\n\r\n"),
            Ok(b"{}".to_vec())
        );
        assert_eq!(body("HTTP/1.0 200 OK\r\n\r\n{}"), Ok(b"{}".to_vec()));
        assert!(body("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}").is_err());
        assert!(body("SSH-2.0-OpenSSH\r\n\r\n").is_err());
        assert_eq!(parse(b"HTTP/1.1 429 Too Many Requests\r\n\r\n").map(|answer| answer.status), Ok(429));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(0u8.., 0..200), text in "(HTTP/1.1 [0-9]{1,4}\r\n)?([A-Za-z-]{1,17}: ?[a-z0-9]{0,8}\r\n){0,3}\r\n[0-9a-f\r\n]{0,20}") {
            let _ = (parse(&bytes), is_whole(&bytes));
            let _ = (parse(text.as_bytes()), is_whole(text.as_bytes()));
            let _ = chunks(&bytes);
        }
    }
}
