//! Finding a rustc that can compile for BPF.
//!
//! In this order, the first that qualifies:
//!
//! 1. `/usr/bin/rustc` with a prebuilt `core` for the BPF target (Debian's rustc-web with libstd-rust-web-dev-bpf);
//! 2. the active rustc with such a `core`;
//! 3. the active rustc with `rust-src`, `core` being built by cargo;
//! 4. rustup's nightly with `rust-src`, likewise.
//!
//! Unstable features are switched on with RUSTC_BOOTSTRAP, so a stable compiler serves as well as a nightly.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use crate::workspace::{self, in_path};

/// The BPF target of this machine's byte order.
pub(crate) const TARGET: &str =
    if cfg!(target_endian = "big") { "bpfeb-unknown-none" } else { "bpfel-unknown-none" };

const DEBIAN: &str = "/usr/bin/rustc";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rustc {
    pub(crate) path: PathBuf,
    /// Release, for example `1.96.0`.
    pub(crate) release: String,
    /// Major version of the LLVM whose bitcode it writes.
    pub(crate) llvm: u32,
    pub(crate) core: Core,
}

/// Where `core` for the BPF target comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Core {
    Prebuilt,
    /// Cargo compiles it from `rust-src`.
    Source,
}

impl Rustc {
    /// The clippy that came with it: no other reads its `core`.
    pub(crate) fn clippy(&self) -> Option<PathBuf> {
        Some(self.path.with_file_name("cargo-clippy")).filter(|clippy| workspace::is_executable(clippy))
    }

    pub(crate) fn is_debian(&self) -> bool {
        self.path == Path::new(DEBIAN)
    }
}

/// The first rustc that can compile for BPF, in the order above.
pub(crate) fn find() -> Option<Rustc> {
    let active = env::var_os("RUSTC").map(PathBuf::from).or_else(|| in_path("rustc"));
    ask(Path::new(DEBIAN), Some(Core::Prebuilt))
        .or_else(|| ask(active.as_deref()?, None))
        .or_else(|| ask(&nightly()?, Some(Core::Source)))
}

/// Asks a rustc what it is; `None` when it is not there or cannot compile for BPF (the wanted way).
fn ask(path: &Path, wanted: Option<Core>) -> Option<Rustc> {
    let sysroot = workspace::stdout(Command::new(path).args(["--print", "sysroot"])).ok()?;
    let sysroot = Path::new(sysroot.trim());
    let core = core_of(sysroot).filter(|core| wanted.is_none_or(|wanted| wanted == *core))?;
    let (release, llvm) = version(&workspace::stdout(Command::new(path).arg("-vV")).ok()?)?;
    // rustup's proxy would pick a toolchain by folder; the compiler behind it does not.
    let behind = sysroot.join("bin/rustc");
    let path = if workspace::is_executable(&behind) { behind } else { path.to_path_buf() };
    Some(Rustc { path, release, llvm, core })
}

fn core_of(sysroot: &Path) -> Option<Core> {
    let rustlib = sysroot.join("lib/rustlib");
    if rustlib.join(TARGET).join("lib").is_dir() {
        return Some(Core::Prebuilt);
    }
    rustlib.join("src/rust/library/core").is_dir().then_some(Core::Source)
}

fn nightly() -> Option<PathBuf> {
    let mut which = Command::new(in_path("rustup")?);
    let path = workspace::stdout(which.args(["which", "--toolchain", "nightly", "rustc"])).ok()?;
    Some(PathBuf::from(path.trim()))
}

/// Release and LLVM major version of `rustc -vV`.
fn version(text: &str) -> Option<(String, u32)> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let llvm = field("LLVM version:")?.split('.').next()?.parse().ok()?;
    Some((field("release:")?.to_owned(), llvm))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    /// A rustc that answers as a real one would, in a sysroot of its own.
    fn fake(folders: &[&str]) -> (TempDir, PathBuf) {
        use std::os::unix::fs::PermissionsExt as _;
        let home = TempDir::new().unwrap();
        let sysroot = home.path().join("sysroot");
        fs::create_dir(&sysroot).unwrap();
        for folder in folders {
            fs::create_dir_all(sysroot.join("lib/rustlib").join(folder)).unwrap();
        }
        let path = home.path().join("rustc");
        let script = format!(
            "#!/bin/sh\nif [ \"$1\" = -vV ]; then printf 'rustc\\nrelease: 1.96.0\\nLLVM version: 22.1.8\\n'; \
             else echo '{}'; fi\n",
            sysroot.display()
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        (home, path)
    }

    #[test]
    fn a_prebuilt_core_is_preferred_to_its_source() {
        let (_home, path) = fake(&[&format!("{TARGET}/lib"), "src/rust/library/core"]);
        let rustc = ask(&path, None).unwrap();
        assert_eq!(rustc, Rustc { path, release: "1.96.0".into(), llvm: 22, core: Core::Prebuilt });
    }

    #[test]
    fn rust_src_is_enough_where_no_prebuilt_core_is_demanded() {
        let (_home, path) = fake(&["src/rust/library/core"]);
        assert_eq!(ask(&path, None).map(|rustc| rustc.core), Some(Core::Source));
        assert_eq!(ask(&path, Some(Core::Prebuilt)), None);
    }

    #[test]
    fn an_ordinary_rustc_and_a_missing_one_do_not_qualify() {
        let (home, path) = fake(&["x86_64-unknown-linux-gnu/lib"]);
        assert_eq!(ask(&path, None), None);
        assert_eq!(ask(&home.path().join("absent"), None), None);
    }

    #[test]
    fn the_compiler_behind_a_proxy_is_used() {
        use std::os::unix::fs::symlink;
        let (home, path) = fake(&[&format!("{TARGET}/lib")]);
        let bin = home.path().join("sysroot/bin");
        fs::create_dir(&bin).unwrap();
        symlink(&path, bin.join("rustc")).unwrap();
        assert_eq!(ask(&path, None).map(|rustc| rustc.path), Some(bin.join("rustc")));
    }

    #[test]
    fn versions_are_read_and_nonsense_is_not() {
        assert_eq!(
            version("release: 1.97.0-nightly\nLLVM version: 23.0"),
            Some(("1.97.0-nightly".into(), 23))
        );
        assert_eq!(version("release: 1.40.0\n"), None);
        assert_eq!(version("LLVM version: none\nrelease: 1.0"), None);
    }
}
