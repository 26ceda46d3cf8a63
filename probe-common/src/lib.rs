//! What the kernel and user halves of nvaprobe agree on: the packet parser, the layouts of map keys,
//! map values and observations, and the reasons that counters carry.
//!
//! Everything here is `no_std`, allocation-free and panic-free: the same code runs under the BPF
//! verifier, over a live ring buffer and over a stored capture.
#![cfg_attr(not(test), no_std)]
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))] // `word`

pub mod bytes;
pub mod counters;
pub mod drops;
pub mod flow;
pub mod follow;
pub mod maps;
pub mod observation;
pub mod parse;
pub mod word;
