//! What can go wrong while building or driving a laboratory.

use std::io;

/// A laboratory operation that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused something.
    #[error("lab: cannot {what}: {source}{}", hint(.source))]
    System { what: String, source: io::Error },
    /// A closure run in a namespace panicked; the panic ended there.
    #[error("lab: the work run in network namespace '{namespace}' panicked: {message}")]
    Panicked { namespace: String, message: String },
    /// A netlink exchange that failed without an error number.
    #[error("lab: cannot {what}: {reason}")]
    Netlink { what: String, reason: String },
    /// The caller asked for something that makes no sense.
    #[error("lab: {0}")]
    Invalid(String),
}

impl Error {
    pub(super) fn system(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::System { what: what.into(), source: source.into() }
    }

    /// The last libc error of this thread.
    pub(super) fn last(what: impl Into<String>) -> Self {
        Self::system(what, io::Error::last_os_error())
    }

    pub(super) fn netlink(what: impl Into<String>, source: &rtnetlink::Error) -> Self {
        let what = what.into();
        match source {
            rtnetlink::Error::NetlinkError(message) => Self::System { what, source: message.to_io() },
            other => Self::Netlink { what, reason: other.to_string() },
        }
    }

    /// The kernel's error number, if it gave one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::System { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}

/// The usual remedy, where there is one.
fn hint(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            " (namespaces and raw sockets need root, or CAP_SYS_ADMIN, CAP_NET_ADMIN and CAP_NET_RAW)"
        }
        Some(libc::EOPNOTSUPP) => " (this kernel was built without that device or feature)",
        _ => "",
    }
}
