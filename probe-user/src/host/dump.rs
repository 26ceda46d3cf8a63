//! Dumps over the netlink protocols that rtnetlink does not speak: sock_diag, xfrm, nfnetlink.

use std::time::Duration;

use nix::sys::{
    socket::{setsockopt, sockopt::ReceiveTimeout},
    time::TimeVal,
};
use rtnetlink::{
    packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NLMSG_NOOP, NLMSG_OVERRUN},
    sys::{Socket, SocketAddr},
};

use super::netlink::Failure;

const HEADER: usize = 16;
/// More than the kernel puts into one answer (net/netlink/af_netlink.c, `netlink_dump`: 32 KiB at most).
const BUFFER: usize = 64 << 10;
/// The kernel writes a dump while it is read: there is nothing to wait for.
const PATIENCE: Duration = Duration::from_secs(1);
/// Says that the table changed under the dump (linux/netlink.h).
const NLM_F_DUMP_INTR: u16 = 0x10;
/// A table that changes all the time is still better read torn than not at all.
const TRIES: usize = 3;

/// One message of an answer: type and what follows the header.
pub(super) struct Message {
    pub(super) kind: u16,
    pub(super) payload: Vec<u8>,
}

/// Asks for a dump in the calling thread's network namespace.
pub(super) fn dump(protocol: isize, kind: u16, request: &[u8]) -> Result<Vec<Message>, Failure> {
    for _ in 1..TRIES {
        if let (messages, false) = dump_once(protocol, kind, request)? {
            return Ok(messages);
        }
    }
    Ok(dump_once(protocol, kind, request)?.0)
}

/// The messages, and whether the table changed meanwhile.
fn dump_once(protocol: isize, kind: u16, request: &[u8]) -> Result<(Vec<Message>, bool), Failure> {
    let failed = |error: std::io::Error| match error.raw_os_error() {
        Some(errno) => Failure::Errno(errno),
        None => Failure::Other(error.to_string()),
    };
    let mut socket = Socket::new(protocol).map_err(failed)?;
    socket.bind_auto().map_err(failed)?;
    let patience = TimeVal::new(PATIENCE.as_secs() as i64, 0);
    setsockopt(&socket, ReceiveTimeout, &patience).map_err(|errno| Failure::Errno(errno as i32))?;

    let mut bytes = Vec::with_capacity(HEADER + request.len());
    bytes.extend(((HEADER + request.len()) as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend(request);
    socket.send_to(&bytes, &SocketAddr::new(0, 0), 0).map_err(failed)?;

    let (mut found, mut torn) = (Vec::new(), false);
    loop {
        let mut buffer = Vec::with_capacity(BUFFER);
        let (_, from) = socket.recv_from(&mut buffer, 0).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => Failure::Other("netlink gave no answer within 1 s".to_owned()),
            _ => failed(error),
        })?;
        // Any process may write to a netlink socket; the kernel's port is 0.
        if from.port_number() != 0 {
            continue;
        }
        for (kind, flags, payload) in messages(&buffer) {
            torn |= flags & NLM_F_DUMP_INTR != 0;
            match kind {
                NLMSG_NOOP => {}
                NLMSG_OVERRUN => return Err(Failure::Other("the answer was lost in part".to_owned())),
                NLMSG_ERROR | NLMSG_DONE => {
                    let code = bytes_at(payload, 0).map_or(0, i32::from_ne_bytes);
                    return if code < 0 {
                        Err(Failure::Errno(code.saturating_neg()))
                    } else {
                        Ok((found, torn))
                    };
                }
                _ => found.push(Message { kind, payload: payload.to_vec() }),
            }
        }
    }
}

/// `N` bytes at an offset, if they are there.
pub(super) fn bytes_at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

/// Type, flags and payload of each whole message.
fn messages(bytes: &[u8]) -> impl Iterator<Item = (u16, u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(bytes_at(rest, 0)?) as usize;
        let kind = u16::from_ne_bytes(bytes_at(rest, 4)?);
        let flags = u16::from_ne_bytes(bytes_at(rest, 6)?);
        let payload = rest.get(HEADER..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, flags, payload))
    })
}

/// Type (without the nested and byte-order bits) and value of each whole attribute.
pub(super) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(bytes_at(rest, 0)?));
        let kind = u16::from_ne_bytes(bytes_at(rest, 2)?) & 0x3fff;
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_end_where_the_bytes_do() {
        let bytes = [5, 0, 1, 0, 7, 0, 0, 0, 8, 0, 2, 0x80, 1, 2, 3, 4, 9, 0, 3, 0, 1];
        let found: Vec<_> = attributes(&bytes).collect();
        assert_eq!(found, [(1, &[7][..]), (2, &[1, 2, 3, 4][..])]);
    }

    proptest::proptest! {
        #[test]
        fn whatever_bytes_come_they_are_taken_apart(bytes in proptest::collection::vec(0u8.., 0..200)) {
            let size: usize = messages(&bytes).map(|(_, _, payload)| payload.len() + HEADER).sum();
            assert!(size <= bytes.len());
            let size: usize = attributes(&bytes).map(|(_, value)| value.len() + 4).sum();
            assert!(size <= bytes.len());
        }
    }
}
