//! A longer accept queue: the smaller of the listener's backlog and net.core.somaxconn (net/socket.c, `__sys_listen`).

use super::sysctl;
use crate::report::document::Fix;

/// Linux' own default since 5.4.
const ENOUGH: u32 = 4096;

pub(super) fn fix(port: u16, backlog: Option<u32>, somaxconn: Option<u32>, process: Option<&str>) -> Fix {
    let who = process.map_or_else(
        || format!("The listener on port {port}"),
        |process| format!("'{}' on port {port}", process.replace(char::is_control, "?")),
    );
    let asked = backlog.map_or_else(String::new, |backlog| format!(" (now {backlog})"));
    let comments = vec![
        format!("# {who} must ask for a longer queue{asked}."),
        "# nginx: listen … backlog=4096; HAProxy: backlog 4096; socat: fork,backlog=64.".to_owned(),
        "# Restart it afterwards. A bare nc serves one connection at a time: never use it.".to_owned(),
    ];
    if somaxconn.is_some_and(|limit| limit >= ENOUGH) {
        let mut lines = vec![
            "# Persistent: it is the server's own configuration. The kernel's limit is high enough."
                .to_owned(),
        ];
        lines.extend(comments);
        return Fix { family: "listener".to_owned(), persistent: true, text: lines.join("\n") };
    }
    sysctl::fix(&[("net.core.somaxconn".to_owned(), &ENOUGH.to_string())], &comments)
}
