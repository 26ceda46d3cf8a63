//! The status of an HTTP answer, told from its first bytes.

/// What the beginning of an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// More bytes could still tell.
    Partial,
    Status(u16),
    /// No HTTP response, whatever follows.
    NotHttp,
}

/// Interim responses that are skipped at most.
const INTERIM: usize = 8;

/// Reads the status line (RFC 9112, 4) of the final response: interim ones (1xx but 101, RFC 9110, 15.2) are
/// skipped. The head need not be complete, and the reason phrase may be missing.
pub fn answer(mut stream: &[u8]) -> Answer {
    for _ in 0..INTERIM {
        // RFC 9112, 2.2: a robust reader skips an empty line before the message.
        let line = stream.strip_prefix(b"\r\n").or(stream.strip_prefix(b"\n")).unwrap_or(stream);
        let status = match status(line) {
            Answer::Status(status) => status,
            other => return other,
        };
        if !(100..200).contains(&status) || status == 101 {
            return Answer::Status(status);
        }
        let Some(end) = line.windows(4).position(|four| four == b"\r\n\r\n") else { return Answer::Partial };
        stream = line.get(end + 4..).unwrap_or(&[]);
    }
    Answer::NotHttp
}

fn status(line: &[u8]) -> Answer {
    const VERSION: &[u8] = b"HTTP/";
    let Some(rest) = line.strip_prefix(VERSION) else {
        let may_become = VERSION.starts_with(line) || line == b"\r";
        return if may_become { Answer::Partial } else { Answer::NotHttp };
    };
    // `HTTP/1.1 200`, and what some servers send: `HTTP/2 200`.
    let Some(space) = rest.iter().position(|byte| *byte == b' ') else {
        let version = rest.len() <= 3 && rest.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
        return if version { Answer::Partial } else { Answer::NotHttp };
    };
    let (version, rest) = rest.split_at(space);
    if version.is_empty() || version.len() > 3 || !version.iter().all(|b| b.is_ascii_digit() || *b == b'.') {
        return Answer::NotHttp;
    }
    match rest.trim_ascii_start() {
        [a, b, c, after, ..] if !after.is_ascii_digit() => code([*a, *b, *c]),
        [_, _, _, _, ..] => Answer::NotHttp,
        // Three digits may be the beginning of four; only what follows tells. Nobody sends a status without an end of
        // line or a space, so waiting costs nothing.
        begun if begun.iter().all(u8::is_ascii_digit) => Answer::Partial,
        _ => Answer::NotHttp,
    }
}

fn code(digits: [u8; 3]) -> Answer {
    if !digits.iter().all(u8::is_ascii_digit) || digits[0] == b'0' {
        return Answer::NotHttp;
    }
    Answer::Status(digits.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_status_line_tells_the_status() {
        for (text, status) in [
            ("HTTP/1.1 200 OK\r\n", 200),
            ("HTTP/1.0 404 Not Found\r\nServer: x", 404),
            ("HTTP/1.1 299 \r\n", 299),
            ("HTTP/1.1 500\r\n\r\n", 500),
            ("HTTP/2 503 ", 503),
            ("\r\nHTTP/1.1 301 Moved", 301),
            ("HTTP/1.1 101 Switching", 101),
            ("HTTP/1.1  200 OK", 200),
        ] {
            assert_eq!(answer(text.as_bytes()), Answer::Status(status), "{text}");
        }
    }

    #[test]
    fn interim_responses_are_skipped() {
        let interim = "HTTP/1.1 100 Continue\r\n\r\n";
        assert_eq!(answer(interim.as_bytes()), Answer::Partial);
        assert_eq!(answer(format!("{interim}HTTP/1.1 403 F").as_bytes()), Answer::Status(403));
        let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n";
        assert_eq!(answer(hints.as_bytes()), Answer::Status(200));
        assert_eq!(answer(interim.repeat(20).as_bytes()), Answer::NotHttp);
    }

    #[test]
    fn what_is_no_response_is_said_to_be_none() {
        for text in [
            "SSH-2.0-OpenSSH",
            "<html>",
            "HTTP/x 200 ",
            "HTTP/1.1 2000 ",
            "HTTP/1.1 abc ",
            "HTTP/1.1 012 ",
            "220 smtp",
        ] {
            assert_eq!(answer(text.as_bytes()), Answer::NotHttp, "{text}");
        }
        assert_eq!(answer(b"\x15\x03\x03\x00\x02\x02\x46"), Answer::NotHttp);
    }

    proptest! {
        #[test]
        fn any_beginning_of_a_response_is_partial_or_its_status(status in 200u16..600, reason in "[ -~]{0,20}") {
            let text = format!("HTTP/1.1 {status} {reason}\r\nContent-Length: 2\r\n\r\nok");
            for length in 0..=text.len() {
                let expected = if length > 12 { Answer::Status(status) } else { Answer::Partial };
                prop_assert_eq!(answer(&text.as_bytes()[..length]), expected);
            }
        }

        #[test]
        fn nothing_panics_and_nothing_decided_changes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let last = answer(&bytes);
            for length in 0..bytes.len() {
                let earlier = answer(&bytes[..length]);
                prop_assert!(earlier == Answer::Partial || earlier == last, "{earlier:?} then {last:?}");
            }
        }
    }
}
