//! Services of the appliance: what the probes find.

mod answer;
mod connection;
mod deaf;
mod request;
mod serve;

use std::{
    ffi::OsString,
    net::{SocketAddr, TcpListener},
    os::fd::AsFd,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{
        AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, listen, setsockopt, socket,
        sockopt::{BindToDevice, IpTransparent, ReuseAddr},
    },
};

pub use self::{
    answer::{After, Answer, Piece, Response},
    deaf::Deaf,
    serve::Serve,
};
use super::{Error, Result, netns::Namespace};

/// How often a thread looks whether it shall end, in milliseconds.
const PATIENCE: u16 = 50;

/// A running service; it ends when this is dropped.
pub struct Listener {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    serve: Mutex<Serve>,
    stop: AtomicBool,
    accepted: AtomicUsize,
    requests: AtomicUsize,
    turns: AtomicUsize,
}

impl Shared {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// What this client gets at this turn.
    fn serve(&self, client: SocketAddr, turn: usize) -> Serve {
        self.serve.lock().unwrap_or_else(PoisonError::into_inner).of(client, turn).clone()
    }

    fn turn(&self) -> usize {
        self.turns.fetch_add(1, Ordering::Relaxed)
    }
}

impl Listener {
    /// Listens on `address` inside the namespace, bound to a device if one is named.
    pub fn start(
        namespace: &Namespace,
        address: SocketAddr,
        device: Option<&str>,
        serve: Serve,
    ) -> Result<Self> {
        let listener = namespace.run(|| open(address, device, Backlog::MAXCONN))??;
        Self::serve(listener, serve)
    }

    /// Listens on `address` for connections to any other (`IP_TRANSPARENT`), as the proxy behind a TPROXY rule does.
    pub fn transparent(namespace: &Namespace, address: SocketAddr, serve: Serve) -> Result<Self> {
        let listener = namespace.run(|| {
            let listener = open(address, None, Backlog::MAXCONN)?;
            setsockopt(&listener, IpTransparent, &true)
                .map_err(|e| Error::system(format!("listen transparently on {address}"), e))?;
            Ok(listener)
        })??;
        Self::serve(listener, serve)
    }

    fn serve(listener: TcpListener, serve: Serve) -> Result<Self> {
        let address = listener.local_addr().map_err(|e| Error::system("read a listener's address", e))?;
        let shared = Arc::new(Shared {
            serve: Mutex::new(serve),
            stop: AtomicBool::new(false),
            accepted: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
            turns: AtomicUsize::new(0),
        });
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name(format!("listener-{}", address.port()))
            .spawn(move || accept(&listener, &of_thread))
            .map_err(|e| Error::system("start a thread", e))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Serves otherwise from the next connection or request on.
    pub fn set(&self, serve: Serve) {
        *self.shared.serve.lock().unwrap_or_else(PoisonError::into_inner) = serve;
    }

    /// Connections accepted so far.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// Requests read so far.
    pub fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::Relaxed)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn open(address: SocketAddr, device: Option<&str>, backlog: Backlog) -> Result<TcpListener> {
    let what = || format!("listen on {address}");
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let fd = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)
        .map_err(|e| Error::system(what(), e))?;
    setsockopt(&fd, ReuseAddr, &true).map_err(|e| Error::system(what(), e))?;
    if let Some(device) = device {
        setsockopt(&fd, BindToDevice, &OsString::from(device))
            .map_err(|e| Error::system(format!("bind to device {device}"), e))?;
    }
    let raw = std::os::fd::AsRawFd::as_raw_fd(&fd);
    bind(raw, &SockaddrStorage::from(address)).map_err(|e| Error::system(what(), e))?;
    listen(&fd, backlog).map_err(|e| Error::system(what(), e))?;
    let listener = TcpListener::from(fd);
    listener.set_nonblocking(true).map_err(|e| Error::system(what(), e))?;
    Ok(listener)
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut connections = Vec::new();
    while !shared.stopped() {
        let mut fds = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut fds, PollTimeout::from(PATIENCE));
        while let Ok((stream, client)) = listener.accept() {
            shared.accepted.fetch_add(1, Ordering::Relaxed);
            let shared = Arc::clone(shared);
            connections.push(thread::spawn(move || connection::serve(stream, client, &shared)));
        }
        connections.retain(|connection: &JoinHandle<()>| !connection.is_finished());
    }
    for connection in connections {
        let _ = connection.join();
    }
}
