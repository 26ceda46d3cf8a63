//! Durations, counts, ports and sizes.

use std::{fmt, time::Duration};

use serde::{Serialize, Serializer};

use super::value::{Value, written};

/// Intervals from here on are handled; Azure's minimum of 5 s is no limit.
const SHORTEST: Duration = Duration::from_millis(200);
/// No service probes more seldom than every five minutes.
const LONGEST: Duration = Duration::from_hours(1);

/// Time between two probes: from 200 ms to 1 h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval(pub Duration);

/// Time within which an answer counts: from 1 ms to 1 h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout(pub Duration);

/// Probes in a row: from 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Count(pub u32);

/// A TCP port: from 1 to 65535.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Port(pub u16);

/// Bytes of a BPF ring buffer: a power of two of at least 4096.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RingSize(pub u32);

fn duration(text: &str) -> Result<Duration, String> {
    let parsed: jiff::SignedDuration =
        text.parse().map_err(|_| format!("'{text}' is not a duration; write 30s, 500ms or 2m"))?;
    Duration::try_from(parsed).map_err(|_| format!("'{text}' is negative; write 30s, 500ms or 2m"))
}

impl Value for Interval {
    const WHAT: &'static str = "a duration in quotes";
    const EXAMPLE: &'static str = "\"5s\"";

    fn from_text(text: &str) -> Option<Result<Self, String>> {
        Some(duration(text).and_then(|interval| match interval {
            short if short < SHORTEST => {
                Err(format!("'{text}' is too short an interval; 200ms is the shortest"))
            }
            long if long > LONGEST => Err(format!("'{text}' is too long an interval; 1h is the longest")),
            interval => Ok(Self(interval)),
        }))
    }
}

impl Value for Timeout {
    const WHAT: &'static str = "a duration in quotes";
    const EXAMPLE: &'static str = "\"5s\"";

    fn from_text(text: &str) -> Option<Result<Self, String>> {
        Some(duration(text).and_then(|timeout| match timeout {
            short if short < Duration::from_millis(1) => {
                Err(format!("'{text}' is too short a timeout; 1ms is the shortest"))
            }
            long if long > LONGEST => Err(format!("'{text}' is too long a timeout; 1h is the longest")),
            timeout => Ok(Self(timeout)),
        }))
    }
}

impl Value for Count {
    const WHAT: &'static str = "a number of probes";
    const EXAMPLE: &'static str = "2";

    fn from_number(number: i64) -> Option<Result<Self, String>> {
        Some(match u32::try_from(number) {
            Ok(count @ 1..=100) => Ok(Self(count)),
            Ok(0) => Err("0 probes in a row change nothing; write 1 to act on a single one".to_owned()),
            _ => Err(format!("{number} is out of range; write a number from 1 to 100")),
        })
    }
}

impl Value for Port {
    const WHAT: &'static str = "a port";
    const EXAMPLE: &'static str = "8008";

    fn from_number(number: i64) -> Option<Result<Self, String>> {
        Some(match u16::try_from(number) {
            Ok(0) => Err("port 0 cannot be probed; write the port of the probe, not of the rule".to_owned()),
            Ok(port) => Ok(Self(port)),
            Err(_) => Err(format!("{number} is not a port; write a number from 1 to 65535")),
        })
    }
}

impl Value for RingSize {
    const WHAT: &'static str = "a number of bytes";
    const EXAMPLE: &'static str = "262144";

    fn from_number(number: i64) -> Option<Result<Self, String>> {
        // BPF_MAP_TYPE_RINGBUF wants whole pages and a power of two (kernel/bpf/ringbuf.c).
        Some(match u32::try_from(number) {
            Ok(size) if size.is_power_of_two() && size >= 4096 => Ok(Self(size)),
            _ => Err(format!("{number} is not a power of two of at least 4096; write 262144 or 1048576")),
        })
    }
}

written! {
    Interval: {"type": "string", "examples": ["5s", "500ms", "1m 30s"]},
    Timeout: {"type": "string", "examples": ["5s", "500ms", "1m 30s"]},
    Count: {"type": "integer", "minimum": 1, "maximum": 100},
    Port: {"type": "integer", "minimum": 1, "maximum": 65535},
    RingSize: {"type": "integer", "minimum": 4096, "maximum": 2_147_483_648_u32},
}

/// As it is read: `5s`, `500ms`, `1m 30s`.
fn spell(duration: Duration, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match jiff::SignedDuration::try_from(duration) {
        Ok(duration) => write!(f, "{duration:#}"),
        Err(_) => write!(f, "{duration:?}"),
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        spell(self.0, f)
    }
}

impl fmt::Display for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        spell(self.0, f)
    }
}

impl Serialize for Interval {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Timeout {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
