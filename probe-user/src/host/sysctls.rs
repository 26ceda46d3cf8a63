//! Settings under net/ that decide what becomes of a probe.
//!
//! Files under /proc/sys/net are those of the reading thread's namespace (net/sysctl_net.c). What a file does not
//! say is `None`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// `net.ipv4.conf.*` of one device, or of `all` or `default`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceSysctls {
    pub rp_filter: Option<u8>,
    pub src_valid_mark: Option<bool>,
    pub accept_local: Option<bool>,
    pub arp_ignore: Option<u8>,
    pub arp_filter: Option<bool>,
    pub arp_announce: Option<u8>,
    pub forwarding: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sysctls {
    pub all: DeviceSysctls,
    pub default: DeviceSysctls,
    /// By the name of the device.
    pub devices: BTreeMap<String, DeviceSysctls>,
    /// `net.ipv4.ip_forward`.
    pub v4_forwarding: Option<bool>,
    /// `net.ipv6.conf.all.forwarding`.
    pub v6_forwarding: Option<bool>,
    pub tcp_l3mdev_accept: Option<bool>,
    pub tcp_timestamps: Option<u8>,
    /// 0 off, 1 when the queue of requests is full, 2 always.
    pub tcp_syncookies: Option<u8>,
    pub tcp_abort_on_overflow: Option<bool>,
    pub tcp_fwmark_accept: Option<bool>,
    /// RST and ICMP answers carry the mark of the packet that they answer.
    pub fwmark_reflect: Option<bool>,
    pub v4_nonlocal_bind: Option<bool>,
    pub v6_nonlocal_bind: Option<bool>,
    /// Upper bound of every listener's backlog.
    pub somaxconn: Option<u32>,
}

impl Sysctls {
    /// What the kernel goes by: the larger of `all` and the device (linux/inetdevice.h, `IN_DEV_RPFILTER`).
    /// 0 off, 1 strict, 2 loose.
    pub fn rp_filter(&self, device: &str) -> Option<u8> {
        Some(self.all.rp_filter?.max(self.devices.get(device)?.rp_filter?))
    }

    /// Whether the reverse look-up takes the packet's mark along: `all` or the device (`IN_DEV_SRC_VALID_MARK`).
    pub fn src_valid_mark(&self, device: &str) -> Option<bool> {
        self.either(device, |sysctls| sysctls.src_valid_mark)
    }

    /// Whether packets with a source address of this host's own may come in: `all` or the device.
    pub fn accept_local(&self, device: &str) -> Option<bool> {
        self.either(device, |sysctls| sysctls.accept_local)
    }

    /// Whether ARP is answered only where the route to the asker leads: `all` or the device.
    pub fn arp_filter(&self, device: &str) -> Option<bool> {
        self.either(device, |sysctls| sysctls.arp_filter)
    }

    /// The larger of `all` and the device (`IN_DEV_ARP_IGNORE`).
    pub fn arp_ignore(&self, device: &str) -> Option<u8> {
        Some(self.all.arp_ignore?.max(self.devices.get(device)?.arp_ignore?))
    }

    fn either(&self, device: &str, of: impl Fn(&DeviceSysctls) -> Option<bool>) -> Option<bool> {
        match (of(&self.all), self.devices.get(device).and_then(of)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        }
    }

    /// Reads them from the calling thread's network namespace.
    pub(super) fn read() -> Result<Self, String> {
        Self::from_folder(Path::new("/proc/sys/net"))
    }

