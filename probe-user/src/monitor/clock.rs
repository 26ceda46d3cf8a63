//! The observer's clock: `CLOCK_BOOTTIME`, as the kernel half stamps observations, and its wall-clock reading.

use nix::time::{ClockId, clock_gettime};

/// Ties boot time to wall time once, so that a stepped wall clock cannot reorder a report.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Wall minus boot, ns.
    offset_ns: i128,
}

impl Clock {
    /// Reads both clocks.
    pub fn start() -> Self {
        let wall = i128::from(read(ClockId::CLOCK_REALTIME));
        Self { offset_ns: wall - i128::from(boot_ns()) }
    }

    /// The clock of a stored capture, whose stamps are wall-clock time.
    pub const fn of_captures() -> Self {
        Self { offset_ns: 0 }
    }

    /// ns since the Unix epoch of a boot-time stamp.
    pub fn wall_ns(&self, boot_ns: u64) -> u64 {
        u64::try_from(i128::from(boot_ns) + self.offset_ns).unwrap_or(0)
    }
}

/// `CLOCK_BOOTTIME` in ns: it counts through a suspend and never steps.
pub fn boot_ns() -> u64 {
    read(ClockId::CLOCK_BOOTTIME)
}

fn read(clock: ClockId) -> u64 {
    // Both clocks exist on every kernel since 2.6.39, so the call cannot fail with these ids.
    clock_gettime(clock).map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_stamp_of_now_reads_as_now() {
        let clock = Clock::start();
        let wall = clock.wall_ns(boot_ns());
        let now = read(ClockId::CLOCK_REALTIME);
        assert!(now.abs_diff(wall) < 1_000_000_000, "{now} {wall}");
    }
}
