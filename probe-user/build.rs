//! Embeds the BPF object, or an empty stub where there is none: `cargo check`, clippy and the unit tests of the
//! pure modules need no BPF toolchain.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

fn main() {
    println!("cargo::rerun-if-env-changed=NVAPROBE_BPF_OBJECT");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let object = env::var_os("NVAPROBE_BPF_OBJECT").map_or_else(|| built(&out), PathBuf::from);
    // A path that does not exist makes cargo run this again at every build; so watch the folder above until it does.
    println!("cargo::rerun-if-changed={}", watched(&object).display());
    let bytes = fs::read(&object).unwrap_or_default();
    fs::write(out.join("nvaprobe.bpf.o"), bytes).expect("OUT_DIR is writable");
}

/// Where `cargo xtask build` puts the object: `bpf/` in cargo's target folder, which is the folder above the
/// profile's: `<target>[/<triple>]/<profile>/build/<package>/out`.
fn built(out: &Path) -> PathBuf {
    let above = |levels| out.ancestors().nth(levels).unwrap_or(Path::new("."));
    let candidates = [above(4).join("bpf/nvaprobe.bpf.o"), above(5).join("bpf/nvaprobe.bpf.o")];
    candidates.iter().find(|path| path.exists()).unwrap_or(&candidates[0]).clone()
}

fn watched(object: &Path) -> PathBuf {
    object.ancestors().find(|path| path.exists()).unwrap_or(Path::new(".")).to_path_buf()
}
