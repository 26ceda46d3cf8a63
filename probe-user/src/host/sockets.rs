//! The TCP socket table: who listens, who waits for an answer, and which requests are half open.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::{IpAddr, SocketAddr},
    os::unix::fs::MetadataExt,
};

use ipnet::IpNet;
use procfs::{
    FromReadSI, current_system_info,
    net::{TcpNetEntries, TcpNetEntry, TcpState},
    process::{FDTarget, Process, all_processes},
};

use super::sock_diag;

/// A listening TCP socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    pub address: IpAddr,
    pub port: u16,
    /// Name of the process that owns it (`/proc/PID/comm`); `None` when that may not be seen.
    pub process: Option<String>,
    /// Its command line, the program first; empty when that may not be seen.
    pub arguments: Vec<String>,
    /// What only sock_diag tells; `None` when it could not be asked.
    pub detail: Option<Detail>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detail {
    /// ifindex that it is bound to (`SO_BINDTODEVICE`).
    pub device: Option<u32>,
    /// Connections that wait to be accepted, and how many may. The kernel refuses more once `queue > backlog`
    /// (net/sock.h, `sk_acceptq_is_full`).
    pub queue: u32,
    pub backlog: u32,
    /// `IPV6_V6ONLY`; `None` for IPv4 sockets.
    pub v6_only: Option<bool>,
    /// User who made it.
    pub uid: u32,
}

/// Whether a SYN finds its way to a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Yes,
    OtherAddress,
    OtherDevice,
    /// sock_diag could not be asked.
    Unknown,
}

impl Listener {
    /// A listener of which nothing more is known.
    pub const fn new(address: IpAddr, port: u16) -> Self {
        Self { address, port, process: None, arguments: Vec::new(), detail: None }
    }

    /// Whether it hears a SYN to `address` (and its port) that comes in by the device `nic`, a member of the VRF
    /// device `vrf` if that is given. `l3mdev_accept` is `net.ipv4.tcp_l3mdev_accept`
    /// (net/ipv4/inet_hashtables.c, `compute_score`; net/inet_sock.h, `inet_bound_dev_eq`).
    pub fn hears(&self, address: IpAddr, nic: u32, vrf: Option<u32>, l3mdev_accept: Option<bool>) -> Reach {
        let (own, address) = (self.address.to_canonical(), address.to_canonical());
        let v6_only = self.detail.and_then(|detail| detail.v6_only);
        match (own, address) {
            (IpAddr::V6(own), IpAddr::V4(_)) if own.is_unspecified() => match v6_only {
                Some(false) => {}
                Some(true) => return Reach::OtherAddress,
                None => return Reach::Unknown,
            },
            (own, address) if own.is_ipv4() != address.is_ipv4() => return Reach::OtherAddress,
            (own, address) if !own.is_unspecified() && own != address => return Reach::OtherAddress,
            _ => {}
        }
        match self.detail.map(|detail| detail.device) {
            None => Reach::Unknown,
            Some(Some(device)) if device == nic || Some(device) == vrf => Reach::Yes,
            Some(Some(_)) => Reach::OtherDevice,
            Some(None) if vrf.is_none() => Reach::Yes,
            Some(None) => match l3mdev_accept {
                Some(true) => Reach::Yes,
                Some(false) => Reach::OtherDevice,
                None => Reach::Unknown,
            },
        }
    }

    /// Whether its queue of connections to be accepted is full.
    pub fn is_full(&self) -> Option<bool> {
        self.detail.map(|detail| detail.queue > detail.backlog)
    }
}

/// A connection of this host's own that waits for its SYN-ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connecting {
    pub local: SocketAddr,
    pub remote: SocketAddr,
}

/// A connection that somebody began here and that is not complete: SYN-RECV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// ifindex, when the listener is bound to it or the peer is link-local.
    pub device: Option<u32>,
    /// How often the SYN-ACK has been sent again.
    pub resent: u8,
}

/// Every listening TCP socket of this thread's network namespace on one of these ports.
pub(super) fn listeners(ports: &BTreeSet<u16>) -> Result<Vec<Listener>, String> {
    if ports.is_empty() {
        return Ok(Vec::new());
    }
    find_listeners(|port| ports.contains(&port))
}

/// Every listening TCP socket of this thread's network namespace.
pub(super) fn all_listeners() -> Result<Vec<Listener>, String> {
    find_listeners(|_| true)
}

