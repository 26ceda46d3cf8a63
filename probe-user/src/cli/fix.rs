//! `nvaprobe fix`: what would be misrouted now, and what to type. Asks the kernel, observes nothing, changes nothing.

use std::{fmt::Write, path::PathBuf}; // writing to a String cannot fail

use anyhow::bail;
use serde::Serialize;

use super::output;
use crate::{
    config::{Choice, Config, NicName, SourceNet, TagName, load},
    fix::{self, Checked, FAMILIES, Family, Intent, Misroute, Way},
    host::{Facts, managers::Managers, routes::net_text},
    monitor::nics,
    profile::Profile,
    report::document::Fix,
};

const AFTER_HELP: &str = "\
The output is a shell script with comments; read it before you pipe it anywhere.

Exit status: 0 nothing to fix, 1 something to fix, 2 could not look.";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// For which way of configuring a host
    ///
    /// auto: the one that manages the NIC (the common ones where that is unknown), and iproute2.
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = families())]
    family: String,

    /// A NIC to look at; repeat for more [default: every physical NIC]
    #[arg(long = "nic", value_name = "NAME")]
    nics: Vec<NicName>,

    /// Read a configuration file (TOML); flags override it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Whose probes to expect [default: azure-lb]
    #[arg(long, value_enum)]
    profile: Option<Profile>,

    /// One more address or prefix that probes come from; repeatable
    #[arg(long = "source", value_name = "ADDR|CIDR")]
    sources: Vec<SourceNet>,

    /// Leave out the profile's own sources
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    no_default_sources: Option<bool>,

    /// Take further sources from Azure's service-tags file (JSON)
    #[arg(long, value_name = "FILE")]
    service_tags: Option<PathBuf>,

    /// The tag to take from it [default: the profile's]
    #[arg(long, value_name = "NAME")]
    service_tag: Option<TagName>,

    /// Tell who manages the NICs from the files under DIR, such as an image being built
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

fn families() -> Vec<&'static str> {
    ["auto", "all"].into_iter().chain(FAMILIES.iter().map(|family| family.name)).collect()
}

/// The JSON document.
#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    /// Replies whose way was asked for.
    checked: usize,
    /// Those of which the kernel did not tell it.
    unknown: usize,
    misrouted: Vec<Misrouted>,
    /// What could not be told, and why some fix is not offered.
    remarks: Vec<String>,
    fixes: Vec<Fix>,
}

#[derive(Debug, Serialize)]
struct Misrouted {
    nic: String,
    from: String,
    to: String,
    /// In words.
    way: String,
    rule: Option<String>,
    route: Option<String>,
    /// Family of the one who manages the NIC.
    managed_by: Option<&'static str>,
}

pub(super) async fn run(args: Args) -> anyhow::Result<u8> {
    let config = load::merged(
        args.config.as_deref(),
        Config {
            nics: args.nics,
            profile: args.profile.map(Choice),
            sources: args.sources,
            no_default_sources: args.no_default_sources,
            service_tags: args.service_tags,
            service_tag: args.service_tag,
            ..Config::default()
        },
    )?;
    let (sources, _) = load::resolve(&config)?;
    let mut facts = Facts::read().await?;
    let needed = |what: &str| ["addresses", "rules", "routes"].contains(&what);
    if let Some(unread) = facts.unread.iter().find(|unread| needed(unread.what)) {
        bail!("the {} of this host could not be read: {}", unread.what, unread.why);
    }
    if let Some(root) = &args.root {
        if !root.is_dir() {
            bail!("--root {}: no such directory", root.display());
        }
        facts.managers = Managers::read(root, &facts.links);
    }
    let names: Vec<String> = config.nics.into_iter().map(|nic| nic.0).collect();
    let nics = nics::judged(&names, &facts.links)?;
    let mut checked = Vec::new();
    for reply in fix::replies(&facts, nics, &sources) {
        let lookup = facts.lookup(reply.query).await;
        checked.push(fix::judge(&facts, reply, &lookup));
    }
    let choice = match args.family.as_str() {
        "all" => fix::Choice::All,
        name => Family::find(name).map_or(fix::Choice::Auto, fix::Choice::Only),
    };
    let document = conclude(&facts, &checked, choice);
    if args.json {
        output::print(&(serde_json::to_string_pretty(&document)? + "\n"))?;
    } else {
        output::print(&text(&document))?;
    }
    Ok(match (document.misrouted.is_empty(), document.unknown) {
        (false, _) => super::FOUND,
        (true, 0) => super::OK,
        (true, _) => super::FAILED,
    })
}

