//! The TCP socket table: who listens, and who waits for an answer.

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

/// A listening TCP socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    pub address: IpAddr,
    pub port: u16,
    /// Name of the process that owns it (`/proc/PID/comm`); `None` when that may not be seen.
    pub process: Option<String>,
}

/// A connection of this host's own that waits for its SYN-ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connecting {
    pub local: SocketAddr,
    pub remote: SocketAddr,
}

/// Every listening TCP socket of this thread's network namespace on one of these ports.
pub(super) fn listeners(ports: &BTreeSet<u16>) -> Result<Vec<Listener>, String> {
    let mut found = table()?;
    found.retain(|entry| entry.state == TcpState::Listen && ports.contains(&entry.local_address.port()));
    let owners = owners(&found.iter().map(|entry| entry.inode).collect());
    Ok(found
        .into_iter()
        .map(|entry| Listener {
            address: entry.local_address.ip(),
            port: entry.local_address.port(),
            process: owners.get(&entry.inode).cloned(),
        })
        .collect())
}

/// Every connection of this thread's network namespace that waits for a SYN-ACK from one of these.
pub(super) fn connecting(to: &[IpNet]) -> Result<Vec<Connecting>, String> {
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
fn owners(inodes: &BTreeSet<u64>) -> BTreeMap<u64, String> {
    let mut owners: BTreeMap<u64, String> = BTreeMap::new();
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
                    owners.insert(inode, name.trim_end().to_owned());
                }
            }
        }
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_of_our_own_is_found_with_its_process() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let found = listeners(&BTreeSet::from([address.port()])).expect("procfs is there");
        let own = fs::read_to_string("/proc/self/comm").expect("procfs is there");
        let expected = Listener {
            address: address.ip(),
            port: address.port(),
            process: Some(own.trim_end().to_owned()),
        };
        assert!(found.contains(&expected), "{found:?}");
        drop(listener);
        assert_eq!(listeners(&BTreeSet::from([address.port()])), Ok(Vec::new()));
        assert_eq!(listeners(&BTreeSet::new()), Ok(Vec::new()));
    }
}
