//! How a TLS handshake went, told from the first records. What is said inside it stays unknown.

/// Content types (RFC 8446, B.1).
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
/// Handshake type of a ServerHello (and of a HelloRetryRequest).
const SERVER_HELLO: u8 = 2;
const FATAL: u8 = 2;
/// Alerts that announce an end and no error: `close_notify`, `user_canceled` (RFC 8446, 6.1).
const CLOSURE: [u8; 2] = [0, 90];

/// What the server's first bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// More bytes could still tell.
    Partial,
    ServerHello,
    /// The description of the alert that came instead.
    Alert(u8),
    /// Not TLS, whatever follows.
    NotTls,
}

/// Reads what a server sent in reply to a ClientHello.
pub fn answer(mut stream: &[u8]) -> Answer {
    loop {
        let (kind, length) = match stream {
            [kind @ (ALERT | HANDSHAKE), 3, _, high, low, ..] => {
                (*kind, usize::from(u16::from_be_bytes([*high, *low])))
            }
            []
            | [ALERT | HANDSHAKE]
            | [ALERT | HANDSHAKE, 3]
            | [ALERT | HANDSHAKE, 3, _]
            | [ALERT | HANDSHAKE, 3, _, _] => {
                return Answer::Partial;
            }
            _ => return Answer::NotTls,
        };
        let body = stream.get(5..).unwrap_or(&[]);
        match (kind, body) {
            (HANDSHAKE, [SERVER_HELLO, ..]) => return Answer::ServerHello,
            (HANDSHAKE, [_, ..]) => return Answer::NotTls,
            (ALERT, [level, description, ..]) => {
                // A warning such as unrecognized_name may precede a ServerHello (RFC 6066, 3).
                if *level == FATAL || CLOSURE.contains(description) {
                    return Answer::Alert(*description);
                }
            }
            _ => return Answer::Partial,
        }
        stream = match body.get(length..) {
            Some(rest) if length > 0 => rest,
            _ => return Answer::Partial,
        };
    }
}

/// The fatal alert that a prober sends in a record of its own, in the clear: it refuses the server's certificate. From
/// TLS 1.3 on alerts are encrypted.
pub fn prober_alert(segment: &[u8]) -> Option<u8> {
    match segment {
        [ALERT, 3, _, 0, 2, FATAL, description] if !CLOSURE.contains(description) => Some(*description),
        _ => None,
    }
}

/// Name of an alert description (IANA, TLS Alerts; RFC 8446, 6.2).
pub fn alert_name(description: u8) -> String {
    let name = match description {
        0 => "close_notify",
        10 => "unexpected_message",
        20 => "bad_record_mac",
        21 => "decryption_failed",
        22 => "record_overflow",
        30 => "decompression_failure",
        40 => "handshake_failure",
        41 => "no_certificate",
        42 => "bad_certificate",
        43 => "unsupported_certificate",
        44 => "certificate_revoked",
        45 => "certificate_expired",
        46 => "certificate_unknown",
        47 => "illegal_parameter",
        48 => "unknown_ca",
        49 => "access_denied",
        50 => "decode_error",
        51 => "decrypt_error",
        60 => "export_restriction",
        70 => "protocol_version",
        71 => "insufficient_security",
        80 => "internal_error",
        86 => "inappropriate_fallback",
        90 => "user_canceled",
        100 => "no_renegotiation",
        109 => "missing_extension",
        110 => "unsupported_extension",
        111 => "certificate_unobtainable",
        112 => "unrecognized_name",
        113 => "bad_certificate_status_response",
        114 => "bad_certificate_hash_value",
        115 => "unknown_psk_identity",
        116 => "certificate_required",
        120 => "no_application_protocol",
        other => return format!("alert {other}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HELLO: [u8; 9] = [22, 3, 3, 0, 90, 2, 0, 0, 86];

    #[test]
    fn a_server_hello_or_an_alert_tells() {
        assert_eq!(answer(&HELLO), Answer::ServerHello);
        assert_eq!(answer(&[21, 3, 1, 0, 2, 2, 70]), Answer::Alert(70));
        assert_eq!(alert_name(70), "protocol_version");
        assert_eq!(alert_name(200), "alert 200");
        assert_eq!(answer(&[21, 3, 1, 0, 2, 1, 0]), Answer::Alert(0), "closed instead of answered");
    }

    #[test]
    fn a_warning_before_the_hello_is_skipped() {
        assert_eq!(answer(&[&[21, 3, 3, 0, 2, 1, 112][..], &HELLO].concat()), Answer::ServerHello);
        assert_eq!(answer(&[21, 3, 3, 0, 2, 1, 112]), Answer::Partial);
        assert_eq!(answer(&[21, 3, 3, 0, 0, 1, 112]), Answer::Partial, "no length, no loop");
    }

    #[test]
    fn other_answers_are_not_tls() {
        for text in
            [&b"HTTP/1.1 400 Bad Request"[..], b"SSH-2.0", &[22, 3, 3, 0, 4, 14], &[23, 3, 3, 0, 1], &[22, 2]]
        {
            assert_eq!(answer(text), Answer::NotTls, "{text:?}");
        }
        for begun in [&[][..], &[21], &[22, 3], &[22, 3, 3, 0], &[22, 3, 3, 0, 90], &[21, 3, 1, 0, 2, 2]] {
            assert_eq!(answer(begun), Answer::Partial, "{begun:?}");
        }
    }

    #[test]
    fn a_prober_that_refuses_the_certificate_says_so() {
        assert_eq!(prober_alert(&[21, 3, 3, 0, 2, 2, 42]), Some(42));
        for other in [&[21, 3, 3, 0, 2, 1, 0][..], &[21, 3, 3, 0, 2, 2, 0], &[21, 3, 3, 0, 26, 2, 42], &HELLO]
        {
            assert_eq!(prober_alert(other), None);
        }
    }

    proptest! {
        #[test]
        fn nothing_panics_and_nothing_decided_changes(bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0u8..4, 20u8..24], 0..200)) {
            let last = answer(&bytes);
            for length in 0..bytes.len() {
                let earlier = answer(&bytes[..length]);
                prop_assert!(earlier == Answer::Partial || earlier == last, "{earlier:?} then {last:?}");
            }
        }
    }
}
