//! `cargo xtask build`: the BPF object, then the workspace that embeds it.

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, anyhow};

use crate::{
    linker,
    rustc::{self, Core, Rustc, TARGET},
    workspace::{Workspace, run},
};

/// The BPF crate's binary, and the name that probe-user's build script looks for.
const BINARY: &str = "nvaprobe-bpf";
const OBJECT: &str = "nvaprobe.bpf.o";

/// What cargo is asked for, whatever it does with it.
const TARGETED: [&str; 6] = ["--quiet", "--package", "probe-ebpf", "--release", "--target", TARGET];

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Build the programs with optimisations
    #[arg(long)]
    release: bool,
}

pub(crate) fn run_command(workspace: &Workspace, options: &Options) -> Result<()> {
    bpf(workspace)?;
    userspace(workspace, options.release)?;
    let profile = if options.release { "release" } else { "debug" };
    eprintln!("build: {}", workspace.shown(&workspace.target.join(profile).join("nvaprobe")));
    Ok(())
}

/// The programs of the workspace, the BPF crate aside.
pub(crate) fn userspace(workspace: &Workspace, release: bool) -> Result<()> {
    run(workspace.cargo().arg("build").args(release.then_some("--release")))
}

/// Compiles the BPF programs and leaves the object where probe-user's build script finds it.
pub(crate) fn bpf(workspace: &Workspace) -> Result<()> {
    let toolchain = Toolchain::find(workspace)?;
    let scratch = scratch(workspace);
    run(toolchain.cargo(workspace).arg("build").args(TARGETED).arg("--target-dir").arg(&scratch))?;
    let built = scratch.join(TARGET).join("release").join(BINARY);
    install(&built, &workspace.target.join("bpf").join(OBJECT))
}

/// Everything that turns the BPF crate into an object.
pub(crate) struct Toolchain {
    pub(crate) rustc: Rustc,
    pub(crate) linker: PathBuf,
}

impl Toolchain {
    pub(crate) fn find(workspace: &Workspace) -> Result<Self> {
        let missing = |what| anyhow!("no BPF toolchain: {what}; run `cargo xtask setup`");
        let rustc = rustc::find().ok_or_else(|| {
            missing(format!("no rustc here has `core` for {TARGET}, prebuilt or as the component rust-src"))
        })?;
        let linker = linker::find(workspace, rustc.llvm).ok_or_else(|| {
            missing(format!(
                "no bpf-linker {} that reads the bitcode of LLVM {}",
                linker::VERSION,
                rustc.llvm
            ))
        })?;
        Ok(Self { rustc, linker })
    }

    fn cargo(&self, workspace: &Workspace) -> Command {
        // `core` is built by the cargo that came with it; the layout of rust-src is theirs to agree on.
        let own = self.rustc.path.with_file_name("cargo");
        let mut cargo = if self.rustc.core == Core::Source && own.exists() {
            workspace.command(own)
        } else {
            workspace.cargo()
        };
        self.set_environment(&mut cargo);
        cargo
    }

    fn set_environment(&self, command: &mut Command) {
        command
            .env("RUSTC", &self.rustc.path)
            // Stable compilers, too: aya-ebpf and `core` use unstable features.
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_ENCODED_RUSTFLAGS", encode(&flags(&self.linker, std::env::consts::ARCH)))
            .env_remove("RUSTC_WORKSPACE_WRAPPER");
        if self.rustc.core == Core::Source {
            command.env("CARGO_UNSTABLE_BUILD_STD", "core");
        }
    }
}

/// Clippy on the BPF crate; `false` when no clippy here understands it.
pub(crate) fn clippy(workspace: &Workspace) -> Result<bool> {
    let Ok(toolchain) = Toolchain::find(workspace) else { return Ok(false) };
    let Some(program) = toolchain.rustc.clippy() else { return Ok(false) };
    let mut clippy = workspace.command(program);
    toolchain.set_environment(&mut clippy);
    clippy.arg("clippy").args(TARGETED).arg("--target-dir").arg(scratch(workspace));
    run(clippy.args(["--", "-D", "warnings"]))?;
    Ok(true)
}

/// Apart from the host's artifacts, for another compiler wrote these.
fn scratch(workspace: &Workspace) -> PathBuf {
    workspace.target.join("bpf-build")
}

/// Compiler flags of the BPF programs, for a kernel of this architecture.
fn flags(linker: &Path, arch: &str) -> Vec<OsString> {
    let mut with_linker = OsString::from("linker=");
    with_linker.push(linker);
    let mut flags = vec![OsString::from("-C"), with_linker];
    // Debug information is what bpf-linker turns into BTF.
    flags.extend(["-C", "link-arg=--btf", "-C", "debuginfo=2", "--cfg"].map(OsString::from));
    flags.push(format!("bpf_target_arch=\"{arch}\"").into());
    flags
}

/// CARGO_ENCODED_RUSTFLAGS, whose separator cannot occur in a path that a shell made.
fn encode(flags: &[OsString]) -> OsString {
    flags.join(OsStr::new("\u{1f}"))
}

/// Puts the object in its place, and leaves an equal one alone: its time decides whether probe-user is built anew.
fn install(built: &Path, object: &Path) -> Result<()> {
    let new = fs::read(built).with_context(|| format!("cannot read {}", built.display()))?;
    if fs::read(object).is_ok_and(|old| old == new) {
        return Ok(());
    }
    let folder = object.parent().context("the object has no folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    // Renamed, so that a build that runs meanwhile never embeds half an object.
    let partial = object.with_extension("partial");
    fs::write(&partial, new).with_context(|| format!("cannot write {}", partial.display()))?;
    fs::rename(&partial, object).with_context(|| format!("cannot write {}", object.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_name_linker_btf_and_architecture() {
        let flags = encode(&flags(Path::new("/opt/a b/bpf-linker"), "aarch64"));
        assert_eq!(
            flags.to_str().unwrap().split('\u{1f}').collect::<Vec<_>>(),
            [
                "-C",
                "linker=/opt/a b/bpf-linker",
                "-C",
                "link-arg=--btf",
                "-C",
                "debuginfo=2",
                "--cfg",
                "bpf_target_arch=\"aarch64\"",
            ]
        );
    }

    #[test]
    fn an_unchanged_object_keeps_its_time() {
        let home = tempfile::TempDir::new().unwrap();
        let (built, object) = (home.path().join("built"), home.path().join("bpf").join(OBJECT));
        fs::write(&built, "one").unwrap();
        install(&built, &object).unwrap();

        let old = std::time::SystemTime::UNIX_EPOCH;
        let time = || fs::metadata(&object).unwrap().modified().unwrap();
        fs::File::open(&object).unwrap().set_modified(old).unwrap();
        install(&built, &object).unwrap();
        assert_eq!(time(), old);

        fs::write(&built, "two").unwrap();
        install(&built, &object).unwrap();
        assert_ne!(time(), old);
        assert_eq!(fs::read(&object).unwrap(), b"two");
        let names = fs::read_dir(object.parent().unwrap()).unwrap().count();
        assert_eq!(names, 1, "no partial file is left behind");
    }
}
