//! Puts the BPF object where `capture::object` embeds it.
//!
//! `cargo xtask build` leaves the object in `<target>/bpf`. Without it an empty stub is embedded, so that
//! `cargo check`, clippy and the unit tests need no BPF toolchain. `NVAPROBE_BPF_OBJECT` names another object.

use std::{
    env,
    error::Error,
    ffi::OsStr,
    fs::{self, File},
    path::{Path, PathBuf},
    time::SystemTime,
};

const OBJECT: &str = "nvaprobe.bpf.o";
const OVERRIDE: &str = "NVAPROBE_BPF_OBJECT";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={OVERRIDE}");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo did not set OUT_DIR")?);

    let object = if let Some(named) = env::var_os(OVERRIDE).filter(|named| !named.is_empty()) {
        let named = PathBuf::from(named);
        println!("cargo::rerun-if-changed={}", named.display());
        fs::read(&named).map_err(|error| format!("{OVERRIDE}: cannot read {}: {error}", named.display()))?
    } else {
        let folder = target_dir(&out).ok_or("OUT_DIR is not inside a cargo target directory")?.join("bpf");
        watch(&folder)?;
        match fs::read(folder.join(OBJECT)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            read => read.map_err(|error| format!("cannot read {OBJECT} in {}: {error}", folder.display()))?,
        }
    };
    fs::write(out.join(OBJECT), object)?;
    Ok(())
}

/// The folder is watched, not the file: cargo takes a watched file that does not exist for changed, and would
/// build this crate anew every time. A folder made here must also look older than this run.
fn watch(folder: &Path) -> Result<(), Box<dyn Error>> {
    if !folder.is_dir() {
        fs::create_dir_all(folder)?;
        File::open(folder)?.set_modified(SystemTime::UNIX_EPOCH)?;
    }
    println!("cargo::rerun-if-changed={}", folder.display());
    Ok(())
}

/// `<target>` of `<target>[/<triple>]/<profile>/build/…/out`.
fn target_dir(out: &Path) -> Option<PathBuf> {
    let build = out.ancestors().find(|folder| folder.file_name() == Some(OsStr::new("build")))?;
    let above_profile = build.parent()?.parent()?;
    let triple = env::var_os("TARGET");
    if above_profile.file_name() == triple.as_deref() {
        return above_profile.parent().map(Path::to_path_buf);
    }
    Some(above_profile.to_path_buf())
}
