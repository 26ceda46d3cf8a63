//! `nvaprobe doctor`: look once.

use std::time::Duration;

use anyhow::Context;

use super::{observe, output, signals::Stop};
use crate::{
    monitor::{self, Monitor, boot_ns},
    report::{document::Report, json, text},
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    observe: observe::Observation,

    /// How long to observe
    #[arg(long = "for", value_name = "DURATION", default_value = "30s", value_parser = observe::duration)]
    window: Duration,

    /// Observe nothing: say what the configuration would do to probes and their replies
    ///
    /// Needs no privileges. The exit status is 1 when a probe would fail.
    #[arg(long)]
    no_observe: bool,

    /// Print the report as one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args) -> anyhow::Result<u8> {
    let (settings, note) = args.observe.settings()?;
    observe::start_logging(settings.kernel_log);
    if args.no_observe {
        let report = monitor::unobserved::look(&settings).await?;
        print(&report, args.json)?;
        let fails = report.predictions.iter().any(|prediction| prediction.fails);
        return Ok(if fails || report.has_error() { super::FOUND } else { super::OK });
    }
    let mut stop = Stop::listen().context("cannot listen for signals")?;
    let mut monitor = Monitor::start(settings).await?;
    monitor.advise();
    eprintln!("{}", monitor.ready_line());
    if let Some(note) = note {
        eprintln!("{note}");
    }
    let end = boot_ns() + u64::try_from(args.window.as_nanos()).unwrap_or(u64::MAX / 2);
    let mut events = Vec::new();
    loop {
        tokio::select! {
            // An interrupted look still reports what it saw.
            () = stop.requested() => break,
            more = monitor.next(end, &mut events) => if !more? { break },
        }
        events.clear();
    }
    let report = monitor.finish().await?;
    monitor.close().await;
    print(&report, args.json)?;
    Ok(if report.has_error() { super::FOUND } else { super::OK })
}

fn print(report: &Report, json: bool) -> anyhow::Result<()> {
    let text = if json {
        json::document(report)?
    } else {
        text::report(report, text::Style { colour: output::colour(), width: output::width() })
    };
    Ok(output::print(&text)?)
}
