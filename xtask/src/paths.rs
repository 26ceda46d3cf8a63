//! Where things are.

use std::path::{Path, PathBuf};

/// The workspace.
pub(crate) fn workspace() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_path_buf()
}

/// Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// Tools that setup builds; removed with the target folder, and nothing of the user's is touched.
pub(crate) fn tools() -> PathBuf {
    target().join("tools")
}

/// Where `probe-user/build.rs` looks for the BPF object.
pub(crate) fn object() -> PathBuf {
    target().join("bpf/nvaprobe.bpf.o")
}
