//! Mutated and made captures against the analysis, without end if nothing else is said.
//!
//! Any bytes end in an analysis or in one message; an analysis does not depend on how the bytes are
//! divided into blocks, nor on the number of threads; what it says is consistent in itself.

mod check;
mod make;

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use fastrand::Rng;
use serde_json::json;
use tcpf_trace::event::Cause;

use crate::check::{Tally, examine};
use crate::make::Maker;

/// Captures that are mutated are no longer than this.
const LONGEST_SEED: usize = 1 << 18;
/// One input in so many is read in every way.
const THOROUGH: u64 = 16;
/// Inputs between two looks at the memory of the process, and what it may grow by.
const LOOK: u64 = 4096;
const GROWTH_KB: u64 = 300_000;
const MOST_FINDINGS: usize = 20;

/// Try mutated and made captures; any that ends otherwise than it should is written.
#[derive(Parser)]
struct Arguments {
    /// How long to try.
    #[arg(long, default_value_t = f64::INFINITY)]
    minutes: f64,
    /// How many to try.
    #[arg(long, default_value_t = u64::MAX)]
    inputs: u64,
    /// Of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where findings go.
    #[arg(long, default_value = ".")]
    output: PathBuf,
    /// Captures to begin with, or directories of such.
    captures: Vec<PathBuf>,
}

fn main() -> io::Result<ExitCode> {
    let arguments = Arguments::parse();
    fs::create_dir_all(&arguments.output)?; // before there is something to lose
    let mut seeds = Vec::new();
    for path in &arguments.captures {
        collect(path, &mut seeds)?;
    }
    std::panic::set_hook(Box::new(|_| ())); // a finding has what it said
    let (began, maker) = (Instant::now(), Maker { seeds });
    let until = Duration::try_from_secs_f64(60.0 * arguments.minutes).unwrap_or(Duration::MAX);
    let (mut tally, mut findings, mut inputs, mut first_kb) = (Tally::default(), 0, 0, 0);
    while inputs < arguments.inputs && began.elapsed() < until && findings < MOST_FINDINGS {
        // Each input is a function of its number: a finding is made again with `--seed`.
        let mut rng = Rng::with_seed(arguments.seed.wrapping_mul(0x9E37_79B9).wrapping_add(inputs));
        let data = maker.input(&mut rng);
        inputs += 1;
        let thorough = inputs % THOROUGH == 0;
        if let Err(said) = examine(&data, &mut rng, thorough, &mut tally) {
            findings += 1;
            report(&arguments, findings, &said, &data)?;
        }
        if inputs % LOOK == 0 {
            let now_kb = memory_kb()?;
            first_kb = if first_kb == 0 { now_kb } else { first_kb };
            if now_kb > first_kb + GROWTH_KB {
                findings += 1;
                report(&arguments, findings, &format!("grew from {first_kb} to {now_kb} kB"), &[])?;
                break;
            }
        }
    }
    let events: serde_json::Map<_, _> = Cause::ALL
        .iter()
        .map(|cause| (cause.name().into(), tally.events[*cause as usize].into()))
        .collect();
    let told = json!({
        "inputs": inputs, "refused": tally.refused, "packets": tally.packets, "events": events,
        "spurious": tally.spurious, "findings": findings, "seconds": began.elapsed().as_secs(),
    });
    println!("{told}");
    Ok(if findings == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Take a capture, or those of a directory, unpacked; long ones in part.
fn collect(path: &Path, seeds: &mut Vec<Vec<u8>>) -> io::Result<()> {
    if path.is_dir() {
        let mut inside: Vec<_> =
            fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
        inside.sort();
        return inside.iter().try_for_each(|one| collect(one, seeds));
    }
    let packed = fs::read(path)?;
    let mut data = Vec::new();
    let unpacked = zstd::Decoder::new(&*packed)
        .and_then(|unpacked| unpacked.take(LONGEST_SEED as u64).read_to_end(&mut data));
    if unpacked.is_err() {
        data = packed;
        data.truncate(LONGEST_SEED);
    }
    seeds.push(data);
    Ok(())
}

fn report(arguments: &Arguments, number: usize, said: &str, data: &[u8]) -> io::Result<()> {
    let name = format!("finding-{}-{number}.pcap", arguments.seed);
    let path = arguments.output.join(name);
    fs::write(&path, data)?;
    eprintln!("{}: {said}", path.display());
    Ok(())
}

/// The most memory that this process has had: `VmHWM` in proc(5).
fn memory_kb() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse().ok());
    number.ok_or_else(|| io::ErrorKind::InvalidData.into())
}