fn find_listeners(wanted: impl Fn(u16) -> bool) -> Result<Vec<Listener>, String> {
    let mut found: Vec<(u64, Listener)> = match sock_diag::listening() {
        Ok(found) => found,
        Err(why) => {
            tracing::debug!("{why}; reading /proc instead, which knows less");
            let listening = table()?.into_iter().filter(|entry| entry.state == TcpState::Listen);
            let listener = |address: SocketAddr| Listener::new(address.ip(), address.port());
            listening.map(|entry| (entry.inode, listener(entry.local_address))).collect()
        }
    };
    found.retain(|(_, listener)| wanted(listener.port));
    let owners = owners(&found.iter().map(|(inode, _)| *inode).collect());
    let with_owner = |(inode, listener)| match owners.get(&inode) {
        Some((name, arguments)) => {
            Listener { process: Some(name.clone()), arguments: arguments.clone(), ..listener }
        }
        None => listener,
    };
    Ok(found.into_iter().map(with_owner).collect())
}

/// The half-open requests of this thread's network namespace from one of these.
pub(super) fn requests(from: &[IpNet]) -> Result<Vec<Request>, String> {
    let mut requests = all_requests()?;
    requests.retain(|request| from.iter().any(|net| net.contains(&request.remote.ip())));
    Ok(requests)
}

pub(super) fn all_requests() -> Result<Vec<Request>, String> {
    sock_diag::requests()
}

/// Every connection of this thread's network namespace that waits for a SYN-ACK from one of these.
pub(super) fn connecting(to: &[IpNet]) -> Result<Vec<Connecting>, String> {
    let ours = |connection: &Connecting| to.iter().any(|net| net.contains(&connection.remote.ip()));
    match sock_diag::connecting() {
        Ok(waiting) => return Ok(waiting.into_iter().filter(ours).collect()),
        Err(why) => tracing::debug!("{why}; reading /proc instead"),
    }
    let mut waiting = Vec::new();
    for entry in table()? {
        let remote = SocketAddr::new(entry.remote_address.ip().to_canonical(), entry.remote_address.port());
        if entry.state == TcpState::SynSent && to.iter().any(|net| net.contains(&remote.ip())) {
            let local = SocketAddr::new(entry.local_address.ip().to_canonical(), entry.local_address.port());
            waiting.push(Connecting { local, remote });
        }
    }
    Ok(waiting)
}

fn table() -> Result<Vec<TcpNetEntry>, String> {
    let mut all = Vec::new();
    for file in ["tcp", "tcp6"] {
        // /proc/net is the main thread's; the namespace meant is this thread's (proc_net.c).
        let path = format!("/proc/thread-self/net/{file}");
        let opened = match fs::File::open(&path) {
            Ok(opened) => opened,
            // A kernel without IPv6 has no tcp6.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && file == "tcp6" => continue,
            Err(error) => return Err(format!("cannot read {path}: {error}")),
        };
        let TcpNetEntries(entries) = TcpNetEntries::from_read(opened, current_system_info())
            .map_err(|error| format!("cannot understand {path}: {error}"))?;
        all.extend(entries);
    }
    Ok(all)
}

/// The processes that hold these sockets, as far as they may be seen. A socket that several hold belongs to the one that
/// is no init: systemd keeps a copy of what it passes on.
fn owners(inodes: &BTreeSet<u64>) -> BTreeMap<u64, (String, Vec<String>)> {
    let mut owners: BTreeMap<u64, (String, Vec<String>)> = BTreeMap::new();
    if inodes.is_empty() {
        return owners;
    }
    let Ok(processes) = all_processes() else { return owners };
    let namespace = |path: String| fs::metadata(path).map(|meta| meta.ino()).ok();
    let here = namespace("/proc/thread-self/ns/net".to_owned());
    let (near, far): (Vec<Process>, Vec<Process>) =
        processes.flatten().partition(|process| here == namespace(format!("/proc/{}/ns/net", process.pid())));
    // A socket made here may be held from elsewhere; looking at everybody costs time and is seldom needed.
    for processes in [near, far] {
        if inodes.iter().all(|inode| owners.contains_key(inode)) {
            break;
        }
        for process in processes {
            let Ok(name) = fs::read_to_string(format!("/proc/{}/comm", process.pid())) else { continue };
            let Ok(fds) = process.fd() else { continue };
            for fd in fds.flatten() {
                if let FDTarget::Socket(inode) = fd.target
                    && inodes.contains(&inode)
                    && (process.pid() != 1 || !owners.contains_key(&inode))
                {
                    let arguments = process.cmdline().unwrap_or_default();
                    owners.insert(inode, (name.trim_end().to_owned(), arguments));
                }
            }
        }
    }
    owners
}

#[cfg(test)]
#[path = "sockets_tests.rs"]
mod tests;
