//! Joins the parts for one live host: observer → models → diagnosis → report.

pub mod assemble;
pub mod clock;
pub mod conclude;
mod history;
pub mod nics;
mod trace;
pub mod unobserved;
mod waiting;

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
pub use clock::boot_ns;
use probe_common::{
    counters::{Counters, Outcome, Program},
    observation::Observation,
};

use crate::{
    capture::{
        instance::Instance,
        live::{
            self, Observer,
            drops::{DropReasons, Dropped, Reasons},
            load::Sizes,
            mode::{IngressChoice, TcChoice},
        },
        privileges,
    },
    config::Judging,
    diagnose::{
        self, Case,
        condition::{self, Broken, Own, Scene},
        trace::Trace,
    },
    fix::PolicyFix,
    host::{
        self, Facts,
        imds::{Imds, Service},
        links::Links,
        lookup::{Query, RouteLookup},
        netlink::Netlink,
        sockets::Connecting,
        watch::Watch,
    },
    predict::predict,
    probe::{self, Series, Tracker},
    report::{
        document::{Finding, Nic, ObserverState, Platform, Reason, Report, Verdict},
        event::Event,
        time::rfc3339,
    },
    source::{Source, from_mapped},
};
use assemble::Context;
use clock::Clock;
use conclude::Look;
use history::History;
use nics::Names;
use waiting::Waiting;

/// Observations taken before the models run and losses are looked at.
const BATCH: usize = 1024;
/// Dropped packets kept for diagnosis: a probe that is never answered drops a handful.
const DROPS_KEPT: usize = 8192;
/// How often losses are looked at without traffic, ns.
const HEARTBEAT_NS: u64 = 1_000_000_000;

/// How long the kernel's table remembers a probe, ns. Far beyond its SYN-ACK retransmissions (about a minute) and the
/// longest usual interval, and short enough for 64 ports probed every 5 s.
const REMEMBERED_NS: u64 = 300_000_000_000;
/// How often it is asked to forget, ns.
const FORGET_EVERY_NS: u64 = 30_000_000_000;

/// What to observe, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    pub sources: Vec<Source>,
    /// NICs to judge, by name; every physical one when empty.
    pub nics: Vec<String>,
    pub ingress: IngressChoice,
    pub tc: TcChoice,
    pub sizes: Sizes,
    pub kernel_log: bool,
    pub drop_reasons: DropReasons,
    /// Azure's instance metadata service; `None` asks nobody.
    pub imds: Option<Service>,
    /// By what rules probes are judged, and which must come.
    pub judging: Judging,
    /// The binary that can clean up after this process's death on the clsact path.
    pub guardian: Option<PathBuf>,
}

/// A live observation of this thread's network namespace.
pub struct Monitor {
    settings: Settings,
    observer: Observer,
    tracker: Tracker,
    /// Keeps the connection that the observer asks about qdiscs.
    _netlink: Netlink,
    watch: Watch,
    history: History,
    waiting: Waiting,
    advise: bool,
    links: Links,
    names: Names,
    judged: std::collections::BTreeSet<u32>,
    clock: Clock,
    started_ns: u64,
    /// Losses that the models know of.
    lost: u64,
    /// When old probes were last forgotten.
    forgot_ns: u64,
    /// Reasons for a degraded observer that will not go away.
    lasting: Vec<Reason>,
    /// Failing verdicts whose cause was told.
    told: std::collections::BTreeMap<probe::SeriesKey, Verdict>,
    /// Expected probes, by place in the configuration, whose absence was told.
    missing: std::collections::BTreeSet<usize>,
    /// What becomes of flows when an instance is down.
    flows: Option<String>,
    /// The fixes of the last report, in the abstract.
    plans: Vec<PolicyFix>,
    batch: Vec<Observation>,
    /// The latest packets of probes that the kernel dropped.
    dropped: Vec<Dropped>,
    /// The host's counters when the look began.
    counters_before: crate::host::counters::Counters,
    /// What the metadata service says, once it has.
    imds: Option<tokio::task::JoinHandle<Imds>>,
    happened: Vec<probe::Event>,
    // Last, so that the lock is free only when everything is detached.
    _instance: Instance,
}

