//! The BPF toolchain: a rustc that knows `bpfel-unknown-none`, and a bpf-linker that reads the LLVM it writes.
//!
//! Looked for in this order: Debian's `rustc-web` with its prebuilt BPF `core`; the default rustc with a prebuilt
//! `core` in its sysroot; a rustup nightly with `rust-src`, which builds `core` itself.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{paths, run};

pub(crate) const TARGET: &str = "bpfel-unknown-none";
pub(crate) const LINKER_VERSION: &str = "0.13.0";

/// How the BPF side is compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Compiler {
    /// A stable rustc with a prebuilt `core`.
    Prebuilt(PathBuf),
    /// A rustup nightly with `rust-src`.
    Nightly,
}

/// Everything that building the BPF object needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Toolchain {
    pub(crate) compiler: Compiler,
    pub(crate) linker: PathBuf,
}

/// What is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) compiler: bool,
    pub(crate) linker: bool,
}

/// Looks for both parts.
pub(crate) fn find() -> Result<Toolchain, Missing> {
    match (compiler(), linker()) {
        (Some(compiler), Some(linker)) => Ok(Toolchain { compiler, linker }),
        (compiler, linker) => Err(Missing { compiler: compiler.is_none(), linker: linker.is_none() }),
    }
}

fn compiler() -> Option<Compiler> {
    for rustc in ["/usr/bin/rustc", "rustc"] {
        if sysroot_has(Path::new(rustc), TARGET) {
            return Some(Compiler::Prebuilt(PathBuf::from(rustc)));
        }
    }
    let sysroot = run::output(Command::new("rustc").args(["+nightly", "--print", "sysroot"]))?;
    Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/core").exists().then_some(Compiler::Nightly)
}

fn sysroot_has(rustc: &Path, target: &str) -> bool {
    run::output(Command::new(rustc).args(["--print", "sysroot"])).is_some_and(|sysroot| {
        Path::new(sysroot.trim()).join("lib/rustlib").join(target).join("lib").exists()
    })
}

fn linker() -> Option<PathBuf> {
    [paths::tools().join("bin/bpf-linker"), PathBuf::from("bpf-linker")].into_iter().find(|linker| {
        run::output(Command::new(linker).arg("--version")).is_some_and(|text| is_version(&text))
    })
}

fn is_version(text: &str) -> bool {
    text.split_whitespace().any(|word| word == LINKER_VERSION)
}

/// The rustc flags of the BPF side.
pub(crate) fn flags(linker: &Path, arch: &str) -> Vec<String> {
    vec![
        format!("-Clinker={}", linker.display()),
        "-Clink-arg=--btf".to_owned(),
        // BTF is made from debug information.
        "-Cdebuginfo=2".to_owned(),
        format!("--cfg=bpf_target_arch=\"{arch}\""),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_linker_that_reads_our_llvm_is_taken() {
        assert!(is_version("bpf-linker 0.13.0\n"));
        assert!(!is_version("bpf-linker 0.9.13"));
        assert!(!is_version(""));
    }

    #[test]
    fn the_flags_name_linker_and_architecture() {
        let flags = flags(Path::new("/x/bpf-linker"), "x86_64");
        assert_eq!(flags[0], "-Clinker=/x/bpf-linker");
        assert!(flags.contains(&"--cfg=bpf_target_arch=\"x86_64\"".to_owned()));
    }
}
