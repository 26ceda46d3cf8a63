//! Services of the appliance: what the probes find.

use std::{
    ffi::OsString,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{
        AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, listen, setsockopt, socket,
        sockopt::{BindToDevice, ReuseAddr},
    },
};

use super::{Error, Result, netns::Namespace};

/// How often a thread looks whether it shall end.
const PATIENCE: u16 = 50;

/// What a service does with a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Serve {
    /// Accept and hold until the client closes.
    Hold,
    /// Answer each request with this status, after a delay.
    Http { status: u16, delay: Duration },
    /// Read the request and never answer.
    Silence,
    /// Read the request and close.
    Close,
}

impl Serve {
    /// 200 at once.
    pub const OK: Self = Self::Http { status: 200, delay: Duration::ZERO };
}

/// A running service; it ends when this is dropped.
pub struct Listener {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Listens on `address` inside the namespace, bound to a device if one is named.
    pub fn start(
        namespace: &Namespace,
        address: SocketAddr,
        device: Option<&str>,
        serve: Serve,
    ) -> Result<Self> {
        let listener = namespace.run(|| open(address, device))??;
        let stop = Arc::new(AtomicBool::new(false));
        let of_thread = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name(format!("listener-{}", address.port()))
            .spawn(move || accept(&listener, &serve, &of_thread))
            .map_err(|e| Error::system("start a thread", e))?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn open(address: SocketAddr, device: Option<&str>) -> Result<TcpListener> {
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
    listen(&fd, Backlog::MAXCONN).map_err(|e| Error::system(what(), e))?;
    let listener = TcpListener::from(fd);
    listener.set_nonblocking(true).map_err(|e| Error::system(what(), e))?;
    Ok(listener)
}

fn accept(listener: &TcpListener, serve: &Serve, stop: &Arc<AtomicBool>) {
    let mut connections = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let mut fds = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut fds, PollTimeout::from(PATIENCE));
        while let Ok((stream, _)) = listener.accept() {
            let (serve, stop) = (serve.clone(), Arc::clone(stop));
            connections.push(thread::spawn(move || connection(stream, &serve, &stop)));
        }
        connections.retain(|connection: &JoinHandle<()>| !connection.is_finished());
    }
    for connection in connections {
        let _ = connection.join();
    }
}

/// Serves until the client closes, an error, or the end.
fn connection(mut stream: TcpStream, serve: &Serve, stop: &AtomicBool) {
    let patience = Duration::from_millis(u64::from(PATIENCE));
    if stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(patience))).is_err() {
        return;
    }
    let mut request = Vec::new();
    let mut buffer = [0; 2048];
    while !stop.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => request.extend_from_slice(&buffer[..count]),
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) =>
            {
                continue;
            }
            Err(_) => return,
        }
        let Some(end) = request.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
        request.drain(..end + 4);
        match serve {
            Serve::Hold | Serve::Silence => {}
            Serve::Close => return,
            Serve::Http { status, delay } => {
                thread::sleep(*delay);
                let answer = format!("HTTP/1.1 {status} Lab\r\nContent-Length: 2\r\n\r\nok");
                if stream.write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
        }
    }
}
