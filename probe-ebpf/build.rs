//! How the object is linked, whoever calls cargo.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // bpf-linker's default has LLVM call `memset` and `memcpy`, which are loops over bytes here; without it they become
    // stores of eight bytes. A probe packet costs a third.
    println!("cargo::rustc-link-arg-bins=--disable-expand-memcpy-in-order");
}
