//! Finding and installing bpf-linker.
//!
//! It must read the bitcode that rustc writes, so its LLVM may be newer than rustc's but not older.

use std::{
    env,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::{
    debian,
    workspace::{self, Workspace, in_path, is_executable, run},
};

pub(crate) const VERSION: &str = "0.13.0";

/// Our own copy if there is one, else the one in PATH, if it suits a rustc with this LLVM.
pub(crate) fn find(workspace: &Workspace, llvm: u32) -> Option<PathBuf> {
    let own = root(workspace, llvm).join("bin/bpf-linker");
    [Some(own), in_path("bpf-linker")].into_iter().flatten().find(|path| suits(path, llvm))
}

fn suits(path: &Path, llvm: u32) -> bool {
    // Running it proves that its shared libraries are there, too.
    is_executable(path)
        && workspace::stdout(Command::new(path).arg("--version")).is_ok_and(|said| is_right_version(&said))
        && linked_llvm(path).is_none_or(|linked| linked >= llvm)
}

fn is_right_version(said: &str) -> bool {
    said.split_whitespace().last() == Some(VERSION)
}

/// Major version of the libLLVM that a dynamically linked bpf-linker loads.
fn linked_llvm(path: &Path) -> Option<u32> {
    // The names of needed libraries stand near the front of an executable.
    let mut head = Vec::new();
    File::open(path).ok()?.take(1 << 20).read_to_end(&mut head).ok()?;
    llvm_named_in(&head)
}

fn llvm_named_in(bytes: &[u8]) -> Option<u32> {
    const NAME: &[u8] = b"libLLVM";
    let at = bytes.windows(NAME.len()).position(|window| window == NAME)? + NAME.len();
    // libLLVM.so.22.1 since LLVM 18, libLLVM-17.so before.
    let rest = &bytes[at..];
    let rest = rest.strip_prefix(b".so.").or_else(|| rest.strip_prefix(b"-"))?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}

/// Where our copy lives: in the user's cache, so that `cargo clean` spares it and clones share it, and
/// outside `~/.cargo/bin`, where it would displace another version.
fn root(workspace: &Workspace, llvm: u32) -> PathBuf {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map_or_else(|| workspace.target.join("tools"), |cache| cache.join("nvaprobe"))
        .join(format!("bpf-linker-{VERSION}-llvm-{llvm}"))
}

/// Builds bpf-linker against Debian's LLVM.
pub(crate) fn install(workspace: &Workspace, llvm: u32) -> Result<()> {
    let root = root(workspace, llvm);
    let scratch = workspace.target.join("bpf-linker-build");
    eprintln!(
        "setup: building bpf-linker {VERSION} for LLVM {llvm} into {} (a minute or so)",
        root.display()
    );

    let bin = debian::llvm_folder(llvm).join("bin");
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths(std::iter::once(bin).chain(env::split_paths(&path)))
        .context("PATH has a folder with a colon in its name")?;
    let mut cargo = workspace.cargo();
    cargo
        .args(install_arguments(llvm))
        .arg("--root")
        .arg(&root)
        .arg("--target-dir")
        .arg(&scratch)
        .env("PATH", path)
        .env(format!("LLVM_SYS_{llvm}1_PREFIX"), debian::llvm_folder(llvm));
    run(&mut cargo)?;
    std::fs::remove_dir_all(&scratch).with_context(|| format!("cannot remove {}", scratch.display()))
}

fn install_arguments(llvm: u32) -> Vec<String> {
    [
        "install",
        "--quiet",
        "bpf-linker",
        "--version",
        VERSION,
        "--locked",
        "--no-default-features",
        "--features",
    ]
    .into_iter()
    .map(str::to_owned)
    .chain([format!("llvm-{llvm}")])
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_known_version_is_taken() {
        assert!(is_right_version("bpf-linker 0.13.0\n"));
        assert!(!is_right_version("bpf-linker 0.9.15\n"));
        assert!(!is_right_version(""));
    }

    #[test]
    fn the_linked_llvm_is_read_from_the_needed_libraries() {
        assert_eq!(llvm_named_in(b"\x7fELF..\0libLLVM.so.22.1\0libgcc_s.so.1\0"), Some(22));
        assert_eq!(llvm_named_in(b"\0libLLVM-17.so\0"), Some(17));
        assert_eq!(llvm_named_in(b"\0libLLVMSupport.a\0"), None);
        assert_eq!(llvm_named_in(b"\x7fELF static"), None);
    }

    #[test]
    fn the_feature_follows_the_llvm() {
        let arguments = install_arguments(23).join(" ");
        assert!(arguments.ends_with("--no-default-features --features llvm-23"), "{arguments}");
        assert!(arguments.contains("--version 0.13.0"), "{arguments}");
    }
}
