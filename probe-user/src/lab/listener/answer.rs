//! Answers, down to their segments.

use std::{fmt::Write as _, time::Duration};

/// What is sent as one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Wait so long before it.
    pub pause: Duration,
    pub bytes: Vec<u8>,
}

/// What happens to the connection after an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum After {
    #[default]
    Keep,
    Close,
    Reset,
}

/// Segments, and what follows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub pieces: Vec<Piece>,
    pub after: After,
}

impl Answer {
    /// These bytes at once.
    pub fn of(bytes: impl Into<Vec<u8>>) -> Self {
        Self { pieces: vec![Piece { pause: Duration::ZERO, bytes: bytes.into() }], after: After::Keep }
    }

    #[must_use]
    pub fn close(mut self) -> Self {
        self.after = After::Close;
        self
    }

    #[must_use]
    pub fn reset(mut self) -> Self {
        self.after = After::Reset;
        self
    }

    /// Cuts every piece into segments of this size, with a pause before each further one.
    #[must_use]
    pub fn split(mut self, size: usize, pause: Duration) -> Self {
        let mut pieces = Vec::new();
        for piece in self.pieces {
            for (index, bytes) in piece.bytes.chunks(size.max(1)).enumerate() {
                let pause = if index == 0 { piece.pause } else { pause };
                pieces.push(Piece { pause, bytes: bytes.to_vec() });
            }
        }
        self.pieces = pieces;
        self
    }
}

/// An HTTP response; builds an [`Answer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    status: u16,
    minor: u8,
    delay: Duration,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    interim: bool,
    apart: Option<Duration>,
    after: After,
}

impl Response {
    /// HTTP/1.1, keep-alive, a short body.
    pub fn status(status: u16) -> Self {
        Self {
            status,
            minor: 1,
            delay: Duration::ZERO,
            headers: Vec::new(),
            body: b"ok".to_vec(),
            interim: false,
            apart: None,
            after: After::Keep,
        }
    }

    /// Wait so long with the first byte.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// HTTP/1.0: no length, and the end of the connection ends the body.
    #[must_use]
    pub fn http10(mut self) -> Self {
        self.minor = 0;
        self.after = After::Close;
        self
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Send the client elsewhere.
    #[must_use]
    pub fn location(self, url: &str) -> Self {
        self.header("Location", url)
    }

    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// `100 Continue` in a segment of its own first.
    #[must_use]
    pub fn interim(mut self) -> Self {
        self.interim = true;
        self
    }

    /// Status line, headers and body in a segment each, this long apart.
    #[must_use]
    pub fn apart(mut self, pause: Duration) -> Self {
        self.apart = Some(pause);
        self
    }

    /// Close after it.
    #[must_use]
    pub fn close(mut self) -> Self {
        self.after = After::Close;
        self
    }

    /// Reset after it.
    #[must_use]
    pub fn reset(mut self) -> Self {
        self.after = After::Reset;
        self
    }

    pub fn answer(self) -> Answer {
        let line = format!("HTTP/1.{} {} {}\r\n", self.minor, self.status, reason(self.status));
        let mut headers = "Content-Type: text/plain\r\n".to_owned();
        if self.minor > 0 {
            let _ = write!(headers, "Content-Length: {}\r\n", self.body.len());
            if self.after != After::Keep {
                headers.push_str("Connection: close\r\n");
            }
        }
        for (name, value) in &self.headers {
            let _ = write!(headers, "{name}: {value}\r\n");
        }
        headers.push_str("\r\n");
        let parts = [line.into_bytes(), headers.into_bytes(), self.body];
        let mut bytes = match self.apart {
            Some(_) => parts.to_vec(),
            None => vec![parts.concat()],
        };
        if self.interim {
            bytes.insert(0, b"HTTP/1.1 100 Continue\r\n\r\n".to_vec());
        }
        let pause = |index| if index == 0 { self.delay } else { self.apart.unwrap_or_default() };
        let pieces = bytes.into_iter().enumerate();
        let pieces = pieces.map(|(index, bytes)| Piece { pause: pause(index), bytes }).collect();
        Answer { pieces, after: self.after }
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        301 => "Moved Permanently",
        302 => "Found",
        307 => "Temporary Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Lab",
    }
}
