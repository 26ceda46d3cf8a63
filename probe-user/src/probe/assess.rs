//! From what was seen of an attempt to its verdict: a pure function, whatever the order in which packets were read.

use super::{
    attempt::{Attempt, Left},
    http,
    rules::Statuses,
    tls,
};
use crate::report::document::{Protocol, Reply, Verdict};

/// How long after a good SYN-ACK a request may still come before a probe of a series whose protocol is not known yet
/// counts as plain TCP. A prober sends its request with the handshake's ACK; 250 ms is far beyond that.
pub const SETTLE_NS: u64 = 250_000_000;

/// Whether silence may be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silence {
    /// More packets may be waiting, or were lost.
    Open,
    /// Everything up to now was read, and losses were told.
    Judged,
}

/// What an attempt is judged by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measure<'a> {
    /// What the series is known to speak.
    pub known: Option<Protocol>,
    pub now_ns: u64,
    pub silence: Silence,
    /// Within what time an answer counts.
    pub limit_ns: u64,
    pub statuses: &'a Statuses,
    /// Which NIC a packet used is known. A capture may not tell.
    pub nics_known: bool,
}

/// What an attempt came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    pub verdict: Verdict,
    pub reply: Reply,
    /// When it was decided, ns: at the reply, or at the end of the wait.
    pub decided_ns: u64,
    /// The NIC a misrouted reply left by.
    pub out_nic: Option<u32>,
    /// The handshake went well.
    pub connected: bool,
    /// The request was read and the connection closed without an answer.
    pub closed_by_application: bool,
    /// Accepted, request seen, never answered.
    pub timed_out: bool,
    pub http_status: Option<u16>,
    /// The alert, and whether the prober sent it.
    pub tls_alert: Option<(u8, bool)>,
}

impl Judgement {
    const fn new(verdict: Verdict, reply: Reply, decided_ns: u64) -> Self {
        Self {
            verdict,
            reply,
            decided_ns,
            out_nic: None,
            connected: false,
            closed_by_application: false,
            timed_out: false,
            http_status: None,
            tls_alert: None,
        }
    }

    /// Whether both say the same; when it was decided may have become clearer.
    pub(super) fn says(&self, other: &Self) -> bool {
        Self { decided_ns: 0, ..*self } == Self { decided_ns: 0, ..*other }
    }

    const fn asymmetric(reply: Reply, left: Left) -> Self {
        Self { out_nic: Some(left.nic), ..Self::new(Verdict::Asymmetric, reply, left.at_ns) }
    }
}

impl Attempt {
    /// What the attempt has come to, if it has.
    pub(super) fn assess(&self, by: &Measure<'_>) -> Option<Judgement> {
        match self.accepted(by) {
            Some(accepted) => {
                self.assess_connected(accepted, by).map(|judged| Judgement { connected: true, ..judged })
            }
            None => self.assess_unconnected(by),
        }
    }

    /// The SYN-ACK that the prober got, unless it had been told no before and not asked again.
    fn accepted(&self, by: &Measure<'_>) -> Option<Left> {
        let accepted = self.syn_ack.here?;
        let refused = [self.rst.here, self.icmp.here].into_iter().flatten().map(|left| left.at_ns).min();
        let stands = refused.is_none_or(|no| accepted.at_ns < no || self.last_syn_ns > no);
        // Where the NIC is not known, only the prober's own word shows that the SYN-ACK arrived.
        let arrived = by.nics_known || self.acked_ns.is_some() || self.ended_ns.is_some();
        // Too late to change what an earlier reply meant.
        let overtaken = self.is_late(accepted.at_ns, by)
            && self.first_no().is_some_and(|no| !self.is_late(no.decided_ns, by));
        (stands && arrived && !overtaken).then_some(accepted)
    }

    fn is_late(&self, at_ns: u64, by: &Measure<'_>) -> bool {
        at_ns.saturating_sub(self.started_ns) > by.limit_ns
    }

    /// The load balancer had decided before this answer came.
    fn late(&self, answer: Judgement, by: &Measure<'_>) -> Judgement {
        let decided_ns = self.started_ns.saturating_add(by.limit_ns).min(answer.decided_ns);
        Judgement { verdict: Verdict::Slow, decided_ns, ..answer }
    }

    /// Whether the wait is over, and when it was.
    fn silent(&self, by: &Measure<'_>) -> Option<u64> {
        let over = self.overdue || self.given_up_ns.is_some();
        let end = self.started_ns.saturating_add(by.limit_ns).min(by.now_ns);
        (over && by.silence == Silence::Judged)
            .then(|| self.given_up_ns.map_or(end, |gave_up| gave_up.min(end)))
    }

    fn assess_connected(&self, accepted: Left, by: &Measure<'_>) -> Option<Judgement> {
        match (self.request_ns, self.speaks()) {
            (Some(request_ns), Some(protocol @ (Protocol::Http | Protocol::Https))) => {
                self.assess_request(request_ns, protocol, by)
            }
            (_, speaks) => {
                let plain = speaks == Some(Protocol::Tcp) || by.known == Some(Protocol::Tcp);
                // A series that is known to ask may still ask.
                let may_ask = matches!(by.known, Some(Protocol::Http | Protocol::Https));
                let settled = !may_ask && by.now_ns >= accepted.at_ns.saturating_add(SETTLE_NS);
                let over = self.ended_ns.is_some() || self.silent(by).is_some();
                let ok = Judgement::new(Verdict::Ok, Reply::SynAck, accepted.at_ns);
                let late = self.is_late(accepted.at_ns, by);
                (plain || settled || over).then(|| if late { self.late(ok, by) } else { ok })
            }
        }
    }

