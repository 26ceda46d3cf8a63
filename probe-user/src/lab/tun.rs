//! TUN devices: L3 devices without an Ethernet header, to stand for tunnels.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    os::fd::AsRawFd,
};

use super::{Error, Result, ethtool::named, netns::Namespace};

/// A TUN device; it disappears when this is dropped.
#[derive(Debug)]
pub struct Tun {
    name: String,
    file: File,
}

impl Tun {
    /// Makes `name` in the namespace, down and without addresses.
    pub fn new(namespace: &Namespace, name: &str) -> Result<Self> {
        let file = namespace.run(|| {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .open("/dev/net/tun")
                .map_err(|e| Error::system("open /dev/net/tun", e))?;
            let mut request = named(name)?;
            request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
            // SAFETY: TUNSETIFF reads and writes the ifreq, which outlives the call.
            let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
            if done < 0 { Err(Error::last(format!("make TUN device {name}"))) } else { Ok(file) }
        })??;
        Ok(Self { name: name.to_owned(), file })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for an IP packet that the stack sends into the device.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<usize> {
        (&self.file).read(buffer).map_err(|e| Error::system(format!("read from {}", self.name), e))
    }

    /// Gives an IP packet to the stack, as if the device had received it.
    pub fn send(&self, packet: &[u8]) -> Result<()> {
        (&self.file).write_all(packet).map_err(|e| Error::system(format!("write to {}", self.name), e))
    }
}
