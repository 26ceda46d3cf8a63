//! Where things are, and how to run a command there.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Cargo's target directory, wherever the user's environment and configuration put it.
    pub(crate) target: PathBuf,
    cargo: OsString,
}

impl Workspace {
    pub(crate) fn find() -> Result<Self> {
        let here = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = here.parent().context("xtask's folder has no parent")?.to_path_buf();
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());

        let mut metadata = Command::new(&cargo);
        metadata.current_dir(&root).args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
        let target = target_directory(&stdout(&mut metadata)?)
            .context("`cargo metadata` does not name the target directory")?;
        Ok(Self { root, target, cargo })
    }

    pub(crate) fn cargo(&self) -> Command {
        self.command(&self.cargo)
    }

    /// A program in the workspace's folder.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root);
        command
    }

    /// The built `nvaprobe`, development profile.
    pub(crate) fn nvaprobe(&self) -> PathBuf {
        self.target.join("debug/nvaprobe")
    }

    /// A path as the user would type it from the workspace.
    pub(crate) fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }
}

/// Runs a command with the terminal's streams; its failure is an error that names it.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start `{}`", line(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", line(command));
    }
    Ok(())
}

/// What a command prints; its failure is an error that carries what it said.
pub(crate) fn stdout(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start `{}`", line(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` failed ({}): {}", line(command), output.status, said.trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{}` printed no UTF-8", line(command)))
}

/// A command as one would type it.
fn line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(command.get_program()).to_string_lossy().into_owned();
    let arguments = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
    std::iter::once(program).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// Whether this process may build namespaces, load BPF programs and install packages.
pub(crate) fn is_root() -> bool {
    // The owner of /proc/self is the effective user.
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// The first executable of that name in PATH.
pub(crate) fn in_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|file| is_executable(file))
}

pub(crate) fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.mode() & 0o111 != 0)
}

/// The one field needed of `cargo metadata`, which is not worth a JSON parser in every build of xtask.
fn target_directory(metadata: &str) -> Option<PathBuf> {
    let (_, value) = metadata.split_once("\"target_directory\":\"")?;
    let mut path = String::new();
    let mut characters = value.chars();
    loop {
        match characters.next()? {
            '"' => return Some(PathBuf::from(path)),
            '\\' => path.push(characters.next().filter(|c| matches!(c, '"' | '\\' | '/'))?),
            character => path.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_directory_is_read_from_cargo_metadata() {
        let metadata = r#"{"packages":[],"target_directory":"/srv/a \"b\"\\c","version":1}"#;
        assert_eq!(target_directory(metadata), Some(PathBuf::from(r#"/srv/a "b"\c"#)));
        assert_eq!(target_directory(r#"{"packages":[]}"#), None);
        assert_eq!(target_directory(r#"{"target_directory":"/srv/unfinished"#), None);
    }

    #[test]
    fn a_failing_command_is_named_with_what_it_said() {
        let error = stdout(Command::new("/bin/sh").args(["-c", "echo broken >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().contains("`sh -c"), "{error}");
        assert!(error.to_string().contains("broken"), "{error}");
    }

    #[test]
    fn programs_are_found_in_path() {
        assert!(in_path("sh").is_some());
        assert_eq!(in_path("no-such-program-anywhere"), None);
    }
}
