//! Azure's service-tags file: the prefixes of a service, by name.
//!
//! <https://learn.microsoft.com/azure/virtual-network/service-tags-overview>, "Discover service tags by using
//! downloadable JSON files".

use ipnet::IpNet;
use serde::Deserialize;

use crate::source;

#[derive(Deserialize)]
struct File {
    values: Vec<Tag>,
}

#[derive(Deserialize)]
struct Tag {
    name: String,
    properties: Properties,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Properties {
    address_prefixes: Vec<String>,
}

/// Each completes "FILE …".
#[derive(Debug, thiserror::Error)]
pub enum TagError {
    #[error(
        "is not one of Azure's service-tags files ({0}); download \"Azure IP Ranges and Service Tags\", \
         or use what `az network list-service-tags` prints"
    )]
    NotTags(serde_json::Error),
    #[error("has no service tag '{tag}'; {near}")]
    Missing { tag: String, near: String },
    #[error("has a service tag '{tag}' without prefixes; download a newer file")]
    Empty { tag: String },
    #[error("has a service tag '{tag}' with a prefix that is none: {reason}")]
    Prefix { tag: String, reason: String },
}

/// The prefixes of one tag, each once.
pub fn prefixes(text: &str, tag: &str) -> Result<Vec<IpNet>, TagError> {
    // Files saved on Windows may begin with a byte-order mark.
    let file: File = serde_json::from_str(text.trim_start_matches('\u{feff}')).map_err(TagError::NotTags)?;
    let Some(found) = file.values.iter().find(|one| one.name == tag) else {
        return Err(TagError::Missing { tag: tag.to_owned(), near: near(&file.values, tag) });
    };
    let mut nets: Vec<IpNet> = Vec::new();
    for prefix in &found.properties.address_prefixes {
        let net = source::parse(prefix).map_err(|reason| TagError::Prefix { tag: tag.to_owned(), reason })?;
        if !nets.contains(&net) {
            nets.push(net);
        }
    }
    if nets.is_empty() {
        return Err(TagError::Empty { tag: tag.to_owned() });
    }
    Ok(nets)
}

/// The names most like it.
fn near(tags: &[Tag], wanted: &str) -> String {
    let wanted = wanted.to_lowercase();
    let mut ranked: Vec<(usize, &str)> = tags
        .iter()
        .map(|tag| {
            let name = tag.name.to_lowercase();
            // A name that contains the wanted one, or is contained in it, is nearer than its length says.
            let related = !name.is_empty() && (name.contains(&wanted) || wanted.contains(&name));
            (strsim::damerau_levenshtein(&name, &wanted) / if related { 4 } else { 1 }, tag.name.as_str())
        })
        .filter(|(distance, _)| *distance <= wanted.chars().count().max(6) / 2)
        .collect();
    ranked.sort_unstable();
    let names: Vec<&str> = ranked.into_iter().take(3).map(|(_, name)| name).collect();
    match tags.first() {
        _ if !names.is_empty() => format!("near it are {}", names.join(", ")),
        Some(first) => format!("it has {} others, such as {}", tags.len(), first.name),
        None => "it has none at all".to_owned(),
    }
}

#[cfg(test)]
#[path = "service_tags_tests.rs"]
mod tests;
