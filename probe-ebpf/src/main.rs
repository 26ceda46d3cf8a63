//! Kernel half of nvaprobe: follows probe packets where they enter and leave, and passes every packet.
//!
//! One file a hook. XDP and TC share `follow`, and `follow` shares its parser and its decisions with userspace
//! (crate `probe-common`).
#![no_std]
#![no_main]
#![expect(clippy::needless_pass_by_value, reason = "aya's entry points pass the context by value")]
#![feature(asm_experimental_arch)] // `packet::word`; the BPF target is not stable either

mod drops;
mod egress;
mod flows;
mod follow;
mod ingress;
mod maps;
mod packet;
mod settings;
mod sources;

/// What the kernel reads before it lets the programs call GPL-only helpers.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    // The programs have no panicking path: the linker would keep this loop, and the verifier refuse it.
    loop {}
}
