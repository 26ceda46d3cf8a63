//! `nvaprobe run`: observe until stopped.

use anyhow::Context;

use super::{observe, output, signals::Stop};
use crate::{
    monitor::Monitor,
    report::{event::Event, text},
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    observe: observe::Observation,

    /// Print JSON Lines: one object a judged attempt, a change of a series, a finding, a loss
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args) -> anyhow::Result<u8> {
    let (settings, note) = args.observe.settings()?;
    observe::start_logging(settings.kernel_log);
    let mut stop = Stop::listen().context("cannot listen for signals")?;
    let mut monitor = Monitor::start(settings).await?;
    eprintln!("{}", monitor.ready_line());
    if let Some(note) = note {
        eprintln!("{note}");
    }
    let style = text::Style { colour: output::colour(), width: output::width() };
    let mut said = Vec::new();
    loop {
        tokio::select! {
            () = stop.requested() => break,
            more = monitor.next(u64::MAX, &mut said) => { more?; }
        }
        for event in said.drain(..) {
            print(&event, args.json, style)?;
        }
    }
    let report = monitor.finish().await?;
    monitor.close().await;
    Ok(if report.has_error() { super::FOUND } else { super::OK })
}

fn print(event: &Event, json: bool, style: text::Style) -> anyhow::Result<()> {
    if json {
        output::line(&serde_json::to_string(event)?)?;
    } else {
        output::line(&event.human(style))?;
    }
    Ok(())
}
