//! What an attempt says once the connection stands, and what it makes of the answer.

use std::{
    hash::{BuildHasher, RandomState},
    net::SocketAddr,
    ops::RangeInclusive,
};

use super::{
    probe::{Kind, Probe},
    probe_log::Outcome,
    proxy, tls,
};

/// Enough of a response to find the end of its head.
const KEPT: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expects {
    Nothing,
    Http,
    Tls,
}

/// What the answer was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) outcome: Outcome,
    pub(super) http_status: Option<u16>,
}

#[derive(Clone, Debug)]
pub(super) struct Exchange {
    /// The request, a segment each.
    pub(super) pieces: Vec<Vec<u8>>,
    expects: Expects,
    accept: Vec<RangeInclusive<u16>>,
    heard: Vec<u8>,
}

impl Exchange {
    /// `first`: the first request of its connection.
    pub(super) fn new(probe: &Probe, source: SocketAddr, first: bool) -> Self {
        let (expects, request) = match &probe.kind {
            Kind::Tcp => (Expects::Nothing, Vec::new()),
            Kind::Http { path } => (
                Expects::Http,
                format!(
                    "GET {path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: {}\r\n\r\n",
                    probe.target, probe.agent
                )
                .into_bytes(),
            ),
            Kind::Https => (Expects::Tls, tls::client_hello(random(source))),
        };
        let mut pieces = Vec::new();
        let mut rest = request;
        if let Some(preface) = probe.preface.filter(|_| first && expects != Expects::Nothing) {
            let mut header = proxy::header(preface.version, source, probe.target);
            if preface.alone {
                pieces.push(header);
            } else {
                header.extend(rest);
                rest = header;
            }
        }
        match probe.split {
            Some(size) => pieces.extend(rest.chunks(size).map(<[u8]>::to_vec)),
            None if rest.is_empty() => {}
            None => pieces.push(rest),
        }
        Self { pieces, expects, accept: probe.accept.clone(), heard: Vec::new() }
    }

    pub(super) fn asks(&self) -> bool {
        self.expects != Expects::Nothing
    }

    /// Takes a part of the answer; tells once it can be judged.
    pub(super) fn hear(&mut self, payload: &[u8]) -> Option<Answer> {
        let room = KEPT.saturating_sub(self.heard.len());
        self.heard.extend_from_slice(payload.get(..room).unwrap_or(payload));
        match self.expects {
            Expects::Nothing => None,
            Expects::Http => self.http(),
            Expects::Tls => {
                let outcome = match tls::reply(&self.heard)? {
                    tls::Reply::ServerHello => Outcome::Answered,
                    tls::Reply::Alert(description) => Outcome::TlsAlert(description),
                    tls::Reply::NotTls => Outcome::Garbage,
                };
                Some(Answer { outcome, http_status: None })
            }
        }
    }

    /// A client acts on a whole head, and skips interim ones (RFC 9110, 15.2).
    fn http(&mut self) -> Option<Answer> {
        loop {
            let version = b"HTTP/1.";
            let compared = self.heard.len().min(version.len());
            if self.heard[..compared] != version[..compared] {
                return Some(Answer { outcome: Outcome::Garbage, http_status: None });
            }
            let end = self.heard.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
            let digits = self.heard.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
            let Some(status) = digits.and_then(|digits| digits.parse::<u16>().ok()) else {
                return Some(Answer { outcome: Outcome::Garbage, http_status: None });
            };
            if (100..200).contains(&status) && status != 101 {
                self.heard.drain(..end + 4);
                continue;
            }
            let accepted = self.accept.iter().any(|range| range.contains(&status));
            let outcome = if accepted { Outcome::Answered } else { Outcome::HttpStatus(status) };
            return Some(Answer { outcome, http_status: Some(status) });
        }
    }
}

fn random(source: SocketAddr) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (index, chunk) in bytes.chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&RandomState::new().hash_one((source, index)).to_be_bytes());
    }
    bytes
}