impl Monitor {
    /// Checks privileges, takes the lock, loads and attaches. Everything is undone when this fails.
    pub async fn start(settings: Settings) -> anyhow::Result<Self> {
        privileges::check()?;
        let instance = Instance::take()?;
        let netlink = Netlink::open().context("cannot open a netlink socket")?;
        // Before the first listing, so that no change falls between.
        let watch = Watch::start()?;
        let history = History::start(&settings.sources).await?;
        let links = host::links().await?;
        let judged = nics::judged(&settings.nics, &links)?;
        nics::check_expected(&settings.judging.expected, &judged, &links)?;
        let options = live::Options {
            sources: settings.sources.clone(),
            ingress: settings.ingress,
            tc: settings.tc,
            sizes: settings.sizes,
            guardian: settings.guardian.clone(),
            kernel_log: settings.kernel_log,
            drop_reasons: settings.drop_reasons.clone(),
        };
        let mut observer =
            Observer::load(options, netlink.handle.clone()).context("cannot load the BPF programs")?;
        observer.map_devices(nics::mapping(&links, &judged))?;
        if let Err(error) = observer.sync(&nics::targets(&links, &judged), true).await {
            observer.close().await;
            return Err(anyhow::Error::new(error).context("cannot observe"));
        }
        // A probe that came in before every device was covered may have been answered unseen: it is nobody's.
        let mut early = Vec::new();
        observer.drain(usize::MAX, &mut early);
        let mut names = Names::default();
        names.learn(&links);
        let tracker = Tracker::new(probe::Config {
            judged: Some(judged.clone()),
            rules: settings.judging.rules.clone(),
            expected: nics::expected(&settings.judging.expected, &links),
            ..probe::Config::default()
        });
        let flows = settings.judging.flows();
        let settings_imds = settings.imds;
        Ok(Self {
            observer,
            tracker,
            _netlink: netlink,
            watch,
            history,
            advise: false,
            waiting: Waiting::new(&settings.sources),
            settings,
            links,
            names,
            judged,
            clock: Clock::start(),
            started_ns: boot_ns(),
            lost: 0,
            forgot_ns: boot_ns(),
            lasting: Vec::new(),
            told: std::collections::BTreeMap::new(),
            missing: std::collections::BTreeSet::new(),
            flows,
            plans: Vec::new(),
            batch: Vec::with_capacity(BATCH),
            dropped: Vec::new(),
            counters_before: crate::host::counters::Counters::read().unwrap_or_default(),
            imds: settings_imds.map(|service| tokio::spawn(async move { service.ask().await })),
            happened: Vec::new(),
            _instance: instance,
        })
    }

    /// Somebody looks closely: the report says what is hardly worth a word, too.
    pub const fn advise(&mut self) {
        self.advise = true;
    }

    /// The line that tells scripts to start traffic.
    pub fn ready_line(&self) -> String {
        let nics: Vec<String> = self
            .observer
            .attachments()
            .filter(|attachment| attachment.judged)
            .map(|attachment| {
                format!("{} ({} in, {} out)", attachment.name, attachment.ingress, attachment.tc)
            })
            .collect();
        let sources: Vec<String> = self.settings.sources.iter().map(ToString::to_string).collect();
        format!("ready: observing {}; probes from {}", nics.join(", "), sources.join(", "))
    }

