//! Names of routing tables, as `ip` prints them.

use std::{collections::BTreeMap, fs, path::PathBuf};

pub const MAIN: u32 = 254;
pub const LOCAL: u32 = 255;
pub const DEFAULT: u32 = 253;

/// Names given to tables by iproute2's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableNames(BTreeMap<u32, String>);

impl TableNames {
    /// Reads rt_tables from where iproute2 looks (lib/rt_names.c); the first name of a number stays.
    pub(super) fn read() -> Self {
        let mut names = Self::default();
        let mut files = Vec::new();
        for base in ["/etc/iproute2", "/usr/share/iproute2", "/usr/lib/iproute2"] {
            files.push(PathBuf::from(format!("{base}/rt_tables")));
            let Ok(entries) = fs::read_dir(format!("{base}/rt_tables.d")) else { continue };
            files.extend(
                entries
                    .flatten()
                    .map(|entry| entry.path())
                    .filter(|path| path.extension().is_some_and(|extension| extension == "conf")),
            );
        }
        for file in files {
            if let Ok(text) = fs::read_to_string(file) {
                names.add(&text);
            }
        }
        names
    }

    /// Adds the lines of one rt_tables file: `NUMBER NAME`, `#` starts a comment.
    pub fn add(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            let (Some(number), Some(name)) = (words.next(), words.next()) else { continue };
            let number = match number.strip_prefix("0x") {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => number.parse(),
            };
            if let Ok(number) = number {
                self.0.entry(number).or_insert_with(|| name.to_owned());
            }
        }
    }

    /// The name of a table, or its number.
    pub fn name(&self, table: u32) -> String {
        match table {
            MAIN => "main".to_owned(),
            LOCAL => "local".to_owned(),
            DEFAULT => "default".to_owned(),
            _ => self.0.get(&table).cloned().unwrap_or_else(|| table.to_string()),
        }
    }

    /// Whether somebody gave this number a name, hence a purpose.
    pub fn is_named(&self, table: u32) -> bool {
        self.0.contains_key(&table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_lines_and_numbers_stay_numbers() {
        let mut names = TableNames::default();
        names.add(
            "# reserved\n255\tlocal\n201 azure # probe\n0x12c hexed\nrubbish\n#202 commented\n201 again\n",
        );
        assert_eq!(names.name(201), "azure");
        assert_eq!(names.name(300), "hexed");
        assert_eq!(names.name(202), "202");
        assert_eq!(names.name(MAIN), "main");
        assert!(names.is_named(201) && !names.is_named(202));
    }
}
