//! The settings that userspace wrote before loading.

use probe_common::maps::Settings;

use crate::maps::SETTINGS;

/// Read-only data that userspace wrote before loading.
#[inline(always)]
pub(crate) fn settings() -> *const Settings {
    (&raw const SETTINGS).cast()
}

/// Reads one field so that the compiler keeps the read; the verifier knows the frozen map's value and prunes.
macro_rules! setting {
    ($($field:tt)*) => {
        // SAFETY: SETTINGS is initialised, never written by the programs, and indices are below the array lengths.
        unsafe { core::ptr::read_volatile(&raw const (*$crate::settings::settings()).$($field)*) }
    };
}

/// Runs a block for each used index of a list of eight, written out: the verifier knows the count from the frozen map and
/// takes the rest out of the program, which a loop with its counter would keep.
macro_rules! each_of_eight {
    ($count:expr, |$index:ident| $body:block) => {
        each_of_eight!(@ $count, $index, $body, 0 1 2 3 4 5 6 7)
    };
    (@ $count:expr, $index:ident, $body:block, $($number:literal)*) => {
        'each: {
            let count = $count;
            $(
                if $number >= count {
                    break 'each;
                }
                {
                    let $index: usize = $number;
                    $body
                }
            )*
        }
    };
}

pub(crate) use {each_of_eight, setting};