    /// Waits for something to happen and says it. False once `end_ns` (boot time) has passed.
    pub async fn next(&mut self, end_ns: u64, said: &mut Vec<Event>) -> anyhow::Result<bool> {
        let now = boot_ns();
        if now >= end_ns {
            return Ok(false);
        }
        let deadlines = [self.tracker.next_deadline(), self.history.due_ns(), Some(end_ns)];
        let due = deadlines.into_iter().flatten().min().unwrap_or(end_ns);
        // A deadline just passed is dealt with at once; the pause keeps an early timer from spinning.
        let pause = due.saturating_sub(now).clamp(1_000_000, HEARTBEAT_NS);
        let mut links_changed = false;
        tokio::select! {
            readable = self.observer.readable() => readable?,
            notice = self.watch.changed() => {
                links_changed = notice.links;
                self.history.hear(notice);
            }
            () = tokio::time::sleep(Duration::from_nanos(pause)) => {}
        }
        self.pump()?;
        if links_changed {
            self.relink(said).await?;
        }
        self.history.catch_up().await;
        self.observer.forward_logs();
        let now = boot_ns();
        if now.saturating_sub(self.forgot_ns) >= FORGET_EVERY_NS {
            self.forgot_ns = now;
            let before_ns = now.saturating_sub(REMEMBERED_NS);
            self.observer.forget(before_ns)?;
            self.dropped.retain(|dropped| dropped.time_ns >= before_ns);
        }
        if self.waiting.is_due(now) {
            self.waiting.look(now, self.platform()?.packets_out);
        }
        self.say(said).await;
        self.say_missing(said);
        self.say_changes(said);
        Ok(true)
    }

    /// Feeds the models with what is there.
    fn pump(&mut self) -> anyhow::Result<()> {
        // The clock first and losses last: whatever was put into the ring, or lost, up to `now` is known when silence
        // up to `now` is judged, however long this thread was kept waiting in between.
        let now = boot_ns();
        loop {
            self.batch.clear();
            self.observer.drain(BATCH, &mut self.batch);
            for observation in &self.batch {
                self.tracker.observe(observation, &mut self.happened);
            }
            self.observer.drops(&mut self.dropped);
            let excess = self.dropped.len().saturating_sub(DROPS_KEPT);
            self.dropped.drain(..excess);
            let lost = self.observer.lost()?;
            if lost > self.lost {
                self.tracker.lost(lost - self.lost, boot_ns(), &mut self.happened);
                self.lost = lost;
            }
            if self.batch.len() < BATCH {
                break;
            }
        }
        self.tracker.tick(now, &mut self.happened);
        Ok(())
    }

    /// Devices came, went or changed: observe what is there now.
    async fn relink(&mut self, said: &mut Vec<Event>) -> anyhow::Result<()> {
        // Several changes come at once; one look at the end of them is enough.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let before: Vec<(u32, String)> = self.covered();
        self.links = host::links().await?;
        self.names.learn(&self.links);
        if self.settings.nics.is_empty() {
            self.judged.extend(nics::default(&self.links));
        } else if let Ok(judged) = nics::judged(&self.settings.nics, &self.links) {
            // A NIC that was deleted and made anew has a new ifindex.
            self.judged.extend(judged);
        }
        self.tracker.judge(self.judged.clone());
        self.tracker.expect(nics::expected(&self.settings.judging.expected, &self.links));
        self.observer.map_devices(nics::mapping(&self.links, &self.judged))?;
        self.observer.sync(&nics::targets(&self.links, &self.judged), false).await?;
        let after = self.covered();
        let time = rfc3339(self.clock.wall_ns(boot_ns()));
        for (ifindex, name) in &before {
            if !after.contains(&(*ifindex, name.clone())) && self.judged.contains(ifindex) {
                self.lasting.push(Reason {
                    code: "nic-gone".to_owned(),
                    text: format!("{name} went away at {time}: its probes are no longer seen"),
                });
                said.push(Event::Observer { time: time.clone(), text: format!("{name} went away") });
            }
        }
        for (ifindex, name) in &after {
            if !before.contains(&(*ifindex, name.clone())) {
                self.lasting.retain(|reason| {
                    !(reason.code == "nic-gone" && reason.text.starts_with(&format!("{name} ")))
                });
                said.push(Event::Observer { time: time.clone(), text: format!("{name} is observed now") });
            }
        }
        Ok(())
    }

    fn covered(&self) -> Vec<(u32, String)> {
        self.observer.attachments().map(|attachment| (attachment.ifindex, attachment.name.clone())).collect()
    }

