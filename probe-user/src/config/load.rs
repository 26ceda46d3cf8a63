//! The files of a configuration.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use super::{Clash, Config, Errors, Judging, check, parse, problem::Problem, reader};
use crate::{
    profile::service_tags::{self, TagError},
    source::{self, Source, SourceError},
};

/// No configuration is longer; a device or a log given by mistake is.
const LONGEST_CONFIG: u64 = 1 << 20;
/// Azure's file has some 5 MB.
const LONGEST_TAGS: u64 = 1 << 26;

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot read {what} {}: {error}", path.display())]
    Read { what: &'static str, path: PathBuf, error: io::Error },
    #[error("{}: longer than {limit} bytes; this is no {what}", path.display())]
    TooLong { what: &'static str, path: PathBuf, limit: u64 },
    #[error("{}:{line}: not UTF-8; save the file as UTF-8", path.display())]
    Encoding { path: PathBuf, line: usize },
    #[error(transparent)]
    Bad(#[from] Errors),
    #[error("{}", list(.0))]
    Flags(Vec<Clash>),
    #[error("{} {error}", path.display())]
    Tags { path: PathBuf, error: TagError },
    #[error(transparent)]
    Sources(#[from] SourceError),
}

fn list(clashes: &[Clash]) -> String {
    let lines: Vec<String> = clashes.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// The file's configuration, if there is one, with the flags' values over it: checked as a whole.
pub fn merged(file: Option<&Path>, flags: Config) -> Result<Config, LoadError> {
    let Some(path) = file else {
        let clashes = check::check_whole(&flags);
        return if clashes.is_empty() { Ok(flags) } else { Err(LoadError::Flags(clashes)) };
    };
    let text = text("configuration", path, LONGEST_CONFIG)?;
    let name = path.display().to_string();
    let mut config = parse(&text).map_err(|errors| errors.of(name.clone()))?;
    if let Some(tags) = &config.service_tags {
        config.service_tags = Some(path.parent().unwrap_or(Path::new("")).join(tags));
    }
    let given = toml::Table::try_from(&flags).ok();
    let config = config.overridden_by(flags);
    let from_flag = |clash: &Clash| given.as_ref().is_none_or(|given| given.contains_key(clash.key()));
    let (by_flags, by_file): (Vec<Clash>, Vec<Clash>) =
        check::check_whole(&config).into_iter().partition(from_flag);
    if !by_file.is_empty() {
        let (_, document, _) = reader::read(&text);
        let problems: Vec<Problem> = by_file.iter().map(|clash| clash.locate(&document)).collect();
        return Err(Errors::new(&text, problems).of(name).into());
    }
    if by_flags.is_empty() { Ok(config) } else { Err(LoadError::Flags(by_flags)) }
}

/// Whose probes, and how they are judged.
pub fn resolve(config: &Config) -> Result<(Vec<Source>, Judging), LoadError> {
    Ok((sources(config)?, config.judging()))
}

/// The sources of a configuration, those of its service-tags file included.
fn sources(config: &Config) -> Result<Vec<Source>, LoadError> {
    let profile = config.profile();
    let mut more = Vec::new();
    let tag = config.service_tag.as_ref().map(|tag| tag.0.as_str()).or(profile.service_tag());
    if let (Some(path), Some(tag)) = (&config.service_tags, tag) {
        let text = text("service-tags file", path, LONGEST_TAGS)?;
        let prefixes = service_tags::prefixes(&text, tag);
        more.extend(prefixes.map_err(|error| LoadError::Tags { path: path.clone(), error })?);
    }
    more.extend(config.sources.iter().map(|source| source.0));
    Ok(source::collect(profile, config.no_default_sources.unwrap_or(false), &more)?)
}

fn text(what: &'static str, path: &Path, limit: u64) -> Result<String, LoadError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(limit + 1).read_to_end(&mut bytes))
        .map_err(|error| LoadError::Read { what, path: path.to_owned(), error })?;
    if bytes.len() as u64 > limit {
        return Err(LoadError::TooLong { what, path: path.to_owned(), limit });
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.as_bytes().iter().take(error.utf8_error().valid_up_to());
        let line = good.filter(|byte| **byte == b'\n').count() + 1;
        LoadError::Encoding { path: path.to_owned(), line }
    })
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
