//! Cadences, told from when attempts began.
//!
//! One prober: every gap is the interval (or a small multiple, when an attempt was missed) within the jitter. Two
//! probers on one port: the starts split into two such sequences. Anything else has no interval: it is unknown.

/// A gap may differ from its cadence by this share, and by that one when nothing else explains it.
const JITTER: f64 = 0.15;
const LAX_JITTER: f64 = 0.35;
/// A member of one of two interleaved sequences may be off by this share of its period.
const INTERLEAVED_JITTER: f64 = 0.15;
/// Missed attempts in a row that a gap may stand for, plus one.
const MISSED: u32 = 3;
/// Attempts looked at: enough for two cadences, cheap to search.
const LOOKED_AT: usize = 32;

/// Every cadence in seconds, shortest first; empty while unknown. `starts` are in ns and in order.
pub fn cadences(starts: &[u64]) -> Vec<f64> {
    let recent = &starts[starts.len().saturating_sub(LOOKED_AT)..];
    let seconds: Vec<f64> = recent.iter().map(|ns| *ns as f64 / 1e9).collect();
    // The first SYN seen may repeat one from before the look: it is no beginning then, and lies anywhere.
    let later = seconds.get(1..).unwrap_or(&[]);
    for starts in [&seconds, later] {
        if let Some(period) = single(starts, JITTER) {
            return vec![rounded(period)];
        }
    }
    for starts in [&seconds, later] {
        if let Some((a, b)) = interleaved(starts) {
            return vec![rounded(a.min(b)), rounded(a.max(b))];
        }
        if let Some(period) = single(starts, LAX_JITTER) {
            return vec![rounded(period)];
        }
    }
    Vec::new()
}

/// Two agreeing gaps at least: one gap may lie between two probers.
fn single(starts: &[f64], jitter: f64) -> Option<f64> {
    let gaps = gaps(starts);
    if gaps.len() < 2 {
        return None;
    }
    let period = median(&gaps);
    let fits = |gap: &f64| (1..=MISSED).any(|times| close(*gap, period * f64::from(times), jitter * period));
    let plain = gaps.iter().filter(|gap| close(**gap, period, jitter * period)).count();
    (period > 0.0 && gaps.iter().all(fits) && plain * 2 >= gaps.len()).then_some(period)
}

/// Splits the starts into two periodic sequences: the first takes every start that lies one period after its last,
/// the rest must be periodic by itself. At least three members each, and no two sequences of one period that could as
/// well be one with a jitter.
fn interleaved(starts: &[f64]) -> Option<(f64, f64)> {
    const MEMBERS: usize = 3;
    if starts.len() < 2 * MEMBERS {
        return None;
    }
    // The first prober's second start is among the first few; its period is that gap.
    for first in 0..2 {
        for second in first + 1..(first + 5).min(starts.len()) {
            let period = starts[second] - starts[first];
            if period <= 0.0 {
                continue;
            }
            let (chain, rest) = split(starts, first, period);
            if chain.len() < MEMBERS || rest.len() < MEMBERS || !covers(starts, &chain, period) {
                continue;
            }
            let rest_gaps = gaps(&rest);
            let other = median(&rest_gaps);
            if rest_gaps.iter().all(|gap| close(*gap, other, INTERLEAVED_JITTER * other))
                && covers(starts, &rest, other)
            {
                let period = median(&gaps(&chain));
                // Two of one period half a period apart may as well be one of half of it.
                let apart = (rest.first()? - chain.first()?).rem_euclid(period) / period;
                if close(period, other, INTERLEAVED_JITTER * period) && close(apart, 0.5, 0.15) {
                    continue;
                }
                return Some((period, other));
            }
        }
    }
    None
}

fn split(starts: &[f64], first: usize, period: f64) -> (Vec<f64>, Vec<f64>) {
    let mut chain = vec![starts[first]];
    let mut rest: Vec<f64> = starts[..first].to_vec();
    let mut index = first + 1;
    while index < starts.len() {
        let due = chain.last().copied().unwrap_or(0.0) + period;
        let tolerance = INTERLEAVED_JITTER * period;
        // The nearest start to when the next member is due.
        let nearest = (index..starts.len())
            .take_while(|candidate| starts[*candidate] <= due + tolerance)
            .min_by(|a, b| (starts[*a] - due).abs().total_cmp(&(starts[*b] - due).abs()))
            .filter(|candidate| close(starts[*candidate], due, tolerance));
        let Some(nearest) = nearest else { break };
        rest.extend(&starts[index..nearest]);
        chain.push(starts[nearest]);
        index = nearest + 1;
    }
    rest.extend(&starts[index..]);
    (chain, rest)
}

