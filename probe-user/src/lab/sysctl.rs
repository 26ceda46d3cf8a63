//! Network sysctls of a namespace.

use std::fs;

use super::{Error, Result, netns::Namespace};

/// Writes `net.<key>`, for example `ipv4/conf/eth1/rp_filter`; slashes, because NIC names may hold dots.
pub fn set(namespace: &Namespace, key: &str, value: &str) -> Result<()> {
    namespace.run(|| write(key, value))?
}

/// Several at once, in one visit.
pub fn set_all(namespace: &Namespace, settings: &[(&str, &str)]) -> Result<()> {
    namespace.run(|| settings.iter().try_for_each(|(key, value)| write(key, value)))?
}

/// Reads `net.<key>`.
pub fn get(namespace: &Namespace, key: &str) -> Result<String> {
    namespace.run(|| {
        fs::read_to_string(path(key))
            .map(|text| text.trim().to_owned())
            .map_err(|e| Error::system(format!("read {}", path(key)), e))
    })?
}

/// /proc/sys/net shows the namespace of the thread that opens it.
fn path(key: &str) -> String {
    format!("/proc/sys/net/{key}")
}

pub(super) fn write(key: &str, value: &str) -> Result<()> {
    fs::write(path(key), value).map_err(|e| Error::system(format!("write {value} to {}", path(key)), e))
}
