//! Cleans up after a death on the clsact path.
//!
//! TCX and XDP links die with the process that holds them; netlink filters do not. So before the first such
//! filter is attached, a small child process starts that holds one end of a pipe. When the pipe closes, whatever
//! closed it, the child removes our filters from the devices it was told of, and ends.

use std::{
    io::{BufRead, Write},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
};

use crate::{capture::live::clsact, host};

/// Name of the hidden subcommand that the child runs.
pub const SUBCOMMAND: &str = "guardian";

/// The running child, seen from the observer.
#[derive(Debug)]
pub struct Guardian {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Guardian {
    /// Starts the child from `binary`, in this thread's network namespace.
    pub fn start(binary: &Path) -> std::io::Result<Self> {
        let mut child = Command::new(binary)
            .arg(SUBCOMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let pipe = child.stdin.take();
        Ok(Self { child, pipe })
    }

    /// Tells it of a device, before anything is attached there.
    pub fn watch(&mut self, name: &str, ifindex: u32, created: bool) -> std::io::Result<()> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        writeln!(pipe, "{ifindex} {} {name}", u8::from(created))?;
        pipe.flush()
    }
}

impl Drop for Guardian {
    /// Waits until the child has cleaned up, so that nothing is left when the observer has ended.
    fn drop(&mut self) {
        self.pipe = None;
        let _ = self.child.wait();
    }
}

/// The child's whole life. Returns when the pipe has closed and everything of ours is gone.
pub fn run() -> anyhow::Result<()> {
    // A terminal's Ctrl-C and a supervisor's signal to the group must not end it before its work is done.
    let _ = nix::unistd::setsid();
    for signal in [nix::sys::signal::SIGINT, nix::sys::signal::SIGTERM, nix::sys::signal::SIGHUP] {
        // SAFETY: SIG_IGN installs no handler, so no async-signal-safety question arises.
        unsafe { nix::sys::signal::signal(signal, nix::sys::signal::SigHandler::SigIgn) }?;
    }
    let mut devices: Vec<(u32, bool, String)> = Vec::new();
    for line in std::io::stdin().lock().lines() {
        // A torn last line means that its writer died before it attached anything there.
        let Ok(line) = line else { break };
        devices.extend(parse(&line));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let netlink = host::netlink::Netlink::open()?;
        for (ifindex, created, name) in devices {
            let _ = clsact::clean(&netlink.handle, &name, ifindex, created).await;
        }
        Ok(())
    })
}

fn parse(line: &str) -> Option<(u32, bool, String)> {
    let mut words = line.splitn(3, ' ');
    let ifindex = words.next()?.parse().ok()?;
    let created = words.next()? == "1";
    Some((ifindex, created, words.next()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn lines_name_a_device_and_torn_ones_are_skipped() {
        assert_eq!(parse("7 1 eth0"), Some((7, true, "eth0".to_owned())));
        assert_eq!(parse("7 0 a b"), Some((7, false, "a b".to_owned())));
        assert_eq!(parse("7 1"), None);
        assert_eq!(parse(""), None);
    }
}
