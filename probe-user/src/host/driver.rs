//! Driver names, by ethtool's ioctl: /sys may show another namespace's devices.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 3;

/// `struct ethtool_drvinfo` (linux/ethtool.h).
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    /// version, fw_version, bus_info, erom_version, reserved2, four counts.
    rest: [u8; 32 * 4 + 12 + 4 * 5],
}

const _: () = assert!(size_of::<DriverInfo>() == 196);

/// `struct ifreq` as far as ethtool uses it.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    data: *mut DriverInfo,
    /// The union in `ifreq` is 24 bytes long.
    pad: [u8; 16],
}

/// Answers "which driver"; nothing when the socket cannot be had.
pub(super) struct Drivers(Option<OwnedFd>);

impl Drivers {
    /// Opens the socket in the current thread's network namespace.
    pub(super) fn open() -> Self {
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            tracing::debug!("no socket for ethtool: {}", io::Error::last_os_error());
            return Self(None);
        }
        // SAFETY: `fd` is a fresh descriptor that nobody else owns.
        Self(Some(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The driver behind a device; `None` when it has none or does not tell.
    pub(super) fn of(&self, device: &str) -> Option<String> {
        let socket = self.0.as_ref()?;
        if device.len() >= libc::IFNAMSIZ {
            return None;
        }
        let mut info =
            DriverInfo { command: ETHTOOL_GDRVINFO, driver: [0; 32], rest: [0; 32 * 4 + 12 + 4 * 5] };
        let mut request = Request { name: [0; libc::IFNAMSIZ], data: &raw mut info, pad: [0; 16] };
        request.name.get_mut(..device.len())?.copy_from_slice(device.as_bytes());
        // SAFETY: `request` is laid out as `struct ifreq` with a NUL-terminated name, and `data` points to a
        // whole `ethtool_drvinfo` that outlives the call; the kernel writes no more than that.
        let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
        if result != 0 {
            return None;
        }
        let name = info.driver.split(|byte| *byte == 0).next().unwrap_or_default();
        (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
    }
}
