//! `cargo xtask bench`: nanoseconds per packet of each program over an empty one of its type, by `BPF_PROG_RUN`.
//!
//! Floor and program take turns, and each figure is the median over the rounds: the machine may be busy.

#[path = "bench/tracepoint.rs"]
mod tracepoint;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nvaprobe_tests::{
    kernel::{HOOKS, Hook, Kernel},
    packets::{ACK, LOCAL4, LOCAL6, SYN, ethernet, frame, in4, ip4, ip6, more, out4, reply, syn, udp},
};
use probe_common::counters::Program;
use probe_user::{
    capture::live::load::Sizes,
    source::{self, Profile},
};

const ROUNDS: usize = 9;
/// Runs of a figure.
const RUNS: u32 = 1_000_000;
/// Observed packets run in batches that fit into the ring, which is large here: between two batches of XDP the kernel
/// patches its dispatcher and waits for RCU (net/core/filter.c `bpf_prog_change_xdp`), and what a batch finds cold
/// afterwards must not count as the program's.
const BATCH: u32 = 50_000;
const RING: u32 = 16 * 1024 * 1024;

/// `struct bpf_attr` of BPF_PROG_LOAD, as far as it is needed.
#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    rest: [u64; 14],
}

/// `struct bpf_attr` of BPF_PROG_TEST_RUN.
#[repr(C)]
#[derive(Default)]
struct Run {
    program: u32,
    returned: u32,
    size_in: u32,
    size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    rest: [u64; 5],
}

fn bpf<T>(command: i32, attribute: &mut T) -> i64 {
    // SAFETY: the attribute is a bpf_attr of the command, of the size given, and its pointers outlive the call.
    unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attribute), size_of::<T>()) }
}

/// A program that returns at once.
fn empty(kind: u32, returns: i32) -> OwnedFd {
    // BPF_ALU64 | BPF_MOV | BPF_K to r0; BPF_JMP | BPF_EXIT.
    let instructions: [u64; 2] = [0xb7 | (u64::from(returns as u32) << 32), 0x95];
    let license = c"GPL";
    let mut load = Load {
        kind,
        instruction_count: 2,
        instructions: instructions.as_ptr() as u64,
        license: license.as_ptr() as u64,
        ..Load::default()
    };
    let fd = bpf(5, &mut load);
    assert!(fd >= 0, "an empty program does not load: {}", std::io::Error::last_os_error());
    // SAFETY: the descriptor is new and nobody else's.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}

/// Mean ns of a run.
fn time(program: BorrowedFd<'_>, packet: &[u8], repeat: u32) -> f64 {
    let mut run = Run {
        program: program.as_raw_fd() as u32,
        size_in: packet.len() as u32,
        data_in: packet.as_ptr() as u64,
        repeat,
        ..Run::default()
    };
    let result = bpf(10, &mut run);
    assert!(result == 0, "BPF_PROG_RUN: {}", std::io::Error::last_os_error());
    f64::from(run.duration)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

struct Row {
    name: &'static str,
    /// What came in before, to make the packet part of a probe.
    before: Option<Vec<u8>>,
    packet: Vec<u8>,
    /// Target of the design, ns over the floor.
    target: f64,
    egress_only: bool,
    /// Nobody reads the ring: it is full, and the loss is counted.
    full_ring: bool,
}

fn rows() -> Vec<Row> {
    let row = |name, packet, target| Row {
        name,
        before: None,
        packet,
        target,
        egress_only: false,
        full_ring: false,
    };
    let syn_frame = frame(&in4(&syn()));
    let syn_ack = frame(&out4(&reply(SYN | ACK)));
    let padded = |mut packet: Vec<u8>| {
        packet.resize(packet.len().max(64), 0);
        packet
    };
    vec![
        row("non-IP (ARP)", padded(ethernet(&[], 0x0806, &[0; 28])), 5.0),
        row("foreign TCP", padded(frame(&ip4([10, 0, 0, 1], LOCAL4, 6, &more(ACK).bytes()))), 10.0),
        row("foreign UDP", padded(frame(&ip4([10, 0, 0, 1], LOCAL4, 17, &udp(1, 2)))), 10.0),
        row("foreign TCP, IPv6", frame(&ip6(LOCAL6, LOCAL6, 6, &[], &more(ACK).bytes())), 10.0),
        Row { before: Some(syn_frame.clone()), ..row("probe SYN", syn_frame.clone(), 150.0) },
        Row {
            before: Some(syn_frame.clone()),
            full_ring: true,
            ..row("probe SYN, ring full", syn_frame.clone(), 150.0)
        },
        Row {
            before: Some(syn_frame.clone()),
            egress_only: true,
            ..row("probe reply", syn_ack.clone(), 150.0)
        },
        Row {
            before: Some(syn_frame),
            egress_only: true,
            full_ring: true,
            ..row("probe reply, ring full", syn_ack, 150.0)
        },
    ]
}

fn descriptor(kernel: &mut Kernel, hook: Hook) -> OwnedFd {
    let fd = if hook.program == Program::Xdp {
        kernel.loaded.xdp().expect("it loads").fd().expect("it is loaded").as_fd().try_clone_to_owned()
    } else {
        kernel
            .loaded
            .classifier(hook.name)
            .expect("it loads")
            .fd()
            .expect("it is loaded")
            .as_fd()
            .try_clone_to_owned()
    };
    fd.expect("a descriptor can be duplicated")
}

fn main() {
    let sources = source::collect(Profile::AzureLb, false, &[]).expect("the profile has sources");
    let mut kernel = Kernel::with(sources, Sizes { ring: RING, ..Sizes::default() });
    let floors = [empty(6, 2), empty(3, -1)];
    println!("ns per packet over an empty program of the same type (median of {ROUNDS} rounds)");
    println!(
        "{:<24} {:<14} {:>7} {:>7} {:>7} {:>7}",
        "packet", "program", "floor", "total", "over", "target"
    );
    for row in rows() {
        for hook in HOOKS.into_iter().take(3) {
            if row.egress_only && hook.program != Program::TcEgress {
                continue;
            }
            // A SYN of a source that leaves is a forwarded one, another path.
            if row.before.is_some() && !row.egress_only && hook.program == Program::TcEgress {
                continue;
            }
            let program = descriptor(&mut kernel, hook);
            let floor = &floors[usize::from(hook.program != Program::Xdp)];
            kernel.forget();
            if let Some(before) = &row.before {
                kernel.run(HOOKS[1], before, 1);
                kernel.drain();
            }
            let drained = row.before.is_some() && !row.full_ring;
            let (repeat, batches) = if drained { (BATCH, RUNS / BATCH) } else { (RUNS, 1) };
            let mut below = Vec::new();
            let mut total = Vec::new();
            for _ in 0..ROUNDS {
                below.push(time(floor.as_fd(), &row.packet, RUNS));
                let mut sum = 0.0;
                for _ in 0..batches {
                    sum += time(program.as_fd(), &row.packet, repeat);
                    // Read between batches, so that every run finds room in the ring.
                    if drained {
                        kernel.drain();
                    }
                }
                total.push(sum / f64::from(batches));
            }
            kernel.drain();
            let (below, total) = (median(&mut below), median(&mut total));
            println!(
                "{:<24} {:<14} {below:>7.0} {total:>7.0} {:>7.0} {:>7}",
                row.name,
                hook.program.name(),
                total - below,
                format!("≤{}", row.target)
            );
        }
    }
    tracepoint::rows();
    println!("\nProbe packets are observed (ring drained between batches of {BATCH}); others only counted.");
}
