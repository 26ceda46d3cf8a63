//! `nvaprobe lab`: reproduce, judge, fix, judge again.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Serialize;

use super::{observe, output};
use crate::{
    capture::{
        live::{
            drops::DropReasons,
            load::Sizes,
            mode::{IngressChoice, TcChoice},
        },
        privileges,
    },
    config::Judging,
    fix::{self, PolicyFix},
    lab::{
        netns::Namespace,
        route::{Route, Rule},
        scenario::{self, Lab, SCENARIOS},
    },
    monitor::{Monitor, Settings, boot_ns},
    report::{
        document::{Report, Verdict},
        text,
    },
    source::{self, Profile},
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Which fault
    #[arg(default_value = SCENARIOS[0].name, value_parser = SCENARIOS.map(|scenario| scenario.name))]
    scenario: String,

    /// Print one JSON document: the report with the fault, and under "lab" the fix and the report after it
    #[arg(long)]
    json: bool,

    /// How long to observe, before the fix and after it
    #[arg(long = "for", value_name = "DURATION", default_value = "5s", value_parser = observe::duration)]
    window: Duration,

    /// Where packets are seen when they enter a NIC
    #[arg(long, value_enum, default_value_t, value_name = "MODE")]
    ingress: IngressChoice,

    /// How TC programs are attached
    #[arg(long, value_enum, default_value_t, value_name = "MODE")]
    tc: TcChoice,
}

/// The report of the fault, with what the lab did about it.
#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    before: Report,
    lab: Story,
}

#[derive(Serialize)]
struct Story {
    scenario: String,
    /// The commands applied.
    fix: Vec<String>,
    after: Report,
    /// Probes that the load balancers saw answered, of those sent, by NIC and phase.
    load_balancer: Vec<Seen>,
    /// Every series failed before and is OK after, as the load balancers saw it.
    cured: bool,
}

#[derive(Clone, Serialize)]
struct Seen {
    nic: String,
    before: Tally,
    after: Tally,
}

#[derive(Clone, Copy, Default, Serialize)]
struct Tally {
    answered: usize,
    sent: usize,
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let Some(scenario) = scenario::find(&args.scenario) else {
        bail!("there is no scenario '{}'", args.scenario);
    };
    privileges::check()?;
    let say = |text: &str| if args.json { Ok(()) } else { output::line(text) };
    let style = text::Style { colour: output::colour(), width: output::width() };
    say(&format!("lab {}: {}\n\n{}\n", scenario.name, scenario.about, scenario.story))?;
    let lab = (scenario.build)().context("the lab could not be built")?;
    say(&format!("Observing for {} …\n", seconds(args.window)))?;
    let started = Instant::now();
    let (before, plans) = look(args, &lab)?;
    let first = tallies(&lab, started);
    if !args.json {
        output::print(&text::report(&before, style))?;
    }
    say("\nApplying the fix inside the lab:")?;
    for plan in &plans {
        say(&indented(&commands(plan)))?;
        apply(&lab.topology.nva, plan)?;
    }
    say(&format!("\nObserving again for {} …\n", seconds(args.window)))?;
    let fixed = Instant::now();
    let (after, _) = look(args, &lab)?;
    let second = tallies(&lab, fixed);
    let cured = before.has_error() && !after.has_error() && all_ok(&after);
    let seen: Vec<Seen> = lab
        .topology
        .nics
        .iter()
        .zip(first.iter().zip(&second))
        .map(|(nic, (before, after))| Seen { nic: nic.name.clone(), before: *before, after: *after })
        .collect();
    if args.json {
        let story = Story {
            scenario: scenario.name.to_owned(),
            fix: plans.iter().map(commands).collect(),
            after,
            load_balancer: seen,
            cured,
        };
        output::print(&(serde_json::to_string_pretty(&Document { before, lab: story })? + "\n"))?;
    } else {
        output::print(&text::report(&after, style))?;
        say("")?;
        for Seen { nic, before, after } in &seen {
            say(&format!(
                "The load balancer of {nic} saw {} of {} probes answered, and {} of {} after the fix.",
                before.answered, before.sent, after.answered, after.sent
            ))?;
        }
    }
    // Here the error finding is what the lab is for; what counts is that it was found and cured.
    Ok(if cured { super::OK } else { super::FOUND })
}

/// Observes the appliance as `doctor` would, on a thread inside its namespace.
fn look(args: &Args, lab: &Lab) -> anyhow::Result<(Report, Vec<PolicyFix>)> {
    let settings = Settings {
        sources: source::collect(Profile::AzureLb, false, &[])?,
        nics: lab.topology.nics.iter().map(|nic| nic.name.clone()).collect(),
        ingress: args.ingress,
        tc: args.tc,
        sizes: Sizes::default(),
        kernel_log: false,
        drop_reasons: DropReasons::On,
        imds: None,
        judging: Judging::default(),
        guardian: Some(
            std::env::current_exe().context("cannot find the path of the nvaprobe binary itself")?,
        ),
    };
    lab.topology.nva.run(move || {
        super::runtime()?.block_on(async {
            let mut monitor = Monitor::start(settings).await?;
            let end = boot_ns() + u64::try_from(args.window.as_nanos()).unwrap_or(u64::MAX / 2);
            let mut said = Vec::new();
            while monitor.next(end, &mut said).await? {
                said.clear();
            }
            let report = monitor.finish().await?;
            let plans = monitor.plans().to_vec();
            monitor.close().await;
            Ok((report, plans))
        })
    })?
}

/// The fix as text.
fn commands(plan: &PolicyFix) -> String {
    fix::render(plan).into_iter().next().map(|fix| fix.text).unwrap_or_default()
}

/// What the two commands of the fix do, over netlink: the lab needs no `ip` binary.
fn apply(nva: &Namespace, plan: &PolicyFix) -> anyhow::Result<()> {
    let mut route = Route::to(plan.to).via(plan.gateway).dev(&plan.nic).table(plan.table);
    if plan.onlink {
        route = route.onlink();
    }
    if plan.metric > 0 {
        route = route.metric(plan.metric);
    }
    let rule = plan.priority.map(|priority| Rule {
        from: Some(plan.from.into()),
        to: Some(plan.to),
        priority: Some(priority),
        table: plan.table,
        ..Rule::default()
    });
    nva.netlink(|netlink| {
        netlink.route_replace(&route)?;
        rule.iter().try_for_each(|rule| netlink.rule_add(rule))
    })
    .context("the fix could not be applied in the lab")
}

/// What the load balancers saw of the probes sent since then; the latest may still be open.
fn tallies(lab: &Lab, since: Instant) -> Vec<Tally> {
    lab.probes
        .iter()
        .map(|probe| {
            let log = probe.log();
            let judged = || log.iter().filter(|attempt| attempt.sent_at >= since && !attempt.is_pending());
            Tally { answered: judged().filter(|attempt| attempt.answered()).count(), sent: judged().count() }
        })
        .collect()
}

fn all_ok(report: &Report) -> bool {
    !report.probes.is_empty() && report.probes.iter().all(|series| series.verdict == Verdict::Ok)
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}
