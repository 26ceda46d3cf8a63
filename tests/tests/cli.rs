//! The command line as a user meets it.

use nix::sys::signal::Signal;
use nvaprobe_tests::{
    observe::misrouted,
    process::{Running, binary, output, until},
};
use probe_user::{
    lab::{netns::Namespace, topology::Topology},
    report::{document::Report, event::Event},
};
use std::process::Command;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn plain(args: &[&str]) -> std::process::Output {
    Command::new(binary()).args(args).output().expect("nvaprobe starts")
}

#[test]
fn help_teaches() {
    let help = text(&plain(&["--help"]).stdout);
    for word in ["doctor", "run", "lab", "schema", "completions", "Exit status", "ready", "168.63.129.16"] {
        assert!(help.contains(word), "{word} in {help}");
    }
    assert!(!help.contains("guardian"), "{help}");
    let doctor = text(&plain(&["doctor", "--help"]).stdout);
    for flag in
        ["--nic", "--source", "--ingress", "--tc", "--for", "--json", "--profile", "--no-default-sources"]
    {
        assert!(doctor.contains(flag), "{flag} in {doctor}");
    }
    assert!(help.lines().chain(doctor.lines()).all(|line| line.chars().count() <= 100));
}

#[test]
fn usage_errors_are_exit_2_and_say_what_to_do() {
    for (args, says) in [
        (vec!["dance"], "dance"),
        (vec!["doctor", "--for", "soon"], "30s"),
        (vec!["doctor", "--source", "eth0"], "prefix"),
        (vec!["doctor", "--ring", "5000"], "power of two"),
        (vec!["doctor", "--profile", "custom"], "--source"),
        (vec!["lab", "no-such-fault"], "misrouted"),
    ] {
        let refused = plain(&args);
        assert_eq!(refused.status.code(), Some(2), "{args:?}");
        assert!(text(&refused.stderr).contains(says), "{args:?}: {}", text(&refused.stderr));
    }
}

#[test]
fn nics_that_cannot_be_judged_are_named() {
    let topology = Topology::two_armed().expect("a topology");
    for (nic, says) in [("eth7", "there are: eth0, eth1"), ("lo", "loopback")] {
        let refused = output(&topology.nva, &["doctor", "--nic", nic, "--for", "1s"]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains(says), "{}", text(&refused.stderr));
    }
    let empty = Namespace::new("empty").expect("a namespace");
    let refused = output(&empty, &["doctor", "--for", "1s"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("no physical NIC"), "{}", text(&refused.stderr));
}

#[test]
fn schemas_and_completions_are_printed() {
    for what in ["report", "event"] {
        let schema = plain(&["schema", what]);
        let schema: serde_json::Value = serde_json::from_slice(&schema.stdout).expect("JSON");
        assert!(schema.get("$schema").is_some());
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&plain(&["completions", shell]).stdout);
        assert!(script.contains("nvaprobe") && script.contains("doctor"), "{shell}");
    }
}

#[test]
fn doctor_says_it_in_the_first_line_and_in_the_exit_code() {
    let (topology, _listener, _probers) = misrouted();
    let doctor = output(&topology.nva, &["doctor", "--for", "3s"]);
    assert_eq!(doctor.status.code(), Some(1));
    let out = text(&doctor.stdout);
    let first = out.lines().next().unwrap_or_default();
    assert_eq!(first, "FAIL  eth1 10.4.3.101:8008: probe replies leave by eth0 (cause: route)");
    assert!(out.contains("ip rule add from 10.4.3.101 to 168.63.129.16 lookup 201 priority 100"), "{out}");
    assert!(!out.contains('\x1b'), "no colour in a pipe");
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    assert!(text(&doctor.stderr).starts_with("ready"), "{}", text(&doctor.stderr));
    topology.policy_routing(1).expect("policy routing");
    let healthy = output(&topology.nva, &["doctor", "--for", "3s", "--json"]);
    assert_eq!(healthy.status.code(), Some(0), "{}", text(&healthy.stdout));
    let report: Report = serde_json::from_slice(&healthy.stdout).expect("one JSON document");
    assert_eq!(report.schema, "nvaprobe.report/1");
    assert_eq!(report.probes.len(), 2);
    assert!(report.flows.is_empty() && report.ha_ports.is_empty());
}

#[test]
fn run_says_each_attempt_each_change_and_the_cause() {
    let (topology, _listener, probers) = misrouted();
    let json = Running::start(&topology.nva, &["run", "--json"]);
    let sent = probers[1].log().len();
    until("some probes were sent", || probers[1].log().len() > sent + 3);
    json.signal(Signal::SIGTERM);
    let (code, out, _) = json.wait();
    assert_eq!(code, Some(1));
    let events: Vec<Event> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    let attempts =
        events.iter().filter(|event| matches!(event, Event::Attempt(a) if a.nic == "eth1")).count();
    assert!(attempts >= 3, "{out}");
    assert!(events.iter().any(|event| matches!(event, Event::Series(change) if change.nic == "eth1")));
    // The second attempt confirms that it is a probe; from then on the cause is said once.
    let findings = events.iter().filter(|event| matches!(event, Event::Finding { .. })).count();
    assert_eq!(findings, 1, "{out}");
    let human = Running::start(&topology.nva, &["run"]);
    let sent = probers[0].log().len();
    until("some probes were sent", || probers[0].log().len() > sent + 3);
    human.signal(Signal::SIGINT);
    let (_, out, _) = human.wait();
    assert!(out.contains("SYN-ACK left by eth0"), "{out}");
    assert!(out.contains("ip rule add"), "{out}");
}

#[test]
fn the_lab_shows_the_fault_the_fix_and_the_cure() {
    let lab = plain(&["lab", "misrouted", "--for", "4s"]);
    let out = text(&lab.stdout);
    assert_eq!(lab.status.code(), Some(0), "{out}{}", text(&lab.stderr));
    for words in [
        "FAIL  eth1 10.4.3.101:8008: probe replies leave by eth0 (cause: route)",
        "168.63.129.16 via 10.4.2.1 dev eth0",
        "Applying the fix",
        "OK    2 probed ports answered",
    ] {
        assert!(out.contains(words), "{words} in {out}");
    }
    let lab = plain(&["lab", "--json", "--for", "4s"]);
    let document: serde_json::Value = serde_json::from_slice(&lab.stdout).expect("one JSON document");
    assert_eq!(document["schema"], "nvaprobe.report/1");
    assert_eq!(document["lab"]["cured"], true);
    assert_eq!(document["findings"][0]["code"], "ASYMMETRIC");
}

/// Every `nvaprobe` command line shown in README and docs parses; those two of cargo are CI's own.
#[test]
fn shown_commands_exist() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let mut pages = vec![root.join("README.md")];
    pages.extend(std::fs::read_dir(root.join("docs")).expect("docs").flatten().map(|entry| entry.path()));
    let mut shown = 0;
    for page in pages.iter().filter(|page| page.extension().is_some_and(|e| e == "md")) {
        let content = std::fs::read_to_string(page).expect("readable");
        for line in content.lines() {
            let Some(command) = line.trim().strip_prefix("nvaprobe ") else { continue };
            let words: Vec<&str> =
                command.split(" #").next().unwrap_or_default().split_whitespace().collect();
            // `--help` stops after parsing what stands before it.
            let parsed = plain(&[words.as_slice(), &["--help"]].concat());
            assert!(parsed.status.success(), "{}: {line}: {}", page.display(), text(&parsed.stderr));
            shown += 1;
        }
    }
    assert!(shown >= 3, "README shows commands");
}
