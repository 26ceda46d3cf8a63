//! What a load balancer makes of answers: when one counts, and how many of them change its mind.

use std::{fmt, ops::RangeInclusive, str::FromStr, time::Duration};

use crate::report::document::Protocol;

/// Azure's limit for an HTTP(S) answer: the interval, at most this
/// (<https://learn.microsoft.com/azure/load-balancer/load-balancer-custom-probe-overview>).
pub const HTTP_LIMIT: Duration = Duration::from_secs(30);

/// HTTP statuses that count as healthy: codes and ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statuses(Vec<RangeInclusive<u16>>);

impl Statuses {
    /// 200 exactly.
    pub fn ok() -> Self {
        Self(vec![200..=200])
    }

    /// Any of these; `None` for an empty list.
    pub fn any(ranges: impl IntoIterator<Item = Self>) -> Option<Self> {
        let all: Vec<_> = ranges.into_iter().flat_map(|statuses| statuses.0).collect();
        (!all.is_empty()).then_some(Self(all))
    }

    pub fn contains(&self, status: u16) -> bool {
        self.0.iter().any(|range| range.contains(&status))
    }
}

impl FromStr for Statuses {
    type Err = String;

    /// `200` or `200-299`.
    fn from_str(text: &str) -> Result<Self, String> {
        let code = |text: &str| match text.trim().parse::<u16>() {
            Ok(code @ 100..=999) => Ok(code),
            _ => Err(format!("'{text}' is not an HTTP status; write 200 or 200-299")),
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (code(first)?, code(last)?);
        if first > last {
            return Err(format!("'{text}' runs backwards; write {last}-{first}"));
        }
        Ok(Self(vec![first..=last]))
    }
}

impl fmt::Display for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            if range.start() == range.end() {
                write!(f, "{comma}{}", range.start())?;
            } else {
                write!(f, "{comma}{}-{}", range.start(), range.end())?;
            }
        }
        Ok(())
    }
}

/// Within what time an answer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Azure Load Balancer: the interval, for HTTP(S) at most [`HTTP_LIMIT`].
    Interval,
    /// A timeout of its own.
    Fixed(Duration),
}

impl Limit {
    /// Seconds within which an answer counts; `None` while it hangs on an unknown interval.
    pub fn seconds(self, interval_s: Option<f64>, protocol: Option<Protocol>) -> Option<f64> {
        match (self, protocol) {
            (Self::Fixed(limit), _) => Some(limit.as_secs_f64()),
            (Self::Interval, Some(Protocol::Http | Protocol::Https)) => {
                interval_s.map(|interval| interval.min(HTTP_LIMIT.as_secs_f64()))
            }
            (Self::Interval, _) => interval_s,
        }
    }
}

/// The rules of one load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The configured interval; estimated from attempts when `None`.
    pub interval: Option<Duration>,
    pub limit: Limit,
    /// Failures in a row that take an instance out, at least 1.
    pub fall: u32,
    /// Successes in a row that bring it back, at least 1.
    pub rise: u32,
    pub statuses: Statuses,
}

impl Default for Rules {
    /// Azure Load Balancer: it acts on one probe (azure-docs pull 97561).
    fn default() -> Self {
        Self { interval: None, limit: Limit::Interval, fall: 1, rise: 1, statuses: Statuses::ok() }
    }
}

/// What an instance is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    #[default]
    Active,
    /// Refuses or ignores probes on purpose.
    Standby,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Active => "active",
            Self::Standby => "standby",
        })
    }
}

/// A probe that is configured to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Name of the logical NIC.
    pub nic: String,
    pub port: u16,
    pub protocol: Option<Protocol>,
    pub role: Role,
    /// The profile's rules with this entry's own values.
    pub rules: Rules,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_codes_and_ranges() {
        let both = Statuses::any(["200", "300-399"].map(|text| text.parse().expect("valid")));
        let both = both.expect("not empty");
        assert_eq!(both.to_string(), "200, 300-399");
        assert!(both.contains(200) && both.contains(302) && !both.contains(299) && !both.contains(404));
        assert_eq!(Statuses::any([]), None);
        for bad in ["", "abc", "99", "1000", "299-200", "200-", "-5"] {
            assert!(bad.parse::<Statuses>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_http_answer_has_at_most_thirty_seconds() {
        let limit = Limit::Interval;
        assert_eq!(limit.seconds(Some(120.0), Some(Protocol::Http)), Some(30.0));
        assert_eq!(limit.seconds(Some(120.0), Some(Protocol::Tcp)), Some(120.0));
        assert_eq!(limit.seconds(None, Some(Protocol::Http)), None);
        assert_eq!(Limit::Fixed(Duration::from_secs(10)).seconds(None, None), Some(10.0));
    }
}
