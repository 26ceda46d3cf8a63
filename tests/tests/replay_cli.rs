//! `nvaprobe replay` as a command: the page's own examples, bad files, and a pipeline that is interrupted.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use nvaprobe_tests::{
    captured::{Step, misrouted, pcap, pcapng},
    process::{binary, until},
};

const PAGE: &str = include_str!("../../docs/replay.md");

fn nvaprobe(folder: &Path) -> Command {
    let mut command = Command::new(binary());
    command.current_dir(folder).env_remove("RUST_LOG").env("RUST_BACKTRACE", "0").env_remove("NO_COLOR");
    command
}

fn run(folder: &Path, args: &[&str]) -> Output {
    nvaprobe(folder).args(args).stdin(Stdio::null()).output().expect("nvaprobe starts")
}

fn error(folder: &Path, args: &[&str]) -> String {
    let output = run(folder, args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), [].as_slice()), "{said}");
    said
}

/// The files that the page speaks of.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).expect("a file");
    let steps = misrouted(6);
    let of = |nic| steps.iter().filter(move |step| step.nic == nic);
    write("any.pcap", &pcap(276, &steps));
    write("host.eth0.pcap", &pcap(1, of(0)));
    write("host.eth1.pcap", &pcap(1, of(1)));
    write("host.pcapng", &pcapng(1, &["eth0", "eth1"], &steps));
    let packed =
        Command::new("gzip").arg(folder.path().join("host.eth1.pcap")).status().expect("gzip starts");
    assert!(packed.success());
    folder
}

/// The lines of the page's blocks that start a replay.
fn examples() -> Vec<&'static str> {
    PAGE.lines().filter(|line| line.starts_with("nvaprobe replay ")).collect()
}

#[test]
fn the_examples_of_the_page_run() {
    let folder = folder();
    let examples = examples();
    assert_eq!(examples.len(), 6);
    for line in examples {
        let line = line.replacen("nvaprobe", &format!("'{}'", binary().display()), 1);
        let output =
            Command::new("sh").args(["-c", &line]).current_dir(folder.path()).output().expect("sh starts");
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(
            output.status.code(),
            Some(1),
            "{line}: {said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(output.stderr.is_empty(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains("ASYMMETRIC"), "{line}: {said}");
    }
}

#[test]
fn the_page_shows_what_is_printed() {
    let folder = folder();
    let args: Vec<&str> = examples()[0].split_whitespace().skip(1).collect();
    let output = run(folder.path(), &args);
    let shown =
        PAGE.split_once("```console\n").and_then(|(_, rest)| rest.split_once("```\n")).expect("a block").0;
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed.split("\nflows").next(), Some(shown), "{printed}");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let folder = folder();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).expect("a file");
    write("empty.pcap", b"");
    write("script.sh", b"#!/bin/sh\n");
    for (args, says) in [
        (&["replay", "gone.pcap"] as &[&str], "cannot open gone.pcap: No such file"),
        (&["replay", "empty.pcap"], "empty.pcap: is empty"),
        (&["replay", "script.sh"], "script.sh: is not a capture: it begins with 23 21 2f 62"),
        (&["replay", "."], ".: cannot be read: Is a directory"),
        (&["replay"], "required"),
        (&["replay", "--nic", "eth0", "any.pcap"], "write eth0=FILE"),
        (&["replay", "--nic", "eth0=any.pcap"], "more than one NIC"),
        (&["replay", "any.pcap", "./any.pcap"], "given twice"),
        (&["replay", "--profile", "custom", "any.pcap"], "--source ADDR"),
    ] {
        let said = error(folder.path(), args);
        assert!(said.contains(says), "{args:?}: {said}");
    }
}

#[test]
fn a_damaged_file_is_judged_and_its_damage_told() {
    let folder = folder();
    let whole = fs::read(folder.path().join("any.pcap")).expect("a capture");
    fs::write(folder.path().join("cut.pcap"), &whole[..whole.len() - 3]).expect("a file");
    let output = run(folder.path(), &["replay", "--nic", "eth0=2", "--nic", "eth1=3", "cut.pcap"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("eth1 10.4.3.101:8008 ASYMMETRIC by eth0"), "{said}");
    assert!(said.contains("cut.pcap is damaged at byte"), "{said}");
    assert!(said.contains("DEGRADED"), "{said}");
}

/// Ctrl-C reaches every program of a pipeline: the capture ends, and is still judged.
#[test]
fn an_interrupted_pipeline_is_judged_and_a_second_interrupt_ends_it() {
    let steps = misrouted(6);
    let bytes = pcap(276, &steps);
    let (first, rest) = bytes.split_at(bytes.len() / 2);
    for twice in [false, true] {
        let mut command = nvaprobe(Path::new("/"));
        command.args(["replay", "--json", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("nvaprobe starts");
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(first).expect("it reads");
        let status = format!("/proc/{}/status", child.id());
        let caught = || {
            let status = fs::read_to_string(&status).expect("it runs");
            let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a mask").trim();
            u64::from_str_radix(mask, 16).expect("a mask") >> (Signal::SIGINT as u64 - 1) & 1 == 1
        };
        until("SIGINT is caught", caught);
        let pid = Pid::from_raw(child.id() as i32);
        kill(pid, Signal::SIGINT).expect("the process is ours");
        until("SIGINT was delivered", || !caught());
        if twice {
            kill(pid, Signal::SIGINT).expect("the process is ours");
            assert_eq!(child.wait().expect("the process is ours").code(), None, "ended by the signal");
            continue;
        }
        std::thread::sleep(Duration::from_millis(20));
        stdin.write_all(rest).expect("it reads on");
        drop(stdin);
        let output = child.wait_with_output().expect("the process is ours");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a report");
        assert_eq!(output.status.code(), Some(1));
        let probes = report["probes"].as_array().expect("series").iter();
        assert_eq!(probes.map(|series| series["attempts"].as_u64().unwrap_or(0)).sum::<u64>(), 12);
        assert_eq!(report["observer"]["state"], "complete");
    }
}

/// Reading a capture a hundred times as large takes no more memory.
#[test]
fn memory_does_not_grow_with_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let peak = |name: &str, copies: u64| {
        let mut steps: Vec<Step> = Vec::new();
        for copy in 0..copies {
            let later = |step: Step| Step { at: step.at + copy * 35_000_000_000, ..step };
            steps.extend(misrouted(6).into_iter().map(later));
        }
        fs::write(folder.path().join(name), pcap(276, &steps)).expect("a file");
        let mut child = nvaprobe(folder.path())
            .args(["replay", name])
            .stdout(Stdio::null())
            .spawn()
            .expect("nvaprobe starts");
        wait_usage(&mut child)
    };
    let (small, large) = (peak("small.pcap", 1), peak("large.pcap", 400));
    assert!(large < small + 8 * 1024, "{small} KiB, then {large} KiB");
}

/// Waits for a child and tells its peak resident memory, KiB.
fn wait_usage(child: &mut std::process::Child) -> i64 {
    let mut status = 0;
    // SAFETY: an all-zero rusage is valid: it holds integers only.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: waits for our own child; both places are valid for the call.
    let waited = unsafe { libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut usage) };
    assert_eq!(waited, child.id() as i32);
    usage.ru_maxrss
}
