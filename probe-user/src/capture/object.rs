//! The BPF object inside this binary.

use thiserror::Error;

/// aya reads ELF structures in place, so the bytes need the alignment of the largest of them.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/nvaprobe.bpf.o")));

#[derive(Debug, Error)]
#[error("this binary was built without its BPF programs; build it with: cargo xtask build")]
pub struct MissingObject;

/// The object, unless the build had none to embed.
pub fn object() -> Result<&'static [u8], MissingObject> {
    if OBJECT.0.is_empty() { Err(MissingObject) } else { Ok(&OBJECT.0) }
}
