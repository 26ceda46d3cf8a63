//! A network namespace that lasts as long as a thread.

use std::{process::Command, thread};

/// Runs the body in a network namespace of its own, which ends with the thread.
pub fn in_namespace(setup: &[&str], body: impl FnOnce() + Send) {
    thread::scope(|scope| {
        let body = || {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).expect("unshare needs root");
            for commands in setup {
                sh(commands);
            }
            body();
        };
        if let Err(panic) = scope.spawn(body).join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Standard output of a shell script that must succeed.
pub fn sh(commands: &str) -> String {
    let output = Command::new("sh").args(["-e", "-c", commands]).output().expect("sh runs");
    assert!(output.status.success(), "{commands}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("tools speak UTF-8")
}

/// Runs a future on this thread.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}
