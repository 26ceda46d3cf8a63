//! Seconds that `nvaprobe replay` and `tshark` take for one capture, in turns: the machine may be busy.
//!
//! Arguments: the binary to measure, and a folder for the capture, which is made there once.

use std::{
    error::Error,
    fs::{self, File},
    io::BufWriter,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
};

use nvaprobe_tests::traffic;

/// The least that counts as a large capture.
const BYTES: u64 = 500_000_000;
const ROUNDS: usize = 3;
const TARGET: f64 = 20.0;
const PROBES: &str = "ip.src == 168.63.129.16 && tcp.flags.syn == 1 && tcp.flags.ack == 0";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(binary), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("usage: nvaprobe-bench-replay BINARY FOLDER".into());
    };
    let capture = capture(Path::new(&folder))?;
    let size = fs::metadata(&capture)?.len();
    println!("{}: {:.0} MB", capture.display(), size as f64 / 1e6);
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    // One run of each first, so that both find the file in memory.
    for round in 0..=ROUNDS {
        let (time, output) = timed(Command::new(&binary).args(["replay", "--json"]).arg(&capture))?;
        let probes = probes_of_report(&output)?;
        let filter = format!("io,stat,0,{PROBES}");
        let (their_time, output) =
            timed(Command::new("tshark").args(["-n", "-q", "-z", &filter, "-r"]).arg(&capture))?;
        let counted = probes_of_tshark(&output)?;
        if probes != counted {
            return Err(format!("replay counts {probes} probes, tshark {counted}").into());
        }
        if round > 0 {
            println!(
                "  replay {:.3} s, tshark {:.2} s, {probes} probes each",
                time.as_secs_f64(),
                their_time.as_secs_f64()
            );
            ours.push(time);
            theirs.push(their_time);
        }
    }
    let (ours, theirs) = (median(&mut ours), median(&mut theirs));
    println!(
        "replay {:.0} MB/s, tshark {:.0} MB/s: {:.0} times as fast (target: {TARGET:.0})",
        size as f64 / 1e6 / ours,
        size as f64 / 1e6 / theirs,
        theirs / ours
    );
    Ok(())
}

/// The capture, made if it is not there in full.
fn capture(folder: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let path = folder.join("replay-bench.pcap");
    if fs::metadata(&path).is_ok_and(|about| about.len() >= BYTES) {
        return Ok(path);
    }
    fs::create_dir_all(folder)?;
    // Under its name only when it is whole.
    let unfinished = folder.join("replay-bench.pcap.part");
    let written = traffic::write(BufWriter::with_capacity(1 << 20, File::create(&unfinished)?), BYTES)?;
    fs::rename(&unfinished, &path)?;
    println!("written: {} packets, {} probes among them", written.packets, written.probes);
    Ok(path)
}

fn timed(command: &mut Command) -> Result<(Duration, Output), Box<dyn Error>> {
    let start = Instant::now();
    let output = command
        .output()
        .map_err(|error| format!("cannot start {}: {error}", command.get_program().display()))?;
    Ok((start.elapsed(), output))
}

/// Attempts of all series: half of them fail, so the exit code is 1.
fn probes_of_report(output: &Output) -> Result<u64, Box<dyn Error>> {
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&output.stderr)))?;
    let series = report["probes"].as_array().ok_or("the report has no series")?;
    Ok(series.iter().filter_map(|series| series["attempts"].as_u64()).sum())
}

/// The frames column of `io,stat`'s only row: `| 0.0 <> 400.0 |  1234 | 56789 |`.
fn probes_of_tshark(output: &Output) -> Result<u64, Box<dyn Error>> {
    let text = String::from_utf8_lossy(&output.stdout);
    let row = text.lines().find(|line| line.contains("<>")).ok_or_else(|| {
        format!("tshark printed no statistics: {text}{}", String::from_utf8_lossy(&output.stderr))
    })?;
    Ok(row.split('|').nth(2).ok_or("no frames column")?.trim().parse()?)
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64()
}
