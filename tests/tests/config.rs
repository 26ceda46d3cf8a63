//! The configuration as a user meets it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use nix::sys::signal::Signal;
use nvaprobe_tests::process::{Running, binary, output};
use probe_user::{
    config::{self, Config},
    lab::topology::Topology,
};
use tempfile::TempDir;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn plain(args: &[&str]) -> Output {
    Command::new(binary()).args(args).output().expect("nvaprobe starts")
}

fn file(folder: &TempDir, name: &str, content: &str) -> String {
    let path = folder.path().join(name);
    fs::write(&path, content).expect("a file can be written");
    path.to_str().expect("UTF-8").to_owned()
}

fn page() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(PathBuf::from).expect("the workspace");
    fs::read_to_string(root.join("docs/configuration.md")).expect("the page is there")
}

/// Fenced blocks of one language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    page.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_bad_file_starts_nothing_and_says_where() {
    let topology = Topology::two_armed().expect("a topology");
    let folder = TempDir::new().expect("a folder");
    let bad = file(&folder, "bad.toml", "nics = [\"eth0\", \"eth1\"]\nintervall = \"5s\"\nthreshold = 0\n");
    for command in [vec!["doctor", "--for", "1s"], vec!["run"]] {
        let refused = output(&topology.nva, &[command.as_slice(), &["--config", &bad]].concat());
        assert_eq!(refused.status.code(), Some(2));
        assert!(refused.stdout.is_empty(), "{}", text(&refused.stdout));
        let said = text(&refused.stderr);
        assert!(
            said.starts_with("nvaprobe: the configuration has 2 errors; nothing was started\n"),
            "{said}"
        );
        assert!(said.contains(&format!("{bad}:2:1: unknown key `intervall`")), "{said}");
        assert!(said.contains(&format!("{bad}:3:13: `threshold`")), "{said}");
        assert!(said.contains("did you mean `interval`?"), "{said}");
        assert!(!said.contains("ready"), "{said}");
    }
    // Without privileges nothing can be attached: the bad file is refused before they are looked at, the good one after.
    let good = file(&folder, "good.toml", "nics = [\"eth0\"]\n");
    for (path, says) in [(&bad, "the configuration has 2 errors"), (&good, "CAP_BPF")] {
        let mut unprivileged = Command::new("setpriv");
        unprivileged.args(["--bounding-set", "-all", "--inh-caps", "-all"]).arg(binary());
        unprivileged.args(["run", "--config", path]);
        topology.nva.command(&mut unprivileged);
        let refused = unprivileged.output().expect("setpriv starts");
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains(says), "{}", text(&refused.stderr));
    }
}

#[test]
fn a_file_does_what_its_flags_do() {
    let topology = Topology::two_armed().expect("a topology");
    let folder = TempDir::new().expect("a folder");
    let content = "profile = \"custom\"\nsources = [\"10.4.2.1\"]\nnics = [\"eth1\"]\ningress = \"tc\"\ntc = \"clsact\"\n";
    let path = file(&folder, "nvaprobe.toml", content);
    let ready = |args: &[&str]| {
        let running = Running::start(&topology.nva, &[&["run", "--config", &path], args].concat());
        let ready = running.ready.clone();
        running.signal(Signal::SIGTERM);
        assert_eq!(running.wait().0, Some(0));
        ready
    };
    assert_eq!(ready(&[]), "ready: observing eth1 (tc in, clsact out); probes from 10.4.2.1\n");
    // Lists replace lists, a profile brings its sources.
    let other =
        ready(&["--nic", "eth0", "--source", "10.4.3.1", "--profile", "azure-lb", "--ingress", "xdp"]);
    let expected = "ready: observing eth0 (xdp-native in, clsact out); \
                    probes from 168.63.129.16, fe80::1234:5678:9abc, 10.4.3.1\n";
    assert_eq!(other, expected);
}

/// A default that has no effect yet is said after `ready`, which scripts wait for.
#[test]
fn flows_that_are_asked_for_are_answered() {
    let topology = Topology::two_armed().expect("a topology");
    for (args, noted) in [
        (vec!["run"], false),
        (vec!["run", "--flows", "off"], false),
        (vec!["run", "--flows", "control"], true),
    ] {
        let running = Running::start(&topology.nva, &args);
        running.signal(Signal::SIGTERM);
        let (_, _, said) = running.wait();
        assert_eq!(said.contains("flows are not followed in this version"), noted, "{args:?}: {said}");
    }
}