    /// Says what the models found, with a finding for every series that turned bad.
    async fn say(&mut self, said: &mut Vec<Event>) {
        let happened = std::mem::take(&mut self.happened);
        let mut judged = std::collections::BTreeSet::new();
        let now = boot_ns();
        {
            let context = self.context();
            for event in &happened {
                let series = |key: &probe::SeriesKey| self.tracker.get(key).map(|s| context.series(s, now));
                said.extend(context.event(event, series));
                if let probe::Event::Judged { series, .. } = event {
                    judged.insert(*series);
                }
            }
        }
        for key in judged {
            let Some(series) = self.tracker.get(&key) else { continue };
            let verdict = series.verdict();
            if verdict == Verdict::Ok {
                self.told.remove(&key);
                continue;
            }
            // A single attempt is no finding: the next one tells. And each fault is told once.
            if !series.confirmed || self.told.get(&key) == Some(&verdict) {
                continue;
            }
            if let Some(finding) = self.finding(key).await {
                self.told.insert(key, verdict);
                said.push(Event::Finding { time: rfc3339(self.clock.wall_ns(boot_ns())), finding });
            }
        }
    }

    /// Says once that an expected probe does not come, and again when it stayed away after it had come.
    fn say_missing(&mut self, said: &mut Vec<Event>) {
        let now = boot_ns();
        let since = |at_ns: u64| now.saturating_sub(at_ns) as f64 / 1e9;
        let nics: Vec<String> = self.judged.iter().map(|nic| self.names.get(*nic)).collect();
        for (index, expected) in self.settings.judging.expected.iter().enumerate() {
            let patience = condition::patience(expected);
            let comes = self.tracker.series().any(|series| {
                series.key.local_port == expected.port
                    && self.names.get(series.key.nic) == expected.nic
                    && series.last_start_ns().is_some_and(|last| since(last) < patience)
            });
            if comes {
                self.missing.remove(&index);
                continue;
            }
            let scene = Scene {
                cases: &[],
                expected: &self.settings.judging.expected,
                window_s: since(self.started_ns),
                nics: &nics,
                profile: self.settings.judging.profile,
                listeners: &[],
                broken: &[],
                sources: &[],
                facts: None,
                advise: false,
                own: None,
            };
            if !self.missing.contains(&index)
                && let Some(finding) = condition::missing(&scene, expected)
            {
                self.missing.insert(index);
                said.push(Event::Finding { time: rfc3339(self.clock.wall_ns(now)), finding });
            }
        }
    }

    /// Says once which change of the host made a series fall.
    fn say_changes(&mut self, said: &mut Vec<Event>) {
        let fallen = self.history.explain(self.tracker.series(), &self.names);
        let broken: Vec<Broken> = fallen.iter().filter_map(|key| self.broken(key)).collect();
        let time = rfc3339(self.clock.wall_ns(boot_ns()));
        let findings = condition::changed(&broken).into_iter();
        said.extend(findings.map(|finding| Event::Finding { time: time.clone(), finding }));
    }

    fn broken(&self, key: &probe::SeriesKey) -> Option<Broken> {
        let changes = self.history.fallen(key)?.iter();
        Some(Broken {
            nic: self.names.get(key.nic),
            target: from_mapped(&key.local).to_string(),
            port: key.local_port,
            verdict: self.tracker.get(key)?.verdict(),
            changes: changes
                .map(|(at_ns, text)| (rfc3339(self.clock.wall_ns(*at_ns)), text.clone()))
                .collect(),
        })
    }

    /// The finding of one series as things stand.
    async fn finding(&self, key: probe::SeriesKey) -> Option<Finding> {
        let series = self.tracker.get(&key)?;
        let facts = Facts::read().await.ok()?;
        let lookup = self.look_up(&facts, series).await;
        let document = self.context().series(series, boot_ns());
        let trace = self.trace(&facts, series);
        let case = self.case(series, &document, &facts, lookup.as_ref(), trace.as_ref());
        diagnose::diagnose(&[case]).into_iter().next()
    }

