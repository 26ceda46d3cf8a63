//! The tracepoint of dropped packets: what its program must know of this kernel, and what the reasons are called.

use std::{
    collections::BTreeMap,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use aya::programs::raw_trace_point::RawTracePointLink;
pub use probe_common::drops::{Dropped, Layout, Way};
use thiserror::Error;

use super::{
    attach::root_cause,
    btf::{Argument, BtfError, KernelTypes},
    load::{LoadError, Loaded},
};

/// Where a kernel with CONFIG_DEBUG_INFO_BTF describes itself.
pub const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";
const TRACEPOINT: &str = "kfree_skb";
const REASONS: &str = "skb_drop_reason";
/// Reasons of subsystems, numbered beyond the kernel's own (include/net/dropreason.h); known here when built in.
const SUBSYSTEM_REASONS: [&str; 2] = ["mac80211_drop_reason", "ovs_drop_reason"];

/// Whether to watch for dropped packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DropReasons {
    #[default]
    On,
    /// With the kernel's types read from elsewhere.
    Types(PathBuf),
    Off,
}

/// Why drops and their reasons are not seen; everything else is.
#[derive(Debug, Error)]
pub enum Unavailable {
    #[error(
        "the kernel's reasons for dropping packets are not seen: {0}; a kernel with CONFIG_DEBUG_INFO_BTF describes itself in {KERNEL_BTF}"
    )]
    NoTypes(BtfError),
    #[error(
        "the kernel's reasons for dropping packets are not seen: this kernel gives none at its tracepoint {TRACEPOINT} (Linux 5.17 on)"
    )]
    NoReasons,
    #[error(
        "the kernel's reasons for dropping packets are not seen: this kernel is not known well enough: {0}"
    )]
    Unknown(BtfError),
    #[error("the kernel's reasons for dropping packets are not seen: it refused the program for them: {0}")]
    Refused(String),
}

impl Unavailable {
    /// Code of the observer's reason.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoTypes(_) => "no-btf",
            Self::NoReasons | Self::Unknown(_) => "no-drop-reasons",
            Self::Refused(_) => "drop-reasons-refused",
        }
    }
}

/// What this kernel calls its reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasons(BTreeMap<u32, String>);

impl Reasons {
    fn read(types: &KernelTypes) -> Result<Self, BtfError> {
        let mut names = BTreeMap::new();
        for list in SUBSYSTEM_REASONS.iter().chain([&REASONS]) {
            for (number, name) in types.constants(list)? {
                let short = ["SKB_DROP_REASON_", "SKB_"].iter().find_map(|prefix| name.strip_prefix(prefix));
                let short = short.unwrap_or(&name);
                // The end of the list, and the bits of the subsystem: no reasons.
                if !matches!(short, "MAX" | "SUBSYS_MASK") {
                    names.insert(number, short.to_owned());
                }
            }
        }
        Ok(Self(names))
    }

    /// The kernel's name without its prefix, such as `NETFILTER_DROP`; `None` for a number that it has no name for.
    pub fn name(&self, reason: u32) -> Option<&str> {
        self.0.get(&reason).map(String::as_str)
    }

    /// The name, or the bare number.
    pub fn text(&self, reason: u32) -> String {
        self.name(reason).map_or_else(|| format!("reason {reason}"), str::to_owned)
    }
}

/// A kernel understood.
#[derive(Debug)]
pub struct Understood {
    pub layout: Layout,
    pub reasons: Reasons,
}

/// Finds out what the program must know, for the calling thread's network namespace.
pub fn understand(types: &Path) -> Result<Understood, Unavailable> {
    let types = KernelTypes::read(types).map_err(Unavailable::NoTypes)?;
    let arguments = match types.tracepoint(TRACEPOINT) {
        Ok(arguments) => arguments,
        Err(BtfError::Missing(_)) => return Err(Unavailable::NoReasons),
        Err(error) => return Err(Unavailable::NoTypes(error)),
    };
    // skb, location, reason, and from 6.11 on the receiving socket.
    if arguments.get(2) != Some(&Argument::Enum(REASONS.to_owned())) {
        return Err(Unavailable::NoReasons);
    }
    let receiver = arguments.get(3) == Some(&Argument::Pointer("sock".to_owned()));
    let mut layout = layout(&types).map_err(Unavailable::Unknown)?;
    layout.receiver = u32::from(receiver);
    layout.namespace = namespace()?;
    let reasons = Reasons::read(&types).map_err(Unavailable::NoTypes)?;
    Ok(Understood { layout, reasons })
}

fn layout(types: &KernelTypes) -> Result<Layout, BtfError> {
    let pointer = |path| types.offset(path, 8);
    let word = |path| types.offset(path, 4);
    let half = |path| types.offset(path, 2);
    let protocol = half("sk_buff.protocol")?;
    let network = half("sk_buff.network_header")?;
    // Side by side in every kernel so far, and read together.
    let skb_network_shift = match network.checked_sub(protocol) {
        Some(apart @ 2..=6) => apart * 8,
        _ => {
            return Err(BtfError::Unexpected {
                name: "sk_buff.network_header".to_owned(),
                found: format!("at {network}, protocol at {protocol}"),
            });
        }
    };
    Ok(Layout {
        skb_head: pointer("sk_buff.head")?,
        skb_data: pointer("sk_buff.data")?,
        skb_len: word("sk_buff.len")?,
        skb_data_len: word("sk_buff.data_len")?,
        skb_protocol: protocol,
        skb_network_shift,
        skb_dev: pointer("sk_buff.dev")?,
        skb_iif: word("sk_buff.skb_iif")?,
        skb_sk: pointer("sk_buff.sk")?,
        skb_refdst: pointer("sk_buff._skb_refdst")?,
        device_ifindex: word("net_device.ifindex")?,
        device_net: pointer("net_device.nd_net.net")?,
        sock_net: pointer("sock.__sk_common.skc_net.net")?,
        dst_dev: pointer("dst_entry.dev")?,
        net_inum: word("net.ns.inum")?,
        ..Layout::EMPTY
    })
}

/// Inode of the calling thread's network namespace.
fn namespace() -> Result<u32, Unavailable> {
    let path = "/proc/thread-self/ns/net";
    let unknown = |error| Unavailable::Unknown(BtfError::Read { path: path.to_owned(), error });
    let inode = std::fs::metadata(path).map_err(unknown)?.ino();
    u32::try_from(inode).map_err(|error| unknown(std::io::Error::other(error)))
}

/// Attaches the program. Dropping the link detaches it, and so does the death of this process.
pub(super) fn attach(loaded: &mut Loaded) -> Result<RawTracePointLink, Unavailable> {
    let refused = |error: &dyn std::error::Error| Unavailable::Refused(root_cause(error));
    let program = loaded.tracepoint().map_err(|error| match &error {
        LoadError::Program { error, .. } => refused(error),
        other => refused(other),
    })?;
    let link = program.attach(TRACEPOINT).map_err(|error| refused(&error))?;
    program.take_link(link).map_err(|error| refused(&error))
}

/// What became of the wish to see drops.
#[derive(Debug)]
pub(super) enum Watching {
    Off,
    On {
        reasons: Reasons,
        #[expect(dead_code, reason = "held for its Drop")]
        link: RawTracePointLink,
    },
    Unavailable(Unavailable),
}

#[cfg(test)]
#[path = "drops_tests.rs"]
mod tests;
