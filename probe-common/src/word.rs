//! A number that several CPUs count in.

use core::cell::UnsafeCell;

/// A word that several CPUs read, write and add to. An `AtomicU64`, but for BPF: there rustc has no atomic additions and
/// LLVM no atomic loads (`-C target-cpu=generic`, which Linux 5.10 runs), while the kernel has all that is needed.
#[derive(Default)]
#[repr(transparent)]
pub struct Word(UnsafeCell<u64>);

// SAFETY: every access is one atomic access to the aligned word.
unsafe impl Sync for Word {}

#[cfg(not(target_arch = "bpf"))]
mod access {
    use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::Word;

    impl Word {
        const fn atomic(&self) -> &AtomicU64 {
            // SAFETY: aligned and alive as long as the reference; nothing accesses it in another way.
            unsafe { AtomicU64::from_ptr(self.0.get()) }
        }

        pub fn load(&self) -> u64 {
            self.atomic().load(Relaxed)
        }

        pub fn store(&self, value: u64) {
            self.atomic().store(value, Relaxed);
        }

        pub fn add_one(&self) {
            self.atomic().fetch_add(1, Relaxed);
        }
    }
}

#[cfg(target_arch = "bpf")]
mod access {
    use super::Word;

    impl Word {
        #[inline(always)]
        pub fn load(&self) -> u64 {
            // SAFETY: an aligned word that lives as long as the reference; one instruction, which 64-bit CPUs do whole.
            unsafe { self.0.get().read_volatile() }
        }

        #[inline(always)]
        pub fn store(&self, value: u64) {
            // SAFETY: as above.
            unsafe { self.0.get().write_volatile(value) }
        }

        #[inline(always)]
        pub fn add_one(&self) {
            // SAFETY: as above; one atomic instruction.
            unsafe {
                core::arch::asm!(
                    "lock *(u64 *)({word} + 0) += {one}",
                    word = in(reg) self.0.get(),
                    one = in(reg) 1_u64,
                    options(nostack)
                );
            }
        }
    }
}

impl core::fmt::Debug for Word {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.load().fmt(f)
    }
}
