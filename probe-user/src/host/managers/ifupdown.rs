//! ifupdown: /etc/network/interfaces and what it sources (interfaces(5)).

use super::Tree;
use crate::host::links::Link;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ifupdown {
    /// Files in /etc/network/interfaces.d are read.
    pub sourced: bool,
}

const MAIN: &str = "/etc/network/interfaces";

pub(super) fn configured(tree: &Tree, nic: &Link) -> Option<Ifupdown> {
    let main = tree.read(MAIN)?;
    let sourced = sources(&main).iter().any(|(keyword, what)| {
        let what = what.trim_end_matches('/');
        match *keyword {
            "source-directory" => what.ends_with("interfaces.d") && !what.starts_with("/run"),
            _ => what.ends_with("/etc/network/interfaces.d/*") || what == "interfaces.d/*",
        }
    });
    let mut texts = vec![main.clone()];
    for (keyword, what) in sources(&main) {
        let what = if what.starts_with('/') { what.to_owned() } else { format!("/etc/network/{what}") };
        match (keyword, what.strip_suffix("/*")) {
            ("source-directory", _) => texts.extend(folder(tree, what.trim_end_matches('/'))),
            (_, Some(within)) => texts.extend(folder(tree, within)),
            (_, None) => texts.extend(tree.read(&what)),
        }
    }
    let named = texts.iter().any(|text| {
        text.lines().any(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some("iface") && words.next() == Some(&nic.name)
        })
    });
    named.then_some(Ifupdown { sourced })
}

fn sources(text: &str) -> Vec<(&str, &str)> {
    text.lines()
        .filter_map(|line| line.trim().split_once(char::is_whitespace))
        .filter(|(keyword, _)| matches!(*keyword, "source" | "source-directory"))
        .map(|(keyword, what)| (keyword, what.trim()))
        .collect()
}

fn folder(tree: &Tree, folder: &str) -> Vec<String> {
    tree.files(folder, "").into_iter().map(|(_, text)| text).collect()
}
