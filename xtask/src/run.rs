//! Running programs.

use std::process::Command;

use anyhow::{Context, bail};

/// Runs to success, or says which command failed.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let line = describe(command);
    let status = command.status().with_context(|| format!("cannot start: {line}"))?;
    if !status.success() {
        bail!("failed ({status}): {line}");
    }
    Ok(())
}

/// What a successful run prints; `None` when it cannot be started or fails.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// `cargo` of the toolchain that runs us.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(crate::paths::workspace());
    // Set by the `cargo run` around us, and wrong for another toolchain or package.
    for variable in ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "RUSTC", "RUSTFLAGS"] {
        command.env_remove(variable);
    }
    command
}

fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Whether this process is root.
pub(crate) fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        // Real, effective, saved, filesystem.
        status
            .lines()
            .find_map(|line| line.strip_prefix("Uid:"))
            .and_then(|ids| ids.split_whitespace().nth(1))
            .is_some_and(|effective| effective == "0")
    })
}
