//! Files under a root. What is missing or unreadable is not there.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

/// Longer files are no network configuration.
const LONGEST: u64 = 1 << 20;

pub(super) struct Tree(PathBuf);

impl Tree {
    pub(super) fn new(root: &Path) -> Self {
        Self(root.to_owned())
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        self.path(path).symlink_metadata().is_ok()
    }

    pub(super) fn read(&self, path: &str) -> Option<String> {
        let path = self.path(path);
        // A FIFO would wait for a writer.
        if !path.metadata().ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        fs::File::open(path).ok()?.take(LONGEST).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Names in a folder, sorted as every manager reads them.
    pub(super) fn list(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(folder)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Paths and texts of the files of a folder whose name ends so.
    pub(super) fn files(&self, folder: &str, ending: &str) -> Vec<(String, String)> {
        self.list(folder)
            .into_iter()
            .filter(|name| name.ends_with(ending))
            .filter_map(|name| {
                let path = format!("{folder}/{name}");
                let text = self.read(&path)?;
                Some((path, text))
            })
            .collect()
    }
}

/// Value of `KEY=VALUE`, outside comments, quotes removed. The last one wins, as in every such file.
pub(super) fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.trim().split_once('='))
        .filter(|(name, _)| name.trim_end() == key)
        .map(|(_, value)| value.trim().trim_matches(['"', '\'']))
        .next_back()
}
