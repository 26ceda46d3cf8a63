//! The `nvaprobe` binary.
fn main() {}
