//! `cargo xtask build`: the BPF object first, then what embeds it.

use std::{fs, path::PathBuf};

use anyhow::{Context, bail};

use crate::{
    paths,
    run::{cargo, run as execute},
    toolchain::{self, Compiler, TARGET, Toolchain},
};

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Optimise the userspace half, too
    #[arg(long)]
    release: bool,
}

/// Builds everything. Returns the path of the `nvaprobe` binary.
pub(crate) fn run(args: &Args) -> anyhow::Result<PathBuf> {
    object()?;
    let mut command = cargo();
    command.args(["build", "--workspace", "--exclude", "probe-ebpf"]);
    if args.release {
        command.arg("--release");
    }
    execute(&mut command)?;
    Ok(paths::target().join(if args.release { "release" } else { "debug" }).join("nvaprobe"))
}

/// Builds the BPF object and puts it where probe-user's build script embeds it from.
pub(crate) fn object() -> anyhow::Result<()> {
    let Ok(Toolchain { compiler, linker }) = toolchain::find() else {
        bail!("the BPF toolchain is missing or of another version; run: cargo xtask setup");
    };
    let arch = std::env::consts::ARCH;
    let folder = paths::target().join("bpf-build");
    let mut command = cargo();
    command
        .env("CARGO_ENCODED_RUSTFLAGS", toolchain::flags(&linker, arch).join("\x1f"))
        .env_remove("RUSTUP_TOOLCHAIN");
    match compiler {
        Compiler::Prebuilt(rustc) => {
            // aya-ebpf uses unstable features; the prebuilt core is a stable compiler's.
            command.env("RUSTC", rustc).env("RUSTC_BOOTSTRAP", "1");
        }
        Compiler::Nightly => {
            command = nightly(&command);
        }
    }
    command
        .args(["build", "--package", "probe-ebpf", "--release", "--target", TARGET, "--target-dir"])
        .arg(&folder);
    execute(&mut command).context("the BPF object did not build")?;
    let built = folder.join(TARGET).join("release/nvaprobe-bpf");
    let bytes = fs::read(&built).with_context(|| format!("cannot read {}", built.display()))?;
    let object = paths::object();
    // Written only when it differs: its time tells cargo whether to build the userspace half again.
    if fs::read(&object).ok().as_ref() != Some(&bytes) {
        if let Some(parent) = object.parent() {
            fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        }
        fs::write(&object, bytes).with_context(|| format!("cannot write {}", object.display()))?;
    }
    Ok(())
}

/// The same command by a nightly's cargo, which builds `core` itself.
fn nightly(stable: &std::process::Command) -> std::process::Command {
    let mut command = std::process::Command::new("cargo");
    command.current_dir(paths::workspace()).arg("+nightly").args(["-Z", "build-std=core"]);
    for (name, value) in stable.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}
