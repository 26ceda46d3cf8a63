//! Offload switches of a device, by SIOCETHTOOL (include/uapi/linux/ethtool.h).

use std::{ffi::CString, mem, os::fd::AsRawFd};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use super::{Error, Result, netns::Namespace};

/// An offload that can be switched on and off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// Checksums are left to the receiver: on veth frames arrive with partial ones.
    TxChecksum,
    RxChecksum,
    ScatterGather,
    /// TCP segmentation.
    Tso,
    /// Generic segmentation.
    Gso,
    /// Generic receive coalescing; on veth it also switches NAPI on.
    Gro,
}

impl Offload {
    /// ETHTOOL_G… and ETHTOOL_S… numbers.
    const fn commands(self) -> (u32, u32) {
        match self {
            Self::RxChecksum => (0x14, 0x15),
            Self::TxChecksum => (0x16, 0x17),
            Self::ScatterGather => (0x18, 0x19),
            Self::Tso => (0x1e, 0x1f),
            Self::Gso => (0x23, 0x24),
            Self::Gro => (0x2b, 0x2c),
        }
    }
}

/// struct ethtool_value
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Switches an offload of a device in the namespace.
pub fn set(namespace: &Namespace, device: &str, offload: Offload, on: bool) -> Result<()> {
    let mut value = Value { command: offload.commands().1, data: u32::from(on) };
    namespace.run(|| ioctl(device, &mut value, &format!("switch {offload:?} {on} on {device}")))?
}

/// Whether an offload is on.
pub fn get(namespace: &Namespace, device: &str, offload: Offload) -> Result<bool> {
    let mut value = Value { command: offload.commands().0, data: 0 };
    namespace.run(|| ioctl(device, &mut value, &format!("read {offload:?} of {device}")))??;
    Ok(value.data != 0)
}

/// All segmentation and checksum offloads at once, in the order that their dependencies allow.
pub fn set_offloads(namespace: &Namespace, device: &str, on: bool) -> Result<()> {
    let order = [Offload::TxChecksum, Offload::ScatterGather, Offload::Tso, Offload::Gso, Offload::Gro];
    let mut order = order.to_vec();
    if !on {
        order.reverse();
    }
    order.into_iter().try_for_each(|offload| set(namespace, device, offload, on))
}

fn ioctl(device: &str, value: &mut Value, what: &str) -> Result<()> {
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)
        .map_err(|e| Error::system("open a control socket", e))?;
    let mut request = named(device)?;
    request.ifr_ifru.ifru_data = std::ptr::from_mut(value).cast();
    // SAFETY: SIOCETHTOOL takes an ifreq whose data points to the structure of the command in its first word;
    // all commands used here take `struct ethtool_value`, which outlives the call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    if done < 0 { Err(Error::last(what)) } else { Ok(()) }
}

/// A zeroed ifreq that names the device.
pub(super) fn named(device: &str) -> Result<libc::ifreq> {
    let name = CString::new(device).map_err(|_| Error::Invalid("a device name holds a NUL".to_owned()))?;
    let name = name.as_bytes_with_nul();
    // SAFETY: ifreq is plain data; all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    if name.len() > request.ifr_name.len() {
        return Err(Error::Invalid(format!("device name '{device}' is longer than 15 bytes")));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    Ok(request)
}
