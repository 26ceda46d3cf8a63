//! What a prober's SYN looks like on the wire, and when it is repeated.

use std::time::Duration;

use pnet::packet::tcp::TcpOption;

use super::wire::TcpFlags;

/// The form of a prober's SYN.
#[derive(Clone, Debug)]
pub struct Signature {
    pub window: u16,
    pub mss: u16,
    pub window_scale: Option<u8>,
    /// Ask for ECN: ECE and CWR beside SYN (RFC 3168, 6.1.1).
    pub ecn: bool,
    pub timestamps: bool,
    /// Repetitions, counted from the first SYN.
    pub retransmits: Vec<Retransmit>,
}

/// One repetition of an unanswered SYN, from the same port with the same sequence number.
#[derive(Clone, Copy, Debug)]
pub struct Retransmit {
    pub after: Duration,
    /// Keep the ECN flags and the window scale.
    pub full: bool,
}

impl Signature {
    /// Azure's IPv4 probe: three independent traces agree (FACTS 4.1).
    pub fn azure_v4() -> Self {
        let repeat = |seconds, full| Retransmit { after: Duration::from_secs(seconds), full };
        Self {
            window: 8192,
            mss: 1440,
            window_scale: Some(8),
            ecn: true,
            timestamps: false,
            retransmits: vec![repeat(3, true), repeat(9, false)],
        }
    }

    /// Azure's IPv6 probe: one trace, one repetition seen (FACTS 4.1).
    pub fn azure_v6() -> Self {
        Self {
            window: 64800,
            retransmits: vec![Retransmit { after: Duration::from_secs(1), full: true }],
            ..Self::azure_v4()
        }
    }

    /// Google's probe, which has timestamps (FACTS 4.1); repeated as Linux does.
    pub fn gcp() -> Self {
        let repeat = |seconds| Retransmit { after: Duration::from_secs(seconds), full: true };
        Self {
            window: 65535,
            mss: 1420,
            window_scale: Some(8),
            ecn: false,
            timestamps: true,
            retransmits: vec![repeat(1), repeat(3), repeat(7)],
        }
    }

    /// The flags of a SYN; `full` is false for the last repetition.
    pub fn flags(&self, full: bool) -> u8 {
        if self.ecn && full { TcpFlags::SYN | TcpFlags::ECE | TcpFlags::CWR } else { TcpFlags::SYN }
    }

    /// The options of a SYN sent at `clock` milliseconds.
    pub fn options(&self, full: bool, clock: u32) -> Vec<TcpOption> {
        let mut options = vec![TcpOption::mss(self.mss)];
        if let Some(scale) = self.window_scale.filter(|_| full) {
            options.extend([TcpOption::nop(), TcpOption::wscale(scale)]);
        }
        if self.timestamps {
            options.extend([TcpOption::sack_perm(), TcpOption::timestamp(clock, 0)]);
        } else {
            options.extend([TcpOption::nop(), TcpOption::nop(), TcpOption::sack_perm()]);
        }
        options
    }
}