#[test]
fn service_tags_bring_sources() {
    let topology = Topology::two_armed().expect("a topology");
    let folder = TempDir::new().expect("a folder");
    let tags = r#"{"values": [{"name": "AzureTrafficManager", "properties": {"addressPrefixes": ["40.68.30.66/32"]}}]}"#;
    let tags = file(&folder, "tags.json", tags);
    let args = ["run", "--profile", "azure-traffic-manager", "--service-tags", &tags];
    let running = Running::start(&topology.nva, &args);
    assert!(running.ready.ends_with("probes from 40.68.30.66\n"), "{}", running.ready);
    running.signal(Signal::SIGTERM);
    running.wait();
    let refused = plain(&[args.as_slice(), &["--service-tag", "TrafficManager"]].concat());
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("near it are AzureTrafficManager"), "{}", text(&refused.stderr));
}

#[test]
fn bad_flags_are_exit_2_and_say_what_to_do() {
    for (args, says) in [
        (vec!["--interval", "100ms"], "200ms is the shortest"),
        (vec!["--threshold", "0"], "write 1"),
        (vec!["--status", "299-200"], "200-299"),
        (vec!["--expect", "nic=eth1,prot=8008"], "did you mean"),
        (vec!["--expect", "nic=eth1,port=8008", "--nic", "eth0"], "the NICs to judge are eth0"),
        (vec!["--heal", "on"], "healing is not available in this version"),
        (vec!["--flows", "full"], "not available in this version"),
        (vec!["--profile", "aws"], "load balancer's nodes"),
        (vec!["--profile", "azure-traffic-manager"], "--service-tags FILE"),
        (vec!["--service-tags", "/nowhere/tags.json", "--service-tag", "X"], "/nowhere/tags.json"),
        (vec!["--config", "/nowhere/nvaprobe.toml"], "cannot read configuration /nowhere/nvaprobe.toml"),
    ] {
        let refused = plain(&[&["run"], args.as_slice()].concat());
        assert_eq!(refused.status.code(), Some(2), "{args:?}");
        assert!(text(&refused.stderr).contains(says), "{args:?}: {}", text(&refused.stderr));
    }
}

#[test]
fn the_pages_examples_are_valid() {
    let page = page();
    let examples = blocks(&page, "toml");
    assert!(examples.len() >= 3);
    for example in examples {
        let config = config::parse(&example).unwrap_or_else(|errors| panic!("{errors}\n{example}"));
        assert_ne!(config, Config::default());
    }
}

/// The console block is what the program says about the file that the block shows.
#[test]
fn the_pages_errors_are_real() {
    let folder = TempDir::new().expect("a folder");
    file(&folder, "nvaprobe.toml", "profile = \"azure-lb\"\nnics = \"eth0\"\ntreshold = 2\n");
    let refused = Command::new(binary())
        .args(["doctor", "--config", "nvaprobe.toml"])
        .current_dir(folder.path())
        .output()
        .expect("nvaprobe starts");
    let shown = blocks(&page(), "console");
    let [shown] = shown.as_slice() else { panic!("one block: {shown:#?}") };
    let (_, shown) = shown.split_once('\n').expect("a command and what it says");
    assert_eq!(text(&refused.stderr), shown);
}

#[test]
fn the_pages_table_has_every_key_and_its_flag() {
    let page = page();
    let help = text(&plain(&["doctor", "--help"]).stdout);
    let schema = plain(&["schema", "config"]);
    let schema: serde_json::Value = serde_json::from_slice(&schema.stdout).expect("JSON");
    let keys = schema["properties"].as_object().expect("properties");
    for key in keys.keys() {
        let flag = config::flag(key);
        assert!(page.contains(&format!("| `{key}` | `{flag}`")), "{key} and {flag} in the table");
        assert!(help.contains(&format!("{flag} ")) || help.contains(&format!("{flag}[")), "{flag} in {help}");
    }
    // And the other way round: every flag but those about one run has a key.
    let flags = help.lines().filter_map(|line| line.trim_start().strip_prefix("--"));
    let words = flags.filter_map(|line| line.split(|c: char| !(c.is_alphanumeric() || c == '-')).next());
    for flag in words.filter(|flag| !["config", "json", "for", "no-observe", "help"].contains(flag)) {
        assert!(keys.keys().any(|key| config::flag(key) == format!("--{flag}")), "--{flag} has a key");
    }
}