fn conclude(facts: &Facts, checked: &[Checked], choice: fix::Choice) -> Document {
    let mut remarks = Vec::new();
    let mut misrouted = Vec::new();
    let mut misroutes: Vec<Misroute> = Vec::new();
    for Checked { reply, way } in checked {
        match way {
            Way::Right => {}
            Way::Wrong(way, misroute) => {
                misrouted.push(Misrouted {
                    nic: misroute.nic.clone(),
                    from: reply.from.to_string(),
                    to: net_text(&reply.to),
                    way: way.clone(),
                    rule: misroute.rule.as_ref().map(|rule| rule.text(&facts.tables)),
                    route: misroute.route.as_ref().map(|route| route.evidence(&facts.tables)),
                    managed_by: Family::of(facts, &misroute.nic).map(|family| family.name),
                });
                misroutes.push(misroute.as_ref().clone());
            }
            Way::Unknown(why) => {
                remarks.push(format!("not known for {} to {}: {why}", reply.from, net_text(&reply.to)));
            }
        }
    }
    let mut intents = Vec::new();
    for (misroute, plan) in misroutes.iter().zip(fix::plan(facts, &misroutes)) {
        match plan {
            Ok(policy) => intents.push(Intent::Policy(policy)),
            Err(why) => remarks.push(format!("{}: {why}", misroute.nic)),
        }
    }
    let offer = fix::offer(&intents, facts, choice);
    remarks.extend(offer.unfit.into_iter().map(|(family, why)| format!("not for {family}: {why}")));
    remarks.dedup();
    let unknown = checked.iter().filter(|checked| matches!(checked.way, Way::Unknown(_))).count();
    Document {
        schema: "nvaprobe.fix/1",
        checked: checked.len(),
        unknown,
        misrouted,
        remarks,
        fixes: offer.fixes,
    }
}

/// A shell script: everything but the fixes is comment.
fn text(document: &Document) -> String {
    let mut lines = Vec::new();
    for Misrouted { nic, from, to, way, rule, route, .. } in &document.misrouted {
        lines.push(format!("{nic}: a reply from {from} to {to} {way}"));
        lines.extend(rule.iter().map(|rule| format!("  rule {rule}")));
        lines.extend(route.iter().map(|route| format!("  route {route}")));
    }
    let mut managed: Vec<(&str, &str)> = Vec::new();
    for Misrouted { nic, managed_by, .. } in &document.misrouted {
        let by = managed_by.unwrap_or("unknown");
        if !managed.contains(&(nic, by)) {
            managed.push((nic, by));
        }
    }
    lines.extend(managed.iter().map(|(nic, by)| format!("{nic} is managed by: {by}")));
    if document.misrouted.is_empty() {
        lines.push(match document.checked {
            0 => "Nothing to check: no address on these NICs needs a route to these sources.".to_owned(),
            _ if document.unknown > 0 => {
                format!(
                    "Nothing to fix, but {} of {} replies are unknown.",
                    document.unknown, document.checked
                )
            }
            1 => "Nothing to fix: the one reply checked leaves by the NIC its probe comes in on.".to_owned(),
            checked => {
                format!("Nothing to fix: each of {checked} replies leaves by the NIC its probe comes in on.")
            }
        });
    }
    lines.extend(document.remarks.iter().cloned());
    let mut text: String =
        lines.iter().flat_map(|line| line.lines()).map(|line| format!("# {}\n", clean(line))).collect();
    for fix in &document.fixes {
        let lasting = if fix.persistent { "persistent" } else { "lost on reboot" };
        let _ = write!(text, "\n# --- {}, {lasting} ---\n{}\n", fix.family, fix.text);
    }
    text
}

/// One line of comment whatever a name contains.
fn clean(line: &str) -> String {
    line.replace(char::is_control, "?")
}
