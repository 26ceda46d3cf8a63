//! A raw socket on one device.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

use nix::net::if_::if_nametoindex;

use super::{Error, Result};

/// Room for the largest GSO packet: with offloads on, veth delivers them whole.
const LARGEST: usize = 66_000;

pub(super) struct PacketSocket {
    fd: OwnedFd,
    buffer: Vec<u8>,
}

impl PacketSocket {
    /// Opens it on a device of the calling thread's namespace. Reads and writes do not block.
    pub(super) fn open(device: &str) -> Result<Self> {
        let index = if_nametoindex(device).map_err(|e| Error::system(format!("find device {device}"), e))?;
        let all = (libc::ETH_P_ALL as u16).to_be();
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: a plain system call without pointers.
        let raw = unsafe { libc::socket(libc::AF_PACKET, kind, i32::from(all)) };
        if raw < 0 {
            return Err(Error::last("open a raw socket"));
        }
        // SAFETY: the descriptor is new and nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        // SAFETY: an all-zero sockaddr_ll is valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = all;
        address.sll_ifindex = index as i32;
        // SAFETY: the address is a filled sockaddr_ll of the length given, and outlives the call.
        let bound = unsafe {
            libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as libc::socklen_t)
        };
        if bound < 0 {
            return Err(Error::last(format!("bind a raw socket to {device}")));
        }
        Ok(Self { fd, buffer: vec![0; LARGEST] })
    }

    /// The next frame that came in; `None` when there is none.
    pub(super) fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            // SAFETY: an all-zero sockaddr_ll is valid.
            let mut from: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
            let mut length = size_of_val(&from) as libc::socklen_t;
            // SAFETY: the buffer and the address are valid for writes of the lengths given.
            let got = unsafe {
                libc::recvfrom(
                    self.fd.as_raw_fd(),
                    self.buffer.as_mut_ptr().cast(),
                    self.buffer.len(),
                    0,
                    (&raw mut from).cast(),
                    &raw mut length,
                )
            };
            if got < 0 {
                let error = io::Error::last_os_error();
                return match error.kind() {
                    io::ErrorKind::WouldBlock => Ok(None),
                    io::ErrorKind::Interrupted => continue,
                    _ => Err(error),
                };
            }
            // Our own frames come back as outgoing ones.
            if from.sll_pkttype != libc::PACKET_OUTGOING {
                return Ok(Some(&self.buffer[..got as usize]));
            }
        }
    }

    pub(super) fn send(&self, frame: &[u8]) -> io::Result<()> {
        nix::unistd::write(&self.fd, frame)?;
        Ok(())
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
