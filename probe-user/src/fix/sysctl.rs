//! Kernel settings: one file in /etc/sysctl.d for all of them.

use super::{Intent, shell};
use crate::report::document::Fix;

/// Files are read by name and the last value counts (sysctl.d(5)); distributions link /etc/sysctl.conf as 99-sysctl.conf.
const FILE: &str = "/etc/sysctl.d/99-zz-nvaprobe.conf";

pub(super) fn fixes(intents: &[Intent]) -> Option<Fix> {
    let mut settings: Vec<(String, &str)> = Vec::new();
    for intent in intents {
        let Intent::Sysctl { key, value, device } = intent else { continue };
        let of_device = device.as_ref().map(|device| for_device(key, device));
        for key in std::iter::once(key.clone()).chain(of_device) {
            match settings.iter_mut().find(|(known, _)| *known == key) {
                Some(setting) => setting.1 = value,
                None => settings.push((key, value)),
            }
        }
    }
    (!settings.is_empty()).then(|| fix(&settings, &[]))
}

/// The settings as a fix, comments first.
pub(super) fn fix(settings: &[(String, &str)], comments: &[String]) -> Fix {
    let content: String = settings.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    let mut lines =
        vec!["# Persistent: /etc/sysctl.d is read at each boot, and for a NIC when it appears.".to_owned()];
    lines.extend_from_slice(comments);
    lines.extend(shell::append(FILE, &content));
    lines.push(format!("sysctl -p {FILE}"));
    Fix { family: "sysctl".to_owned(), persistent: true, text: lines.join("\n") }
}

/// The key of one device. With slashes as separators a dot in the device's name stays a dot (sysctl.d(5)).
fn for_device(key: &str, device: &str) -> String {
    if device.contains('.') {
        key.replace('.', "/").replacen("/all/", &format!("/{device}/"), 1)
    } else {
        key.replacen(".all.", &format!(".{device}."), 1)
    }
}
