//! The first records of a TLS handshake, written by hand: enough to look real, no more. Nothing is encrypted here.

/// Content types and versions of records (RFC 5246, 6.2.1).
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const TLS_1_0: [u8; 2] = [3, 1];
const TLS_1_2: [u8; 2] = [3, 3];
/// Handshake types.
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const FATAL: u8 = 2;

/// Alert descriptions (RFC 5246, 7.2).
pub const HANDSHAKE_FAILURE: u8 = 40;
pub const PROTOCOL_VERSION: u8 = 70;

/// A client's first record: TLS 1.2 at most, as Azure's prober offers (azure-docs 107193).
pub fn client_hello(random: [u8; 32]) -> Vec<u8> {
    let mut body = TLS_1_2.to_vec();
    body.extend(random);
    // No session to resume.
    body.push(0);
    let suites: [u16; 6] = [0xc030, 0xc02f, 0xc028, 0xc027, 0x009d, 0x009c];
    body.extend((suites.len() as u16 * 2).to_be_bytes());
    body.extend(suites.iter().flat_map(|suite| suite.to_be_bytes()));
    // One compression method: none.
    body.extend([1, 0]);
    let mut extensions = Vec::new();
    // supported_groups: x25519, secp256r1, secp384r1.
    extensions.extend([0, 10, 0, 8, 0, 6, 0, 29, 0, 23, 0, 24]);
    // ec_point_formats: uncompressed.
    extensions.extend([0, 11, 0, 2, 1, 0]);
    // signature_algorithms: RSA and ECDSA with SHA-256 and SHA-384.
    extensions.extend([0, 13, 0, 10, 0, 8, 4, 1, 4, 3, 5, 1, 5, 3]);
    // extended_master_secret, renegotiation_info.
    extensions.extend([0, 23, 0, 0, 0xff, 1, 0, 1, 0]);
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    record(HANDSHAKE, TLS_1_0, &handshake(CLIENT_HELLO, &body))
}

/// A server's first record, as TLS 1.2 has it.
pub fn server_hello() -> Vec<u8> {
    let mut body = TLS_1_2.to_vec();
    body.extend([0x5a; 32]);
    body.push(32);
    body.extend([0xa5; 32]);
    // ECDHE-RSA-AES256-GCM-SHA384, no compression, renegotiation_info.
    body.extend([0xc0, 0x30, 0, 0, 5, 0xff, 1, 0, 1, 0]);
    record(HANDSHAKE, TLS_1_2, &handshake(SERVER_HELLO, &body))
}

/// A fatal alert instead of a handshake.
pub fn alert(description: u8) -> Vec<u8> {
    record(ALERT, TLS_1_2, &[FATAL, description])
}

/// Length of the record at the beginning, once it is whole.
pub fn record_length(stream: &[u8]) -> Option<usize> {
    let [HANDSHAKE, 3, _, high, low, ..] = stream else { return None };
    let length = 5 + usize::from(u16::from_be_bytes([*high, *low]));
    (stream.len() >= length).then_some(length)
}

/// Whether a stream begins as a handshake.
pub fn begins(stream: &[u8]) -> bool {
    stream.first() == Some(&HANDSHAKE)
}

/// What a server's first bytes mean to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    ServerHello,
    Alert(u8),
    NotTls,
}

/// `None` until enough has come.
pub(super) fn reply(stream: &[u8]) -> Option<Reply> {
    match stream {
        [] => None,
        [HANDSHAKE, _, _, _, _, kind, ..] if *kind == SERVER_HELLO => Some(Reply::ServerHello),
        [ALERT, _, _, _, _, _, description, ..] => Some(Reply::Alert(*description)),
        [HANDSHAKE, rest @ ..] if rest.len() < 5 => None,
        [ALERT, rest @ ..] if rest.len() < 6 => None,
        _ => Some(Reply::NotTls),
    }
}

fn handshake(kind: u8, body: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = (body.len() as u32).to_be_bytes();
    let mut bytes = vec![kind];
    bytes.extend(length);
    bytes.extend(body);
    bytes
}

fn record(kind: u8, version: [u8; 2], body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(version);
    bytes.extend((body.len() as u16).to_be_bytes());
    bytes.extend(body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_bytes() {
        for bytes in [client_hello([7; 32]), server_hello()] {
            assert_eq!(record_length(&bytes), Some(bytes.len()));
            assert_eq!(record_length(&bytes[..bytes.len() - 1]), None);
            let body = u32::from_be_bytes([0, bytes[6], bytes[7], bytes[8]]) as usize;
            assert_eq!(bytes.len(), 9 + body);
        }
    }

    #[test]
    fn replies_are_told_apart_as_they_come() {
        let (hello, alert) = (server_hello(), alert(PROTOCOL_VERSION));
        assert_eq!(reply(&hello), Some(Reply::ServerHello));
        assert_eq!(reply(&hello[..5]), None);
        assert_eq!(reply(&alert), Some(Reply::Alert(70)));
        assert_eq!(reply(&alert[..6]), None);
        assert_eq!(reply(b"HTTP/1.1 400"), Some(Reply::NotTls));
    }
}
