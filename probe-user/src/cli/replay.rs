//! `nvaprobe replay`: the same judgement on stored captures.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, IsTerminal, Read, Write},
    path::Path,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

use super::{judgement::Judgement, output};
use crate::{
    capture::file,
    config::{Config, load},
    replay,
    report::{json, text},
};

const AFTER_HELP: &str = "\
Examples:
  tcpdump -i any -y LINUX_SLL2 -w any.pcap 'host 168.63.129.16'   look at every NIC
  nvaprobe replay --nic eth0=2 --nic eth1=3 any.pcap              judge it, numbers named
  nvaprobe replay --nic eth0=a.pcap --nic eth1=b.pcap             captures of one NIC each
  nvaprobe replay host.eth0.pcap host.eth1.pcap.gz                the same, named by the files
  tcpdump -i any -y LINUX_SLL2 -w - | nvaprobe replay -           until Ctrl-C

Exit status: 0 no error finding, 1 an error finding, 2 could not do it.";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    #[command(flatten)]
    judgement: Judgement,

    /// What a NIC is called: the one that a whole file is of, or an interface number in LINUX_SLL2; repeatable
    #[arg(long = "nic", value_name = "NAME=FILE|NAME=INDEX")]
    nics: Vec<NicArgument>,

    /// Print the report as one JSON document
    #[arg(long)]
    json: bool,

    /// Captures: pcap or pcapng, also gzipped; - for standard input
    #[arg(value_name = "FILE", required_unless_present = "nics")]
    files: Vec<String>,
}

/// `eth0=FILE` or `eth0=2`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NicArgument {
    name: String,
    of: Of,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Of {
    Index(u32),
    File(String),
}

impl FromStr for NicArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, of) = text.split_once('=').unwrap_or((text, ""));
        if name.is_empty() || of.is_empty() {
            return Err(format!("'{text}' names no NIC; write eth0=FILE, or eth0=2 for interface number 2"));
        }
        if name.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(format!("{name:?} is no name of a NIC"));
        }
        let of = of.parse().map_or_else(|_| Of::File(of.to_owned()), Of::Index);
        Ok(Self { name: name.to_owned(), of })
    }
}

/// The files with the NICs that they are of, and the names of interface numbers.
struct Plan {
    files: Vec<(String, Option<String>)>,
    indexes: BTreeMap<u32, String>,
}

impl Plan {
    fn new(files: &[String], nics: &[NicArgument]) -> anyhow::Result<Self> {
        let mut plan =
            Self { files: files.iter().map(|file| (file.clone(), None)).collect(), indexes: BTreeMap::new() };
        for (index, (file, _)) in plan.files.iter().enumerate() {
            if plan.files.iter().skip(index + 1).any(|(other, _)| same(file, other)) {
                bail!("{file} is given twice; every packet of it would count twice");
            }
        }
        for NicArgument { name, of } in nics {
            match of {
                Of::Index(index) => {
                    let former = plan.indexes.insert(*index, name.clone());
                    if let Some(former) = former.filter(|former| former != name) {
                        bail!("--nic names interface number {index} both {former} and {name}");
                    }
                }
                Of::File(file) => match plan.files.iter_mut().find(|(known, _)| same(known, file)) {
                    Some((_, Some(former))) => bail!("--nic names {file} both {former} and {name}"),
                    Some((_, given)) => *given = Some(name.clone()),
                    None => plan.files.push((file.clone(), Some(name.clone()))),
                },
            }
        }
        if plan.files.is_empty() {
            bail!("no capture is given: name one, or - for standard input");
        }
        Ok(plan)
    }
}

/// Whether two spellings are one file.
fn same(one: &str, other: &str) -> bool {
    one == other
        || (one != "-"
            && other != "-"
            && fs::canonicalize(one).ok().is_some_and(|path| fs::canonicalize(other).ok() == Some(path)))
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let config = args.judgement.config(Config::default())?;
    let (sources, judging) = load::resolve(&config)?;
    let plan = Plan::new(&args.files, &args.nics)?;
    let nics = config.nics.into_iter().map(|nic| nic.0).collect();
    let settings = replay::Settings { sources, judging, nics, indexes: plan.indexes };
    let read = Arc::new(AtomicU64::new(0));
    let mut size = Some(0);
    let mut inputs = Vec::new();
    let piped = plan.files.iter().any(|(file, _)| file == "-");
    for (file, nic) in plan.files {
        let inner = file::source(&file).with_context(|| format!("cannot open {file}"))?;
        let length = fs::metadata(Path::new(&file)).ok().filter(|_| file != "-").map(|about| about.len());
        size = size.zip(length).map(|(sum, length)| sum + length);
        let source = Box::new(Counted { inner, read: Arc::clone(&read) });
        inputs.push(replay::Input { file, nic, source });
    }
    if piped {
        survive_one_interrupt();
    }
    let progress = Progress::start(read, size.filter(|size| *size > 0));
    let replayed = replay::run(&settings, inputs);
    progress.end();
    let report = replayed?.report;
    let text = if args.json {
        json::document(&report)?
    } else {
        text::report(&report, text::Style { colour: output::colour(), width: output::width() })
    };
    output::print(&text)?;
    Ok(if report.has_error() { super::FOUND } else { super::OK })
}