    fn context(&self) -> Context<'_> {
        Context {
            names: &self.names,
            sources: &self.settings.sources,
            clock: self.clock,
            flows: self.flows.as_deref(),
            captured: &[],
        }
    }

    fn case<'a>(
        &self,
        series: &Series,
        document: &'a crate::report::document::Series,
        facts: &'a Facts,
        lookup: Option<&'a RouteLookup>,
        trace: Option<&'a Trace>,
    ) -> Case<'a> {
        Case {
            series: document,
            failures: self.context().failures(series),
            lookup,
            facts: Some(facts),
            trace,
        }
    }

    /// Asks the kernel where replies go, for a series that fails.
    async fn look_up(&self, facts: &Facts, series: &Series) -> Option<RouteLookup> {
        let from = from_mapped(&series.key.local);
        // A prefix has several addresses, and not all need fail.
        let to = from_mapped(&series.latest.get(&series.failing_verdict()?)?.tuple.peer);
        Some(facts.lookup(Query::reply(from, series.key.local_port, to, series.key.nic)).await)
    }

    /// What became of a failing series' packets inside the host.
    fn trace(&self, facts: &Facts, series: &Series) -> Option<Trace> {
        let attempt = series.latest.get(&series.failing_verdict()?)?;
        let name = |ifindex: u32| self.names.get(ifindex);
        Some(trace::gather(
            series,
            attempt,
            facts,
            facts.counters.since(&self.counters_before),
            // Where some were not read, what is not among them may have been dropped all the same.
            self.drop_reasons()
                .filter(|_| self.counters(Program::Drops).is_ok_and(|counters| counters.ring_lost == 0))
                .map(|reasons| (self.dropped.as_slice(), reasons)),
            name,
        ))
    }

    /// Where this host's own packets to the first exact IPv4 source go, when they get no answer, and which connections wait.
    async fn own_traffic(
        &self,
        facts: &Facts,
        platform: Platform,
    ) -> (String, Option<RouteLookup>, Vec<Connecting>) {
        let source =
            self.settings.sources.iter().find(|source| source.is_exact() && source.net.addr().is_ipv4());
        let Some(source) = source.filter(|_| platform.packets_out > 0 && platform.packets_in == 0) else {
            return ("the sources".to_owned(), None, Vec::new());
        };
        let lookup = facts.lookup(Query::own(source.net.addr())).await;
        let connecting = host::connecting(&[source.net]).unwrap_or_default();
        (source.to_string(), Some(lookup), connecting)
    }

    /// Ends the window and tells what it showed.
    pub async fn finish(&mut self) -> anyhow::Result<Report> {
        let now = boot_ns();
        self.pump()?;
        self.tracker.finish(now, &mut self.happened);
        self.happened.clear();
        let mut facts = Facts::read().await.context("cannot read the host's network configuration")?;
        if let Some(asked) = self.imds.take() {
            // It gives up by itself within a second.
            facts.imds = asked.await.unwrap_or_default();
        }
        self.history.learn(facts.clone());
        self.history.explain(self.tracker.series(), &self.names);
        let broken: Vec<Broken> =
            self.tracker.series().filter_map(|series| self.broken(&series.key)).collect();
        let mut series = Vec::new();
        for one in self.tracker.series() {
            series.push(conclude::Row {
                series: one,
                lookup: self.look_up(&facts, one).await,
                trace: self.trace(&facts, one),
            });
        }
        let ports = conclude::ports(series.iter().map(|row| &row.series.key));
        let listeners = host::listeners(&ports).unwrap_or_else(|error| {
            tracing::warn!("{error}");
            Vec::new()
        });
        let platform = self.platform()?;
        let waiting = self.waiting.unanswered(&facts, platform.packets_out).await;
        let (source, own, connecting) = self.own_traffic(&facts, platform).await;
        let own = Own {
            packets: platform,
            source: &source,
            connecting: &connecting,
            waiting: &waiting,
            lookup: own.as_ref(),
            facts: Some(&facts),
        };
        let look = Look {
            context: self.context(),
            judging: &self.settings.judging,
            series,
            facts: Some(&facts),
            listeners: &listeners,
            broken: &broken,
            advise: self.advise,
            own: Some(own),
            platform,
            observer: self.observer_state()?,
            nics: self.nic_rows(),
            from_ns: self.started_ns,
            to_ns: now,
        };
        let (mut report, plans) = look.conclude();
        if self.advise {
            let probed = |nic: &str, address: std::net::IpAddr| {
                let address = address.to_string();
                report.probes.iter().any(|series| series.nic == nic && series.target == address)
            };
            let (sources, expected) = (&self.settings.sources, &self.settings.judging.expected);
            report.predictions = predict(&facts, &self.judged, sources, expected, probed).await;
        }
        self.plans = plans;
        Ok(report)
    }

    /// The routing fixes that the last report names, for whoever applies them without a shell.
    pub fn plans(&self) -> &[PolicyFix] {
        &self.plans
    }

    fn nic_rows(&self) -> Vec<Nic> {
        self.observer
            .attachments()
            .filter(|attachment| attachment.judged)
            .map(|attachment| {
                let link = self.links.by_index(attachment.ifindex);
                let members = self.links.members(attachment.ifindex);
                Nic {
                    name: self.names.get(attachment.ifindex),
                    ifindex: attachment.ifindex,
                    mac: link.and_then(|link| link.mac).map(mac),
                    members: members.iter().map(|link| link.name.clone()).collect(),
                    ingress: Some(attachment.ingress.to_string()),
                    egress: Some(attachment.tc.to_string()),
                    note: attachment.note.clone(),
                }
            })
            .collect()
    }

    fn observer_state(&self) -> anyhow::Result<crate::report::document::Observer> {
        let lost = self.observer.lost()?;
        let evicted = self.observer.evicted()?;
        let mut reasons = self.lasting.clone();
        let mut reason = |code: &str, text: String| reasons.push(Reason { code: code.to_owned(), text });
        if lost > 0 {
            reason(
                "ring-full",
                format!("{lost} observations were lost because the ring was full; use --ring"),
            );
        }
        if evicted > 0 {
            reason("evicted", format!("{evicted} probes were evicted from the table before they ended"));
        }
        let mut failed = 0;
        for program in Program::ALL {
            failed += self.counters(program)?.outcome(Outcome::FailedMapFull);
        }
        if failed > 0 {
            reason("map-full", format!("{failed} probes did not fit into the table"));
        }
        for attachment in self.observer.attachments() {
            for (side, preference) in &attachment.behind {
                reason(
                    "behind-foreign-filter",
                    format!(
                        "{}: a foreign filter of preference {preference} stands before ours at {side:?}; packets that it ends are not seen",
                        attachment.name
                    ),
                );
            }
        }
        for (ifindex, text) in self.observer.uncovered() {
            reason("uncovered", format!("{} is not observed: {text}", self.names.get(ifindex)));
        }
        if let Some(why) = self.observer.drops_unavailable() {
            reason(why.code(), why.to_string());
        }
        let unread = self.counters(Program::Drops)?.ring_lost;
        if unread > 0 {
            reason(
                "drops-lost",
                format!("{unread} dropped packets were not read because the ring was full; use --ring"),
            );
        }
        if self.tracker.dropped() > 0 {
            reason("too-many-series", format!("{} series were dropped to make room", self.tracker.dropped()));
        }
        let state = if reasons.is_empty() { ObserverState::Complete } else { ObserverState::Degraded };
        Ok(crate::report::document::Observer { state, reasons, lost, evicted })
    }

    /// The latest packets from and to sources that the kernel dropped, oldest first.
    pub fn dropped(&self) -> &[Dropped] {
        &self.dropped
    }

    /// What this kernel calls its reasons for drops; `None` when drops are not watched.
    pub fn drop_reasons(&self) -> Option<&Reasons> {
        self.observer.drop_reasons()
    }

    /// The counters of one program.
    pub fn counters(&self, program: Program) -> anyhow::Result<Counters> {
        Ok(self.observer.counters(program)?)
    }

    fn platform(&self) -> anyhow::Result<Platform> {
        let count = |program| -> anyhow::Result<u64> {
            Ok(self.counters(program)?.outcome(Outcome::IgnoredPlatform))
        };
        Ok(Platform {
            packets_out: count(Program::TcEgress)?,
            packets_in: count(Program::Xdp)? + count(Program::TcIngress)?,
        })
    }

    /// Detaches everything and waits until it is gone.
    pub async fn close(self) {
        self.observer.close().await;
    }
}

fn mac(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}
