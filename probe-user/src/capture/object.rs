//! The BPF object that this binary carries.

use aya::include_bytes_aligned;
use thiserror::Error;

/// Put there by `build.rs`; empty when the object had not been built.
static EMBEDDED: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/nvaprobe.bpf.o"));

/// The binary was built before its BPF programs were.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "this nvaprobe was built without its BPF programs and cannot observe: run `cargo xtask build` and use the binary it names"
)]
pub struct MissingObject;

/// The ELF object with every BPF program, aligned for aya.
pub fn object() -> Result<&'static [u8], MissingObject> {
    checked(EMBEDDED)
}

fn checked(object: &[u8]) -> Result<&[u8], MissingObject> {
    if object.is_empty() { Err(MissingObject) } else { Ok(object) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stub_is_an_error_that_says_what_to_run() {
        let error = checked(&[]).unwrap_err();
        assert!(error.to_string().contains("cargo xtask build"), "{error}");
    }

    #[test]
    fn an_embedded_object_is_an_aligned_elf_file() {
        assert_eq!(EMBEDDED.as_ptr().align_offset(8), 0);
        if let Ok(object) = object() {
            assert_eq!(&object[..4], b"\x7fELF");
        }
    }
}