/// Ctrl-C goes to every program of a pipeline. The one that captures ends at it, and what it wrote so far is judged; a second
/// one ends this program, too.
fn survive_one_interrupt() {
    extern "C" fn ignore(_: libc::c_int) {}
    let action = SigAction::new(
        SigHandler::Handler(ignore),
        SaFlags::SA_RESETHAND | SaFlags::SA_RESTART,
        SigSet::empty(),
    );
    // SAFETY: the handler does nothing, which is safe at any time.
    if let Err(error) = unsafe { sigaction(Signal::SIGINT, &action) } {
        tracing::debug!("SIGINT keeps its action: {error}");
    }
}

/// Counts what is read from a file.
struct Counted {
    inner: Box<dyn Read>,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(into)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// How far the reading is, on a terminal.
struct Progress {
    thread: Option<(mpsc::Sender<()>, thread::JoinHandle<()>)>,
}

impl Progress {
    /// Begins to show it after a moment: short files need no progress.
    fn start(read: Arc<AtomicU64>, size: Option<u64>) -> Self {
        if !io::stderr().is_terminal() {
            return Self { thread: None };
        }
        let (stop, stopped) = mpsc::channel();
        let started = Instant::now();
        let show = move || {
            let mut shown = false;
            while stopped.recv_timeout(Duration::from_millis(200)) == Err(RecvTimeoutError::Timeout) {
                let line = line(read.load(Ordering::Relaxed), size, started.elapsed());
                // Progress is not worth an error.
                let _ = write!(io::stderr(), "\r{line}\x1b[K");
                shown = true;
            }
            if shown {
                let _ = write!(io::stderr(), "\r\x1b[K");
            }
        };
        let spawned = thread::Builder::new().name("progress".to_owned()).spawn(show);
        Self { thread: spawned.ok().map(|thread| (stop, thread)) }
    }

    /// Clears the line.
    fn end(self) {
        if let Some((stop, thread)) = self.thread {
            drop(stop);
            let _ = thread.join();
        }
    }
}

fn line(read: u64, size: Option<u64>, elapsed: Duration) -> String {
    let megabytes = read as f64 / 1e6;
    let speed = megabytes / elapsed.as_secs_f64().max(0.001);
    match size {
        Some(size) => {
            let percent = (read as f64 / size as f64 * 100.0).min(100.0);
            format!("reading: {percent:.0} % of {:.0} MB, {speed:.0} MB/s", size as f64 / 1e6)
        }
        None => format!("reading: {megabytes:.0} MB, {speed:.0} MB/s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(files: &[&str], nics: &[&str]) -> Result<Plan, String> {
        let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
        let nics: Vec<NicArgument> = nics.iter().map(|nic| nic.parse().expect("valid")).collect();
        Plan::new(&files, &nics).map_err(|error| error.to_string())
    }

    #[test]
    fn numbers_are_interfaces_and_the_rest_are_files() {
        let of = |text: &str| text.parse::<NicArgument>().map(|nic| nic.of);
        assert_eq!(of("eth0=2"), Ok(Of::Index(2)));
        assert_eq!(of("eth0=./2"), Ok(Of::File("./2".to_owned())));
        assert_eq!(of("eth0=a=b.pcap"), Ok(Of::File("a=b.pcap".to_owned())));
        for bad in ["eth0", "eth0=", "=a.pcap", "e\nth0=a.pcap", "a b=2"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn files_named_by_nic_need_not_be_named_again() {
        let both = plan(&["a.pcap"], &["eth0=a.pcap", "eth1=b.pcap", "eth2=7"]).expect("sound");
        let files = [("a.pcap", "eth0"), ("b.pcap", "eth1")];
        assert_eq!(both.files, files.map(|(file, nic)| (file.to_owned(), Some(nic.to_owned()))));
        assert_eq!(both.indexes.get(&7).map(String::as_str), Some("eth2"));
    }

    #[test]
    fn contradictions_are_told() {
        for (files, nics, says) in [
            (&["a.pcap"] as &[&str], &["eth0=a.pcap", "eth1=a.pcap"] as &[&str], "both eth0 and eth1"),
            (&["a.pcap"], &["eth0=2", "eth1=2"], "interface number 2 both eth0 and eth1"),
            (&["a.pcap", "a.pcap"], &[], "given twice"),
            (&["-", "-"], &[], "given twice"),
            (&["/dev/null", "/dev/../dev/null"], &[], "given twice"),
            (&[], &["eth0=2"], "no capture is given"),
        ] {
            let error = plan(files, nics).err().unwrap_or_else(|| panic!("{files:?} {nics:?} are sound"));
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn progress_knows_a_size_or_does_not() {
        let second = Duration::from_secs(1);
        assert_eq!(line(250_000_000, Some(500_000_000), second), "reading: 50 % of 500 MB, 250 MB/s");
        assert_eq!(line(600_000_000, Some(500_000_000), second), "reading: 100 % of 500 MB, 600 MB/s");
        assert_eq!(line(3_000_000, None, 2 * second), "reading: 3 MB, 2 MB/s");
    }
}
