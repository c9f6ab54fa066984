//! `tcpf-trace`: TCP retransmissions of a capture and their causes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use clap::{Parser, ValueEnum};
use tcpf_trace::analysis::{Analysis, Options, analyse};
use tcpf_trace::annotate::{Failure, annotate};
use tcpf_trace::engine::Seen;
use tcpf_trace::error::{Error, words};
use tcpf_trace::reader::Reader;
use tcpf_trace::sender::{Linux22, Whose};
use tcpf_trace::{json, table};

/// Report TCP retransmissions and their causes: timeouts, fast retransmits, tail loss probes.
///
/// Reads pcap and pcapng, plain or compressed with gzip, zstd, xz, bzip2 or lz4. Exit status: 0; 1 if
/// a capture could not be read; 2 for a wrong option; 3 if a damaged part of a capture was skipped.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Arguments {
    /// Captures; `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<OsString>,
    /// Print JSON: each capture with its flows, in base units.
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV: a line per flow, or per event with --events.
    #[arg(long)]
    csv: bool,
    /// List events: each retransmission and its cause.
    #[arg(long)]
    events: bool,
    /// Write the capture as pcapng, each retransmission with its cause as a comment.
    #[arg(long, value_name = "OUT.pcapng")]
    annotate: Option<PathBuf>,
    /// Minimum RTO of the senders, as 200ms or 1s; default: the profile's.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    min_rto: Option<i64>,
    /// Retransmission timer of the senders.
    #[arg(long, value_enum, default_value_t = Profile::Linux)]
    profile: Profile,
    /// Where the captures were taken; default: derived from the handshakes.
    #[arg(long, value_enum)]
    at: Option<Seen>,
    /// The senders send no tail loss probes.
    #[arg(long)]
    no_probes: bool,
    /// Maximum number of threads; default: the number of processors.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Profile {
    Linux,
    #[value(name = "linux-2.2")]
    Linux22,
    Rfc6298,
}

/// Read a time of more than 0 and at most 120 s, in nanoseconds.
fn duration(text: &str) -> Result<i64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let scale = match text[digits.len()..].trim() {
        "s" | "" => 1e9,
        "ms" => 1e6,
        "us" => 1e3,
        unit => return Err(format!("unknown unit '{unit}'; known are s, ms and us")),
    };
    match digits.trim().parse::<f64>() {
        Ok(number) if number > 0.0 && number * scale <= 120e9 => {
            Ok((number * scale).round() as i64)
        }
        _ => Err("a timer is longer than 0 and at most 120 s".into()),
    }
}

impl Arguments {
    fn options(&self, threads: usize) -> Options {
        Options {
            rto_min_ns: self.min_rto,
            probes: !self.no_probes,
            whose: match self.profile {
                Profile::Rfc6298 => Whose::Rfc6298,
                _ => Whose::Linux,
            },
            linux22: match self.profile {
                Profile::Linux22 => Linux22::ALL,
                _ => Linux22::default(),
            },
            at: self.at,
            events: self.events || self.annotate.is_some(),
            threads,
        }
    }

    /// Analyse all captures, several at a time, in the order of their names.
    fn analyse(&self) -> Vec<Result<Analysis, Error>> {
        let machine = thread::available_parallelism().map_or(1, usize::from);
        let threads = self.threads.map_or(machine, usize::from);
        let workers = threads.min(self.files.len());
        let options = self.options(threads / workers);
        let next = AtomicUsize::new(0);
        let found = Mutex::new(BTreeMap::new());
        thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    while let Some((number, file)) = self.take(&next) {
                        let one = Reader::open(file)
                            .and_then(|reader| analyse(reader, &options, |_| true));
                        found.lock().expect("no thread panics with it").insert(number, one);
                    }
                });
            }
        });
        found.into_inner().expect("no thread panics with it").into_values().collect()
    }

    fn take(&self, next: &AtomicUsize) -> Option<(usize, &OsString)> {
        let number = next.fetch_add(1, Ordering::Relaxed);
        self.files.get(number).map(|file| (number, file))
    }

    /// What cannot be done, whatever the captures are.
    fn refused(&self) -> Option<&'static str> {
        let stdin = self.files.iter().filter(|file| *file == "-").count();
        match self.annotate {
            _ if stdin > 1 => Some("standard input can be read once"),
            Some(_) if self.files.len() > 1 => Some("--annotate takes one capture"),
            Some(_) if stdin > 0 => Some("--annotate reads the capture twice: name a file"),
            Some(ref out) if is_same(Path::new(&self.files[0]), out) => {
                Some("--annotate would write over the capture")
            }
            _ => None,
        }
    }

    fn annotate(&self, out: &Path, found: &Analysis) -> Result<(), Failure> {
        let mut out = BufWriter::new(File::create(out)?);
        annotate(Reader::open(&self.files[0])?, &found.events, &mut out)?;
        Ok(out.flush()?)
    }

    fn print(&self, found: &[Analysis]) -> Result<(), Failure> {
        let mut out = BufWriter::new(io::stdout().lock());
        match (self.json, self.csv) {
            (true, _) => {
                json::write(&mut out, found, self.events)?;
                writeln!(out)?;
            }
            (_, true) => table::csv(&mut out, found, self.events)?,
            _ => table::text(&mut out, found, self.events)?,
        }
        out.flush()?;
        Ok(())
    }
}

/// Whether two paths name one file.
fn is_same(one: &Path, other: &Path) -> bool {
    let number = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    matches!((number(one), number(other)), (Ok(one), Ok(other)) if one == other)
}

fn main() -> ExitCode {
    let asked = Arguments::parse();
    if let Some(why) = asked.refused() {
        eprintln!("error: {why}");
        return ExitCode::from(2);
    }
    let (found, errors): (Vec<_>, Vec<_>) = asked.analyse().into_iter().partition(Result::is_ok);
    let found: Vec<Analysis> = found.into_iter().flatten().collect();
    let errors: Vec<Error> = errors.into_iter().filter_map(Result::err).collect();
    let annotated = match (&asked.annotate, &*found) {
        (Some(out), [one]) => asked.annotate(out, one).map_err(|why| (out.display(), why)),
        _ => Ok(()),
    };
    let stdout = Path::new("standard output").display();
    let written = annotated.and_then(|()| asked.print(&found).map_err(|why| (stdout, why)));
    for one in found.iter().filter(|one| !one.truncated.is_empty()) {
        eprintln!("warning: {}: {}", one.name, one.truncated);
    }
    for error in &errors {
        eprintln!("error: {error}");
    }
    match written {
        Err((_, Failure::Output(error))) if error.kind() == io::ErrorKind::BrokenPipe => {}
        Err((out, Failure::Output(error))) => eprintln!("error: {out}: {}", words(&error)),
        Err((_, Failure::Capture(error))) => eprintln!("error: {error}"),
        Ok(()) if errors.is_empty() => {
            let skipped = found.iter().any(|one| one.skipped > 0);
            return ExitCode::from(if skipped { 3 } else { 0 });
        }
        Ok(()) => {}
    }
    ExitCode::FAILURE
}
