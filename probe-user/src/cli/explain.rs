//! `nvaprobe explain CAUSE`: the section of docs/causes.md.

use anyhow::bail;

const PAGE: &str = include_str!("../../../docs/causes.md");

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A cause as findings name it; without one, their list
    cause: Option<String>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let names: Vec<&str> = sections().map(|(name, _)| name).collect();
    let Some(cause) = &args.cause else {
        super::output::print(&(names.join("\n") + "\n"))?;
        return Ok(super::OK);
    };
    let Some((name, text)) = sections().find(|(name, _)| name == cause) else {
        let likeness = |name: &str| strsim::jaro_winkler(name, cause);
        let near = names.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
        bail!("there is no cause named '{cause}'{hint} `nvaprobe explain` lists them");
    };
    let text = format!("{name}\n\n{}\n", text.trim());
    super::output::print(&text)?;
    Ok(super::OK)
}

/// Name and text of every section.
fn sections() -> impl Iterator<Item = (&'static str, &'static str)> {
    PAGE.split("\n## ").skip(1).filter_map(|section| section.split_once('\n'))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    /// Every cause that the code can give has a section, and no section is of a cause that it cannot give.
    #[test]
    fn every_cause_is_explained() {
        let mut given = BTreeSet::new();
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/diagnose")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("the sources are there") {
                let path = entry.expect("readable").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs")
                    && !path.to_string_lossy().contains("tests")
                {
                    let text = fs::read_to_string(path).expect("readable");
                    for part in text.split("cause: \"").skip(1) {
                        given.extend(part.split('"').next().map(str::to_owned));
                    }
                }
            }
        }
        let explained: BTreeSet<String> = sections().map(|(name, _)| name.to_owned()).collect();
        assert_eq!(given, explained);
    }
}
