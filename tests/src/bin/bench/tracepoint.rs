//! The tracepoint's program on packets that the kernel really drops, in a namespace of its own: nothing builds an skb for
//! it as `BPF_PROG_RUN` does for the others. An empty program on the same tracepoint is the floor, and the kernel's own
//! statistics are the clock.

use std::{
    fs,
    net::{SocketAddr, TcpListener, UdpSocket},
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    path::Path,
};

use aya::sys::{Stats, enable_stats};
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, SockaddrIn, bind, connect, socket};
use nvaprobe_tests::kernel::Kernel;
use probe_user::{
    capture::live::{
        drops::{self, KERNEL_BTF},
        load::Sizes,
    },
    lab::netns::Namespace,
    source::{self, Profile},
};

use super::{RING, ROUNDS, bpf, empty, median};

/// Packets of a round.
const PACKETS: usize = 20_000;
const RAW_TRACEPOINT: u32 = 17;
const BPF_RAW_TRACEPOINT_OPEN: i32 = 17;
/// A source that the loopback device can play.
const PROBER: [u8; 4] = [127, 0, 0, 9];

/// `struct bpf_attr` of BPF_RAW_TRACEPOINT_OPEN.
#[repr(C)]
#[derive(Default)]
struct Open {
    name: u64,
    program: u32,
    pad: u32,
    rest: [u64; 14],
}

fn attach(program: BorrowedFd<'_>) -> OwnedFd {
    let name = c"kfree_skb";
    let mut open =
        Open { name: name.as_ptr() as u64, program: program.as_raw_fd() as u32, ..Open::default() };
    let fd = bpf(BPF_RAW_TRACEPOINT_OPEN, &mut open);
    assert!(fd >= 0, "a program is not attached: {}", std::io::Error::last_os_error());
    // SAFETY: the descriptor is new and nobody else's.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}

/// Time and runs of a program so far.
fn spent(program: BorrowedFd<'_>) -> (f64, f64) {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd())).expect("it is open");
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.and_then(|value| value.trim().parse().ok()).expect("a number")
    };
    (field("run_time_ns"), field("run_cnt"))
}

/// Frames of an unknown ethertype.
fn non_ip() {
    // Protocol 0: it sends, and receives nothing.
    let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::empty(), None::<SockProtocol>);
    let socket = socket.expect("a packet socket");
    let mut address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: 0x88b5u16.to_be(),
        sll_ifindex: 1,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 6,
        sll_addr: [0; 8],
    };
    let mut frame = [0u8; 64];
    frame[12..14].copy_from_slice(&0x88b5u16.to_be_bytes());
    for _ in 0..PACKETS {
        // SAFETY: buffer and address are valid for the lengths given.
        let sent = unsafe {
            libc::sendto(
                socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
                std::ptr::from_mut(&mut address).cast(),
                size_of::<libc::sockaddr_ll>() as u32,
            )
        };
        assert_eq!(sent, 64, "{}", std::io::Error::last_os_error());
    }
}

/// Datagrams to a port that nobody listens on.
fn foreign() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for _ in 0..PACKETS {
        socket.send_to(&[0; 8], "127.0.0.1:9").expect("sent");
    }
}

/// Probes of a port that nobody listens on.
fn probes() {
    let target = TcpListener::bind("127.0.0.1:0").and_then(|gone| gone.local_addr()).expect("a port");
    let SocketAddr::V4(target) = target else { unreachable!("it was bound to IPv4") };
    for _ in 0..PACKETS / 20 {
        let socket =
            socket(AddressFamily::Inet, SockType::Stream, SockFlag::empty(), None).expect("a socket");
        let [a, b, c, d] = PROBER;
        bind(socket.as_raw_fd(), &SockaddrIn::new(a, b, c, d, 0)).expect("an address of lo");
        connect(socket.as_raw_fd(), &SockaddrIn::from(target)).expect_err("nobody listens");
    }
}

/// Measures and prints.
pub(super) fn rows() {
    Namespace::new("bench").and_then(|namespace| namespace.run(measure)).expect("a namespace");
}

fn measure() {
    let understood = drops::understand(Path::new(KERNEL_BTF));
    let layout = match understood {
        Ok(understood) => understood.layout,
        Err(error) => return println!("drops: {error}"),
    };
    let prober = source::parse(&PROBER.map(|octet| octet.to_string()).join(".")).expect("an address");
    let sources = source::collect(Profile::AzureLb, false, &[prober]).expect("sources");
    let mut kernel = Kernel::on(&layout, sources, Sizes { ring: RING, ..Sizes::default() });
    let program = kernel.loaded.tracepoint().expect("it loads").fd().expect("it is loaded").as_fd();
    let program = program.try_clone_to_owned().expect("a descriptor can be duplicated");
    let floor = empty(RAW_TRACEPOINT, 0);
    let _statistics = enable_stats(Stats::RunTime).expect("as root");
    let _links = [attach(floor.as_fd()), attach(program.as_fd())];
    let rows: [(&str, fn()); 3] =
        [("dropped, non-IP", non_ip), ("dropped, foreign UDP", foreign), ("dropped probe", probes)];
    for (name, send) in rows {
        let (mut below, mut total) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let before = [&floor, &program].map(|program| spent(program.as_fd()));
            send();
            let after = [&floor, &program].map(|program| spent(program.as_fd()));
            let mean = |which: usize| {
                let runs = after[which].1 - before[which].1;
                assert!(runs > 0.0, "nothing was dropped");
                (after[which].0 - before[which].0) / runs
            };
            below.push(mean(0));
            total.push(mean(1));
            kernel.drain_drops();
        }
        let (below, total) = (median(&mut below), median(&mut total));
        println!("{name:<24} {:<14} {below:>7.0} {total:>7.0} {:>7.0} {:>7}", "drops", total - below, "–");
    }
}
