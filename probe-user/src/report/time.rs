//! Times as RFC 3339, UTC, with milliseconds.

use jiff::Timestamp;

/// `2026-12-01T03:04:05.678Z` from ns since the Unix epoch.
pub fn rfc3339(unix_ns: u64) -> String {
    // u64 ns reach the year 2554, inside jiff's range.
    let timestamp = Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or(Timestamp::UNIX_EPOCH);
    format!("{timestamp:.3}")
}

/// `03:04:05.678`, the time of day alone.
pub fn clock(rfc3339: &str) -> &str {
    rfc3339.split_once('T').map_or(rfc3339, |(_, clock)| clock.trim_end_matches('Z'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_with_milliseconds() {
        let text = rfc3339(1_764_558_245_678_900_000);
        assert_eq!(text, "2025-12-01T03:04:05.678Z");
        assert_eq!(clock(&text), "03:04:05.678");
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
    }
}
