//! Anonymous network namespaces.
//!
//! A namespace lives as long as a file descriptor, a socket or a thread refers to it. Ours have no name in
//! /run/netns: when this process dies, even by SIGKILL, the kernel takes the namespace and its devices apart.

use std::{
    any::Any,
    fs::File,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    thread,
};

use nix::sched::{CloneFlags, setns, unshare};

use super::{Error, Result, netlink::Netlink};

/// A network namespace held by a file descriptor. Clones share it.
#[derive(Clone, Debug)]
pub struct Namespace {
    label: String,
    fd: Arc<OwnedFd>,
}

impl Namespace {
    /// Makes an empty namespace with `lo` up. The label appears in messages only.
    pub fn new(label: impl Into<String>) -> Result<Self> {
        let label = label.into();
        let made = in_thread(&label, || {
            unshare(CloneFlags::CLONE_NEWNET)
                .map_err(|e| Error::system(format!("make network namespace '{label}'"), e))?;
            // The thread's own entry: /proc/self/ns is the namespace of the main thread.
            let fd = open("/proc/thread-self/ns/net")?;
            Netlink::here()?.up("lo")?;
            Ok(fd)
        })?;
        Ok(Self { label, fd: Arc::new(made?) })
    }

    /// A namespace that exists already, such as `/proc/1/ns/net` or another process's [`Namespace::path`].
    pub fn open(label: impl Into<String>, path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self { label: label.into(), fd: Arc::new(open(path)?) })
    }

    /// The namespace that the calling thread is in.
    pub fn current(label: impl Into<String>) -> Result<Self> {
        Self::open(label, "/proc/thread-self/ns/net")
    }

    pub fn label(&self) -> &str {
        &self.label
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// A path by which other processes can enter while this process lives: `nsenter --net=PATH`.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.fd.as_raw_fd()))
    }

    /// The inode that identifies the namespace, as in `net:[4026531840]`.
    pub fn inode(&self) -> Result<u64> {
        nix::sys::stat::fstat(&*self.fd)
            .map(|stat| stat.st_ino)
            .map_err(|e| Error::system(format!("identify network namespace '{}'", self.label), e))
    }

    /// Runs `work` on a fresh thread inside the namespace and waits for it. Sockets it returns stay in the
    /// namespace; the caller's thread never leaves its own. A panic becomes [`Error::Panicked`].
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        in_thread(&self.label, || {
            setns(&*self.fd, CloneFlags::CLONE_NEWNET)
                .map_err(|e| Error::system(format!("enter network namespace '{}'", self.label), e))?;
            Ok(work())
        })?
    }

    /// Runs `work` inside the namespace with a netlink connection to it.
    pub fn netlink<T: Send>(&self, work: impl FnOnce(&Netlink) -> Result<T> + Send) -> Result<T> {
        self.run(|| Netlink::here().and_then(|netlink| work(&netlink)))?
    }

    /// Makes `command` start inside the namespace. `/sys` stays that of the caller: a child must not ask it
    /// about NICs.
    pub fn command<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let fd = Arc::clone(&self.fd);
        let enter = move || setns(&*fd, CloneFlags::CLONE_NEWNET).map_err(std::io::Error::from);
        // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
        unsafe { command.pre_exec(enter) }
    }
}

fn open(path: impl AsRef<Path>) -> Result<OwnedFd> {
    let path = path.as_ref();
    File::open(path)
        .map(OwnedFd::from)
        .map_err(|e| Error::system(format!("open network namespace {}", path.display()), e))
}

/// Runs `work` on a scoped thread, so that its namespace cannot leak into the caller's thread.
fn in_thread<T: Send>(label: &str, work: impl FnOnce() -> T + Send) -> Result<T> {
    thread::scope(|scope| {
        let started = thread::Builder::new()
            .name(format!("ns-{label}"))
            .spawn_scoped(scope, work)
            .map_err(|e| Error::system("start a thread", e))?;
        started
            .join()
            .map_err(|panic| Error::Panicked { namespace: label.to_owned(), message: message(&*panic) })
    })
}

fn message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
