//! `cargo xtask lint`: format, clippy and the rules of the house.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::{
    build,
    workspace::{self, Workspace, run},
};

/// Lines of a Rust file.
const LONGEST: usize = 700;

/// Where packages come from, for everybody.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Folders of one machine. Written in pieces, for this file is checked too.
const MACHINE_PATHS: [&str; 3] = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/tmp", "/w/")];

/// Words in the names of private package mirrors.
const MIRRORS: [&str; 3] = [concat!("pkg", ".dev"), concat!("jfrog", ".io"), concat!("artifact", "ory.")];

/// Expecting a lint is better: it tells when there is nothing left to suppress.
const ALLOW: &str = concat!("#[al", "low(");

pub(crate) fn run_command(workspace: &Workspace) -> Result<()> {
    let complaints = complaints(workspace)?;
    for complaint in &complaints {
        eprintln!("lint: {complaint}");
    }
    if !complaints.is_empty() {
        bail!("{} complaints about committed files", complaints.len());
    }
    run(workspace.cargo().args(["fmt", "--all", "--check"]))?;
    run(workspace.cargo().args([
        "clippy",
        "--workspace",
        "--exclude",
        "probe-ebpf",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]))?;
    if !build::clippy(workspace)? {
        eprintln!(
            "lint: LEAVES OUT the BPF crate, for want of its toolchain or of the clippy that came with it"
        );
    }
    Ok(())
}

fn complaints(workspace: &Workspace) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    for file in files(workspace)? {
        let path = workspace.root.join(&file);
        // A file deleted but not yet committed is listed and not there; a binary one has no text to judge.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        complaints.extend(judge(&file, &text).map(|complaint| format!("{}: {complaint}", file.display())));
    }
    Ok(complaints)
}

/// Every file that is, or would be, committed; without git, every file outside the target directory.
fn files(workspace: &Workspace) -> Result<Vec<PathBuf>> {
    let mut git = Command::new("git");
    git.current_dir(&workspace.root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    if let Ok(listing) = workspace::stdout(&mut git) {
        return Ok(listing.split_terminator('\0').map(PathBuf::from).collect());
    }
    let mut files = Vec::new();
    let mut folders = vec![workspace.root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let path = entry?.path();
            if path == workspace.target || path.ends_with(".git") || path == workspace.root.join("target") {
                continue;
            }
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else {
                files.push(path.strip_prefix(&workspace.root)?.to_path_buf());
            }
        }
    }
    Ok(files)
}

fn judge(file: &Path, text: &str) -> impl Iterator<Item = String> {
    let name = file.file_name().unwrap_or_default();
    let mut complaints = Vec::new();
    let is_rust = file.extension().is_some_and(|extension| extension == "rs");
    if is_rust && text.lines().count() > LONGEST {
        complaints.push(format!("{} lines, over {LONGEST}", text.lines().count()));
    }
    if name == "Cargo.toml" && file != Path::new("Cargo.toml") && !inherits_lints(text) {
        complaints.push("does not inherit the workspace's lints".to_owned());
    }
    // Clippy says so, too, where it runs.
    if is_rust && text.contains(ALLOW) {
        complaints.push("suppresses a lint with allow: use #[expect(…, reason = \"…\")]".to_owned());
    }
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(path) = MACHINE_PATHS.iter().find(|path| names_path(line, path)) {
            complaints.push(format!("line {number} names {path}, a folder of one machine"));
        }
        if let Some(mirror) = MIRRORS.iter().find(|mirror| line.contains(*mirror)) {
            complaints.push(format!("line {number} names a package mirror ({mirror})"));
        }
        if name == "Cargo.lock" && line.starts_with("source = ") && !line.contains(REGISTRY) {
            complaints.push(format!("line {number}: a package that is not from crates.io"));
        }
    }
    complaints.into_iter()
}

/// Whether a line has this absolute path, and not merely as the end of a longer one.
fn names_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        !line[..at].ends_with(|before: char| {
            before.is_alphanumeric() || matches!(before, '-' | '_' | '.' | '/' | '}' | '>')
        })
    })
}

fn inherits_lints(manifest: &str) -> bool {
    let section = manifest.lines().map(str::trim).skip_while(|line| *line != "[lints]").skip(1);
    section.take_while(|line| !line.starts_with('[')).any(|line| line.replace(' ', "") == "workspace=true")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(file: &str, text: &str) -> Vec<String> {
        judge(Path::new(file), text).collect()
    }

    #[test]
    fn long_rust_files_are_found_and_other_long_files_are_not() {
        let long = "x\n".repeat(LONGEST + 1);
        assert_eq!(complaints("a.rs", &long), ["701 lines, over 700"]);
        assert!(complaints("a.rs", &"x\n".repeat(LONGEST)).is_empty());
        assert!(complaints("a.md", &long).is_empty());
    }

    #[test]
    fn suppressed_lints_are_found() {
        assert_eq!(complaints("a.rs", &format!("{ALLOW}dead_code)]")).len(), 1);
        assert!(complaints("a.rs", "#[expect(dead_code, reason = \"kept\")]").is_empty());
    }

    #[test]
    fn paths_of_a_machine_are_found_and_longer_paths_are_not() {
        for path in MACHINE_PATHS {
            assert_eq!(complaints("a.md", &format!("fine\nsee `{path}x`")).len(), 1, "{path}");
            assert!(complaints("a.md", &format!("https://example.org/some{path}x")).is_empty(), "{path}");
        }
    }

    #[test]
    fn mirrors_and_foreign_sources_are_found() {
        assert_eq!(complaints("a.toml", &format!("index = \"x.{}\"", MIRRORS[0])).len(), 1);
        assert!(complaints("Cargo.lock", &format!("source = \"{REGISTRY}\"")).is_empty());
        assert_eq!(complaints("Cargo.lock", "source = \"git+https://example.org/x\"").len(), 1);
    }

    #[test]
    fn members_inherit_lints_and_the_workspace_itself_need_not() {
        assert!(complaints("a/Cargo.toml", "[lints]\nworkspace = true\n").is_empty());
        assert_eq!(complaints("a/Cargo.toml", "[package]\nname = \"a\"\n").len(), 1);
        assert_eq!(complaints("a/Cargo.toml", "[lints]\n[features]\nworkspace = true\n").len(), 1);
        assert!(complaints("Cargo.toml", "[workspace]\n").is_empty());
    }
}
