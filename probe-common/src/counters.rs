//! Counters that the programs keep per CPU, and that must reconcile:
//! `seen = followed + tracked + Σ ignored + Σ failed` for each [`Program`].

/// The programs that count; the key of the `COUNTERS` per-CPU array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Program {
    /// XDP at ingress of a watched NIC.
    Xdp = 0,
    /// TC classifier at ingress.
    TcIngress = 1,
    /// TC classifier at egress.
    TcEgress = 2,
    /// Raw tracepoint `kfree_skb`.
    Drops = 3,
}

impl Program {
    /// Every program, in key order.
    pub const ALL: [Self; 4] = [Self::Xdp, Self::TcIngress, Self::TcEgress, Self::Drops];

    /// Name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xdp => "xdp",
            Self::TcIngress => "tc-ingress",
            Self::TcEgress => "tc-egress",
            Self::Drops => "drops",
        }
    }
}

/// What became of a packet that a program saw: exactly one outcome each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Outcome {
    /// Part of a probe: its entry was made or found.
    Followed = 0,
    /// Ignored: not IPv4 or IPv6 (ARP, LLDP, …).
    IgnoredNotIp,
    /// Ignored: neither end is a source.
    IgnoredForeign,
    /// Ignored: VM-initiated traffic to a source, or its answer (wire server, DNS, DHCP).
    IgnoredPlatform,
    /// Ignored: TCP with a source that belongs to no connection whose SYN was seen.
    IgnoredUnknownConnection,
    /// Ignored: with a source, but not TCP and no ICMP error that quotes a probe.
    IgnoredOtherProtocol,
    /// Ignored: a later fragment; its ports are in the first one.
    IgnoredFragment,
    /// Ignored: dropped in another network namespace.
    IgnoredOtherNamespace,
    /// Failed: a header is cut short, or a length in it is impossible.
    FailedMalformed,
    /// Failed: more headers than the parser follows (VLAN tags, IPv6 extension headers).
    FailedTooDeep,
    /// Failed: bytes that the kernel would not hand out.
    FailedUnreadable,
    /// Failed: the entry for a new probe did not fit into `PROBES`.
    FailedMapFull,
    /// Nobody's probe, and entered into `FLOWS`.
    Tracked,
    /// Failed: the entry for a new flow found no place in `FLOWS`.
    FailedFlowsFull,
    /// Failed: the kernel refused the entry for a new flow.
    FailedFlowsRefused,
}

impl Outcome {
    /// Every outcome, in index order.
    pub const ALL: [Self; 15] = [
        Self::Followed,
        Self::IgnoredNotIp,
        Self::IgnoredForeign,
        Self::IgnoredPlatform,
        Self::IgnoredUnknownConnection,
        Self::IgnoredOtherProtocol,
        Self::IgnoredFragment,
        Self::IgnoredOtherNamespace,
        Self::FailedMalformed,
        Self::FailedTooDeep,
        Self::FailedUnreadable,
        Self::FailedMapFull,
        Self::Tracked,
        Self::FailedFlowsFull,
        Self::FailedFlowsRefused,
    ];

    /// Name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Followed => "followed",
            Self::IgnoredNotIp => "ignored-not-ip",
            Self::IgnoredForeign => "ignored-foreign",
            Self::IgnoredPlatform => "ignored-platform",
            Self::IgnoredUnknownConnection => "ignored-unknown-connection",
            Self::IgnoredOtherProtocol => "ignored-other-protocol",
            Self::IgnoredFragment => "ignored-fragment",
            Self::IgnoredOtherNamespace => "ignored-other-namespace",
            Self::FailedMalformed => "failed-malformed",
            Self::FailedTooDeep => "failed-too-deep",
            Self::FailedUnreadable => "failed-unreadable",
            Self::FailedMapFull => "failed-map-full",
            Self::Tracked => "tracked",
            Self::FailedFlowsFull => "failed-flows-full",
            Self::FailedFlowsRefused => "failed-flows-refused",
        }
    }
}

/// One program's counters on one CPU; the value of the `COUNTERS` per-CPU array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counters {
    /// Packets that entered the program.
    pub seen: u64,
    /// Packets by [`Outcome`].
    pub outcomes: [u64; Outcome::ALL.len()],
    /// Observations put into the ring.
    pub observed: u64,
    /// Observations that found the ring full.
    pub ring_lost: u64,
    /// New entries put into `PROBES`; less what is still there, this is what was evicted.
    pub inserted: u64,
    /// New entries put into `FLOWS`.
    pub flows_inserted: u64,
}

impl Counters {
    /// The count of one outcome.
    pub const fn outcome(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome as usize]
    }

    /// Adds another CPU's (or program's) counters.
    pub fn add(&mut self, other: &Self) {
        self.seen += other.seen;
        for (sum, value) in self.outcomes.iter_mut().zip(other.outcomes) {
            *sum += value;
        }
        self.observed += other.observed;
        self.ring_lost += other.ring_lost;
        self.inserted += other.inserted;
        self.flows_inserted += other.flows_inserted;
    }

    /// Whether every packet seen has exactly one outcome.
    pub fn reconciles(&self) -> bool {
        self.seen == self.outcomes.iter().sum::<u64>()
    }
}

#[cfg(feature = "user")]
// SAFETY: `repr(C)` of u64 only: no padding, every bit pattern is valid.
unsafe impl aya::Pod for Counters {}