    fn from_folder(net: &Path) -> Result<Self, String> {
        let folder = net.join("ipv4/conf");
        let entries =
            fs::read_dir(&folder).map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
        let devices = entries
            .flatten()
            .filter_map(|entry| Some((entry.file_name().into_string().ok()?, device(&entry.path()))));
        let mut devices: BTreeMap<_, _> = devices.collect();
        let (v4, v6) = (net.join("ipv4"), net.join("ipv6"));
        Ok(Self {
            all: devices.remove("all").unwrap_or_default(),
            default: devices.remove("default").unwrap_or_default(),
            devices,
            v4_forwarding: flag(v4.join("ip_forward")),
            v6_forwarding: flag(v6.join("conf/all/forwarding")),
            tcp_l3mdev_accept: flag(v4.join("tcp_l3mdev_accept")),
            tcp_timestamps: number(v4.join("tcp_timestamps")),
            tcp_syncookies: number(v4.join("tcp_syncookies")),
            tcp_abort_on_overflow: flag(v4.join("tcp_abort_on_overflow")),
            tcp_fwmark_accept: flag(v4.join("tcp_fwmark_accept")),
            fwmark_reflect: flag(v4.join("fwmark_reflect")),
            v4_nonlocal_bind: flag(v4.join("ip_nonlocal_bind")),
            v6_nonlocal_bind: flag(v6.join("ip_nonlocal_bind")),
            somaxconn: number(net.join("core/somaxconn")),
        })
    }
}

fn device(folder: &Path) -> DeviceSysctls {
    DeviceSysctls {
        rp_filter: number(folder.join("rp_filter")),
        src_valid_mark: flag(folder.join("src_valid_mark")),
        accept_local: flag(folder.join("accept_local")),
        arp_ignore: number(folder.join("arp_ignore")),
        arp_filter: flag(folder.join("arp_filter")),
        arp_announce: number(folder.join("arp_announce")),
        forwarding: flag(folder.join("forwarding")),
    }
}

fn number<T: std::str::FromStr>(file: PathBuf) -> Option<T> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn flag(file: PathBuf) -> Option<bool> {
    Some(number::<i64>(file)? != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_value_is_the_larger_and_unknown_stays_unknown() {
        let with = |rp_filter| DeviceSysctls { rp_filter, ..DeviceSysctls::default() };
        let devices = BTreeMap::from([("eth0".to_owned(), with(Some(1))), ("eth1".to_owned(), with(None))]);
        let sysctls = Sysctls { all: with(Some(0)), devices, ..Sysctls::default() };
        assert_eq!(sysctls.rp_filter("eth0"), Some(1));
        assert_eq!(sysctls.rp_filter("eth1"), None);
        assert_eq!(sysctls.rp_filter("eth9"), None);
        let sysctls = Sysctls { all: with(Some(2)), ..sysctls };
        assert_eq!(sysctls.rp_filter("eth0"), Some(2));
    }

    #[test]
    fn one_flag_that_is_set_suffices() {
        let with = |src_valid_mark| DeviceSysctls { src_valid_mark, ..DeviceSysctls::default() };
        let of = |all, device| {
            let devices = BTreeMap::from([("eth0".to_owned(), with(device))]);
            Sysctls { all: with(all), devices, ..Sysctls::default() }.src_valid_mark("eth0")
        };
        assert_eq!(of(Some(true), None), Some(true));
        assert_eq!(of(Some(false), Some(true)), Some(true));
        assert_eq!(of(Some(false), Some(false)), Some(false));
        assert_eq!(of(Some(false), None), None);
    }

    #[test]
    fn files_that_are_missing_or_odd_are_unknown() {
        let folder = tempfile::tempdir().unwrap();
        let put = |file: &str, text: &str| {
            let file = folder.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        put("ipv4/conf/all/rp_filter", "1\n");
        put("ipv4/conf/eth1.5/rp_filter", "0\n");
        put("ipv4/conf/eth1.5/accept_local", "rubbish\n");
        put("ipv4/tcp_timestamps", "300\n");
        put("ipv4/ip_forward", "1\n");
        let sysctls = Sysctls::from_folder(folder.path()).unwrap();
        assert_eq!(sysctls.rp_filter("eth1.5"), Some(1));
        assert_eq!(sysctls.accept_local("eth1.5"), None);
        assert_eq!((sysctls.tcp_timestamps, sysctls.v4_forwarding), (None, Some(true)));
        assert!(Sysctls::from_folder(&folder.path().join("nothing")).is_err());
    }
}