    /// An HTTP or TLS attempt whose request was seen.
    fn assess_request(&self, request_ns: u64, protocol: Protocol, by: &Measure<'_>) -> Option<Judgement> {
        let wrong_in_time = self.answer.elsewhere.is_some_and(|left| !self.is_late(left.at_ns, by));
        let overtaken = |at_ns| self.is_late(at_ns, by) && wrong_in_time;
        if let Some(answer) = self.answer.here.filter(|answer| !overtaken(answer.at_ns)) {
            // A banner may come before the request; it answers the request all the same.
            let at_ns = answer.at_ns.max(request_ns);
            let judged = if protocol == Protocol::Http { self.http(at_ns, by) } else { self.tls(at_ns) };
            match judged {
                Some(judged) if self.is_late(at_ns, by) => return Some(self.late(judged, by)),
                Some(judged) => return Some(judged),
                None if self.is_unreadable() => return None,
                None => {}
            }
        }
        let elsewhere = [(Reply::Data, self.answer), (Reply::Rst, self.rst), (Reply::Icmp, self.icmp)];
        for (reply, sides) in elsewhere {
            let right = sides.here.is_some_and(|left| !overtaken(left.at_ns));
            if let (Some(left), false) = (sides.elsewhere, right) {
                return Some(Judgement::asymmetric(reply, left));
            }
        }
        let reply = if self.answer.here.is_some() { Reply::Data } else { Reply::None };
        let closed = match (self.rst.here, self.closed.here) {
            (Some(rst), _) => Some((rst, Reply::Rst)),
            (None, Some(fin)) => Some((fin, reply)),
            (None, None) => None,
        };
        if let Some((left, reply)) = closed {
            let refused = Judgement::new(Verdict::Refused, reply, left.at_ns.max(request_ns));
            return Some(Judgement { closed_by_application: true, ..refused });
        }
        if let Some(left) = self.icmp.here {
            return Some(Judgement::new(Verdict::IcmpReject, Reply::Icmp, left.at_ns));
        }
        let end = self.silent(by).filter(|_| !self.void)?;
        Some(Judgement { timed_out: true, ..Judgement::new(Verdict::NoReply, reply, end) })
    }

    fn http(&self, at_ns: u64, by: &Measure<'_>) -> Option<Judgement> {
        let (verdict, http_status) = match http::answer(self.answer_bytes()) {
            http::Answer::Partial => return None,
            http::Answer::Status(status) if by.statuses.contains(status) => (Verdict::Ok, Some(status)),
            http::Answer::Status(status) => (Verdict::HttpStatus, Some(status)),
            http::Answer::NotHttp => (Verdict::HttpStatus, None),
        };
        Some(Judgement { http_status, ..Judgement::new(verdict, Reply::Data, at_ns) })
    }

    fn tls(&self, at_ns: u64) -> Option<Judgement> {
        let fail = |at_ns, tls_alert| Judgement {
            tls_alert,
            ..Judgement::new(Verdict::TlsFail, Reply::Data, at_ns)
        };
        match (tls::answer(self.answer_bytes()), self.prober_alert) {
            (tls::Answer::Alert(alert), _) => Some(fail(at_ns, Some((alert, false)))),
            (tls::Answer::NotTls, _) => Some(fail(at_ns, None)),
            (_, Some((alert, alert_ns))) => Some(fail(alert_ns, Some((alert, true)))),
            (tls::Answer::ServerHello, None) => Some(Judgement::new(Verdict::Ok, Reply::Data, at_ns)),
            (tls::Answer::Partial, None) => None,
        }
    }

    /// The first reply that is no acceptance by the right NIC.
    fn first_no(&self) -> Option<Judgement> {
        let kinds = [
            (self.syn_ack, Reply::SynAck, None),
            (self.rst, Reply::Rst, Some(Verdict::Refused)),
            (self.icmp, Reply::Icmp, Some(Verdict::IcmpReject)),
        ];
        let mut first: Option<Judgement> = None;
        for (sides, reply, verdict) in kinds {
            let here = sides.here.zip(verdict).map(|(left, what)| Judgement::new(what, reply, left.at_ns));
            let elsewhere = sides.elsewhere.map(|left| Judgement::asymmetric(reply, left));
            for judged in here.into_iter().chain(elsewhere) {
                if first.is_none_or(|known| judged.decided_ns < known.decided_ns) {
                    first = Some(judged);
                }
            }
        }
        first
    }

    fn assess_unconnected(&self, by: &Measure<'_>) -> Option<Judgement> {
        let first = self.first_no();
        // Where the NIC is not known, a SYN-ACK that nobody acknowledged may have left by the wrong one.
        if first.is_some() || self.syn_ack.here.is_some() {
            return first;
        }
        let end = self.silent(by).filter(|_| !self.void)?;
        Some(Judgement::new(Verdict::NoReply, Reply::None, end))
    }

    /// When [`Attempt::assess`] may change its mind by time alone.
    pub(super) fn settles_ns(&self, known: Option<Protocol>) -> Option<u64> {
        let may_ask = matches!(known, Some(Protocol::Http | Protocol::Https));
        let syn_ack = self.syn_ack.here.filter(|_| self.request_ns.is_none() && !may_ask)?;
        (self.judgement.is_none() || self.fresh).then(|| syn_ack.at_ns.saturating_add(SETTLE_NS))
    }
}
