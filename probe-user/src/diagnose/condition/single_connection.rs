//! Cause `single-connection`: the probed port is served by a tool that handles one connection and ends, or one at a time. The
//! prober holds its connection until the next probe, so that a second load balancer, or the next probe, finds nobody.

use super::{Scene, advice::Advice, confirmed};
use crate::{diagnose::evidence, host::sockets::Listener, report::document::Finding};

const NETCATS: [&str; 5] = ["nc", "ncat", "netcat", "nc.openbsd", "nc.traditional"];

pub(super) fn find(scene: &Scene<'_>) -> Vec<Finding> {
    let probed = |listener: &&Listener| confirmed(scene).any(|case| case.series.port == listener.port);
    let mut findings: Vec<Finding> = Vec::new();
    for listener in scene.listeners.iter().filter(probed) {
        let Some((tool, missing)) = single(listener) else { continue };
        let summary = format!(
            "Port {} is served by {tool}, which handles one connection and no other beside it: a prober holds its connection \
             until its next probe, and a second one finds nobody. Use a real server, or {missing}.",
            listener.port
        );
        let backlog =
            listener.detail.map_or_else(String::new, |detail| format!(", backlog {}", detail.backlog));
        let text =
            format!("{tool} listens on {}:{}{backlog}, without {missing}", listener.address, listener.port);
        let evidence = vec![evidence::of("socket", text)];
        let finding = Finding {
            port: Some(listener.port),
            ..Advice { cause: "single-connection", summary, evidence }.finding()
        };
        // It may listen on several addresses.
        if !findings.iter().any(|known| known.summary == finding.summary) {
            findings.push(finding);
        }
    }
    findings
}

/// The tool and what it lacks, by its arguments; `None` when they are not known.
fn single(listener: &Listener) -> Option<(&str, &'static str)> {
    let process = listener.process.as_deref()?;
    let (_, arguments) = listener.arguments.split_first()?;
    let busybox = process == "busybox" && arguments.first().is_some_and(|applet| applet == "nc");
    if NETCATS.contains(&process) || busybox {
        let short = |argument: &String| {
            let letters = argument.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
            // BusyBox goes on listening with -ll.
            letters.is_some_and(|letters| letters.contains('k') || letters.contains("ll"))
        };
        let keeps = arguments.iter().any(|argument| short(argument) || argument == "--keep-open");
        return (!keeps).then_some((process, "-k"));
    }
    if process == "socat" {
        let forks = |argument: &String| argument.split(',').any(|option| option == "fork");
        return (!arguments.iter().any(forks)).then_some((process, "fork"));
    }
    None
}
