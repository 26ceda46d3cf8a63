//! `NETLINK_SOCK_DIAG`: what /proc does not tell about a TCP socket.

use std::net::SocketAddr;

use netlink_packet_sock_diag::inet::{
    ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags, Timer, nlas::Nla,
};
use rtnetlink::{
    packet_core::{Emitable as _, Parseable as _},
    sys::protocols::NETLINK_SOCK_DIAG,
};

use super::{
    dump::dump,
    netlink::Failure,
    sockets::{Connecting, Detail, Listener, Request},
};

const SOCK_DIAG_BY_FAMILY: u16 = 20;

/// Listeners with their inodes.
pub(super) fn listening() -> Result<Vec<(u64, Listener)>, String> {
    Ok(sockets(&StateFlags::LISTEN)?.iter().map(listener).collect())
}

/// Half-open requests.
pub(super) fn requests() -> Result<Vec<Request>, String> {
    Ok(sockets(&StateFlags::SYN_RECV)?.iter().map(request).collect())
}

/// Connections of this host's own that wait for a SYN-ACK. The kernel picks them: a proxy has many others.
pub(super) fn connecting() -> Result<Vec<Connecting>, String> {
    let ends = |socket: &InetResponse| {
        let id = &socket.header.socket_id;
        Connecting {
            local: SocketAddr::new(id.source_address.to_canonical(), id.source_port),
            remote: SocketAddr::new(id.destination_address.to_canonical(), id.destination_port),
        }
    };
    Ok(sockets(&StateFlags::SYN_SENT)?.iter().map(ends).collect())
}

/// The TCP sockets of the calling thread's network namespace in one of these states.
fn sockets(states: &StateFlags) -> Result<Vec<InetResponse>, String> {
    let mut found = Vec::new();
    for (family, socket_id) in [(libc::AF_INET, SocketId::new_v4()), (libc::AF_INET6, SocketId::new_v6())] {
        let request = InetRequest {
            family: family as u8,
            protocol: libc::IPPROTO_TCP as u8,
            extensions: ExtensionFlags::empty(),
            states: states.clone(),
            socket_id,
        };
        let mut bytes = vec![0; request.buffer_len()];
        request.emit(&mut bytes);
        let messages = match dump(NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, &bytes) {
            Ok(messages) => messages,
            Err(failure) => return Err(refused(&failure)),
        };
        let whole = messages.iter().filter(|message| message.kind == SOCK_DIAG_BY_FAMILY);
        found.extend(whole.filter_map(|message| decode(&message.payload)));
    }
    Ok(found)
}

fn refused(failure: &Failure) -> String {
    let hint = match failure {
        Failure::Errno(libc::ENOENT) => " (the kernel lacks the module tcp_diag)",
        _ => "",
    };
    format!("cannot list the TCP sockets over sock_diag: {failure}{hint}")
}

fn decode(payload: &[u8]) -> Option<InetResponse> {
    InetResponse::parse(payload).ok()
}

fn listener(socket: &InetResponse) -> (u64, Listener) {
    let header = &socket.header;
    let v6_only = socket.nlas.iter().find_map(|attribute| match attribute {
        Nla::SkV6Only(only) => Some(*only),
        _ => None,
    });
    let detail = Detail {
        device: device(&header.socket_id),
        queue: header.recv_queue,
        backlog: header.send_queue,
        v6_only,
        uid: header.uid,
    };
    let id = &header.socket_id;
    let listener = Listener { detail: Some(detail), ..Listener::new(id.source_address, id.source_port) };
    (u64::from(header.inode), listener)
}

fn request(socket: &InetResponse) -> Request {
    let id = &socket.header.socket_id;
    Request {
        local: SocketAddr::new(id.source_address.to_canonical(), id.source_port),
        remote: SocketAddr::new(id.destination_address.to_canonical(), id.destination_port),
        device: device(id),
        resent: match socket.header.timer {
            Some(Timer::Retransmit(_, times)) => times,
            _ => 0,
        },
    }
}

fn device(id: &SocketId) -> Option<u32> {
    Some(id.interface_id).filter(|index| *index != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `inet_diag_msg` (linux/inet_diag.h) and an attribute.
    fn message() -> Vec<u8> {
        let mut bytes = vec![0; 72];
        bytes[0] = libc::AF_INET6 as u8;
        bytes[1] = 3;
        bytes[2] = 1;
        bytes[3] = 2;
        bytes[4..6].copy_from_slice(&8008u16.to_be_bytes());
        bytes[6..8].copy_from_slice(&50000u16.to_be_bytes());
        bytes[18..24].copy_from_slice(&[0xff, 0xff, 10, 4, 3, 101]);
        bytes[34..40].copy_from_slice(&[0xff, 0xff, 168, 63, 129, 16]);
        bytes[40..44].copy_from_slice(&3u32.to_ne_bytes());
        bytes[56..60].copy_from_slice(&6u32.to_ne_bytes());
        bytes[60..64].copy_from_slice(&5u32.to_ne_bytes());
        bytes[68..72].copy_from_slice(&77u32.to_ne_bytes());
        bytes.extend([5, 0, 11, 0, 1, 0, 0, 0]);
        bytes
    }

    #[test]
    fn one_message_tells_all() {
        let socket = decode(&message()).unwrap();
        let (inode, found) = listener(&socket);
        let detail = Detail { device: Some(3), queue: 6, backlog: 5, v6_only: Some(true), uid: 0 };
        assert_eq!((inode, found.port, found.detail), (77, 8008, Some(detail)));
        let half_open = request(&socket);
        assert_eq!(half_open.local, "10.4.3.101:8008".parse().unwrap());
        assert_eq!(half_open.remote, "168.63.129.16:50000".parse().unwrap());
        assert_eq!((half_open.device, half_open.resent), (Some(3), 2));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(0u8.., 0..200), at in 0usize..80, value: u8) {
            if let Some(socket) = decode(&bytes) {
                listener(&socket);
                request(&socket);
            }
            let mut changed = message();
            changed[at] = value;
            if let Some(socket) = decode(&changed) {
                listener(&socket);
                request(&socket);
            }
        }
    }
}