/// Whether a sequence runs through the whole time looked at, not just through a part of it.
fn covers(starts: &[f64], sequence: &[f64], period: f64) -> bool {
    let (Some(first), Some(last)) = (starts.first(), starts.last()) else { return false };
    let (Some(begin), Some(end)) = (sequence.first(), sequence.last()) else { return false };
    begin - first <= period * 1.2 && last - end <= period * 1.2
}

fn gaps(starts: &[f64]) -> Vec<f64> {
    starts.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

fn close(value: f64, expected: f64, tolerance: f64) -> bool {
    (value - expected).abs() <= tolerance
}

/// Milliseconds are as fine as an estimate can be.
fn rounded(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ns(seconds: &[f64]) -> Vec<u64> {
        seconds.iter().map(|s| (s * 1e9) as u64).collect()
    }

    fn every(period: f64, offset: f64, until: f64) -> Vec<f64> {
        (0..1000).map(|n| offset + period * f64::from(n)).take_while(|t| *t <= until).collect()
    }

    fn merged(mut a: Vec<f64>, b: &[f64]) -> Vec<f64> {
        a.extend(b);
        a.sort_by(f64::total_cmp);
        a
    }

    #[test]
    fn two_attempts_are_not_yet_a_cadence() {
        assert!(cadences(&ns(&[0.0, 5.0])).is_empty());
        assert_eq!(cadences(&ns(&[0.0, 5.0, 10.0])), [5.0]);
    }

    #[test]
    fn a_missed_attempt_does_not_change_the_cadence() {
        assert_eq!(cadences(&ns(&[0.0, 5.0, 10.0, 20.0, 25.0])), [5.0]);
    }

    #[test]
    fn a_repeated_syn_at_the_beginning_does_not_hide_the_cadence() {
        assert_eq!(cadences(&ns(&[0.0, 0.002, 1.0, 2.0, 3.0])), [1.0]);
        let mut starts = merged(every(5.0, 1.0, 60.0), &every(15.0, 3.1, 60.0));
        starts.insert(0, 0.9);
        assert_eq!(cadences(&ns(&starts)), [5.0, 15.0]);
    }

    #[test]
    fn two_probers_are_two_cadences() {
        let starts = merged(every(5.0, 0.0, 60.0), &every(15.0, 2.1, 60.0));
        assert_eq!(cadences(&ns(&starts)), [5.0, 15.0]);
        let starts = merged(every(5.0, 0.0, 40.0), &every(5.0, 1.0, 40.0));
        assert_eq!(cadences(&ns(&starts)), [5.0, 5.0]);
    }

    #[test]
    fn what_has_no_pattern_has_no_cadence() {
        assert!(cadences(&ns(&[0.0, 0.3, 5.0, 5.9, 13.0, 13.1, 20.0])).is_empty());
        assert!(cadences(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn jitter_up_to_a_fifth_is_one_cadence(
            period in 0.2f64..60.0,
            jitter in prop::collection::vec(-0.1f64..0.1, 3..30),
        ) {
            let starts: Vec<f64> =
                jitter.iter().enumerate().map(|(n, j)| 100.0 + period * (n as f64 + j)).collect();
            let found = cadences(&ns(&starts));
            prop_assert_eq!(found.len(), 1);
            prop_assert!((found[0] - period).abs() <= period * 0.2, "{} for {}", found[0], period);
        }

        /// Two probers, neither a simple multiple of the other nor nearly in step, are told apart or not told at all.
        #[test]
        fn two_cadences_are_found_or_unknown(
            a in 2.0f64..10.0,
            ratio in 2.2f64..2.8,
            offset in 0.2f64..0.8,
            jitter in prop::collection::vec(-0.02f64..0.02, 200),
        ) {
            let b = a * ratio;
            let until = 6.0 * b;
            let mut starts = merged(every(a, 0.0, until), &every(b, offset * a, until));
            for (start, jitter) in starts.iter_mut().zip(jitter) {
                *start += 10.0 + jitter * a;
            }
            let found = cadences(&ns(&starts));
            let near = |found: f64, period: f64| (found - period).abs() <= 0.1 * period;
            prop_assert!(
                found.is_empty() || (found.len() == 2 && near(found[0], a) && near(found[1], b)),
                "{found:?} for {a} and {b}: {starts:?}"
            );
        }

        #[test]
        fn no_sequence_of_starts_panics(mut starts in prop::collection::vec(any::<u64>(), 0..80)) {
            starts.sort_unstable();
            let found = cadences(&starts);
            prop_assert!(found.len() <= 2);
        }
    }
}
