//! The `nvaprobe` binary as a process in a namespace.

use std::{
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, ChildStderr, Command, Output, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use probe_user::lab::netns::Namespace;

/// Cargo puts it beside the folder of the test binaries.
pub fn binary() -> PathBuf {
    let test = std::env::current_exe().expect("the test binary has a path");
    let profile = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST");
    let binary = profile.join("nvaprobe");
    assert!(
        binary.exists(),
        "{} is missing: build the workspace first (cargo xtask test does)",
        binary.display()
    );
    binary
}

/// A command line of it in a namespace.
pub fn command(namespace: &Namespace, args: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(args).env_remove("RUST_LOG").env("RUST_BACKTRACE", "0");
    namespace.command(&mut command);
    command
}

/// Runs it to its end.
pub fn output(namespace: &Namespace, args: &[&str]) -> Output {
    command(namespace, args).output().expect("nvaprobe starts")
}

/// Runs another program in the namespace and returns what it prints.
pub fn tool(namespace: &Namespace, line: &str) -> String {
    let mut command = Command::new("sh");
    command.args(["-c", line]);
    let output = namespace.command(&mut command).output().expect("sh starts");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A running nvaprobe. Killed when dropped.
pub struct Running {
    pub child: Child,
    stderr: BufReader<ChildStderr>,
    pub ready: String,
}

impl Running {
    /// Starts it and waits for its `ready` line.
    pub fn start(namespace: &Namespace, args: &[&str]) -> Self {
        let mut child = command(namespace, args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("nvaprobe starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut ready = String::new();
        stderr.read_line(&mut ready).expect("standard error can be read");
        assert!(ready.starts_with("ready"), "not ready: {ready}");
        Self { child, stderr, ready }
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("the process is ours");
    }

    /// Waits for its end. Returns the exit code, standard output and the rest of standard error.
    pub fn wait(mut self) -> (Option<i32>, String, String) {
        let mut out = String::new();
        let mut err = String::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            stdout.read_to_string(&mut out).expect("standard output can be read");
        }
        self.stderr.read_to_string(&mut err).expect("standard error can be read");
        let status = self.child.wait().expect("the process is ours");
        (status.code(), out, err)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until `done`, for at most ten seconds.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(10), "{what}: not within 10 s");
        std::thread::sleep(Duration::from_millis(10));
    }
}
