//! What must hold of any input.

use std::io::{Cursor, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};

use fastrand::Rng;
use tcpf_trace::analysis::{Analysis, Options, analyse};
use tcpf_trace::annotate::annotate;
use tcpf_trace::engine::{Engine, Seen};
use tcpf_trace::error::Error;
use tcpf_trace::event::CAUSES;
use tcpf_trace::packet::Packet;
use tcpf_trace::reader::Reader;
use tcpf_trace::sender::{Linux22, Whose};
use tcpf_trace::source::Source;

/// Bytes asked for at a time where nothing else is tried.
const CHUNK: usize = 1 << 18;
/// Packets between two looks at every sender.
const LOOK: u64 = 16;

/// What was seen so far.
#[derive(Default)]
pub struct Tally {
    pub refused: u64,
    pub packets: u64,
    pub events: [u64; CAUSES],
    pub spurious: u64,
}

/// Analyse an input; what is wrong with that, if anything. `thorough`: in every way.
pub fn examine(
    data: &[u8],
    rng: &mut Rng,
    thorough: bool,
    tally: &mut Tally,
) -> Result<(), String> {
    let work = AssertUnwindSafe(|| answer(data, rng, thorough, tally));
    catch_unwind(work).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        Err(said.or(panic.downcast_ref::<&str>().copied()).unwrap_or("panicked").into())
    })
}

fn answer(data: &[u8], rng: &mut Rng, thorough: bool, tally: &mut Tally) -> Result<(), String> {
    let options = options(rng);
    let found = match analysed(data, &options, CHUNK, CHUNK) {
        Ok(found) => found,
        Err(error) if error.message.is_empty() => return Err("an error without a message".into()),
        Err(error) => {
            tally.refused += 1;
            return if thorough { same(data, &options, rng, &Err(error)) } else { Ok(()) };
        }
    };
    consistent(&found)?;
    for flow in &found.flows {
        tally.packets += flow.row.packets;
        tally.spurious += flow.row.spurious.iter().sum::<u64>();
        for (all, one) in tally.events.iter_mut().zip(flow.row.counts) {
            *all += one;
        }
    }
    if !thorough {
        return Ok(());
    }
    sound(data, &options)?;
    annotated(data, &found)?;
    same(data, &options, rng, &Ok(found))
}

/// Draw what is known of the senders.
fn options(rng: &mut Rng) -> Options {
    let (at, whose) = match rng.u8(..6) {
        0 => (Some(Seen::Sender), Whose::Rfc6298),
        1 => (Some(Seen::Receiver), Whose::Linux),
        2 => (Some(Seen::Sender), Whose::Classic),
        3 => (Some(Seen::Sender), Whose::Linux),
        _ => (None, Whose::Linux),
    };
    let linux22 = if rng.u8(..4) == 0 { Linux22::ALL } else { Linux22::default() };
    Options { at, whose, linux22, probes: rng.bool(), events: true, ..Options::default() }
}

/// Bytes of which so many at most are given at a time: a source may give fewer than were asked for.
struct Pieces {
    data: Cursor<Vec<u8>>,
    most: usize,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = self.most.min(buffer.len());
        self.data.read(&mut buffer[..most])
    }
}

fn opened(data: &[u8], chunk: usize, most: usize) -> Result<Reader, Error> {
    let stream = Pieces { data: Cursor::new(data.to_vec()), most };
    Reader::of(Source::of("x", Box::new(stream))?, chunk)
}

fn analysed(data: &[u8], options: &Options, chunk: usize, most: usize) -> Result<Analysis, Error> {
    analyse(opened(data, chunk, most)?, options, |_| true)
}

/// Whether block sizes and threads make no difference.
fn same(
    data: &[u8],
    options: &Options,
    rng: &mut Rng,
    expected: &Result<Analysis, Error>,
) -> Result<(), String> {
    let expected = format!("{expected:?}");
    let (chunk, most, threads) = (rng.usize(1..700), rng.usize(1..700), rng.usize(1..5));
    let other = Options { threads, ..*options };
    if format!("{:?}", analysed(data, &other, chunk, most)) == expected {
        return Ok(());
    }
    Err(format!("another answer with {chunk} bytes, {most} at most, and {threads} threads"))
}

/// Whether every sender's state is one that can be, all along.
fn sound(data: &[u8], options: &Options) -> Result<(), String> {
    let mut engine = Engine::new(options.settings(), options.at, true);
    let Ok(mut reader) = opened(data, CHUNK, CHUNK) else { return Ok(()) };
    let mut packet = Packet::default();
    while let Ok(true) = reader.next(&mut packet) {
        engine.feed(&packet);
        let look = packet.record % LOOK == 0;
        if look && !engine.flows.iter().all(|flow| flow.sender.is_sound()) {
            return Err(format!("a state that cannot be, behind record {}", packet.record));
        }
    }
    Ok(())
}

/// Whether what an analysis says is consistent in itself.
fn consistent(found: &Analysis) -> Result<(), String> {
    let mut listed = vec![[0; CAUSES]; found.flows.len()];
    for event in &found.events {
        if event.record >= found.counters.records {
            return Err("an event of a record that is not there".into());
        }
        listed[event.flow as usize][event.cause as usize] += 1;
    }
    if !found.events.is_sorted_by_key(|event| event.record) {
        return Err("events out of order".into());
    }
    for (flow, counts) in found.flows.iter().zip(listed) {
        let row = &flow.row;
        let least = row.counts.iter().zip(row.spurious).all(|(all, part)| part <= *all);
        if row.counts != counts || !least {
            return Err(format!("counts {:?}, {:?}, listed {counts:?}", row.counts, row.spurious));
        }
        if row.data_packets > row.packets || flow.acked_bytes < 0 {
            return Err(format!("a flow that cannot be: {row:?}"));
        }
    }
    Ok(())
}

/// Whether the annotated capture can be read, with as many records and comments.
fn annotated(data: &[u8], found: &Analysis) -> Result<(), String> {
    let mut out = Vec::new();
    let reader = opened(data, CHUNK, CHUNK).map_err(|error| error.to_string())?;
    annotate(reader, &found.events, &mut out).map_err(|error| format!("{error:?}"))?;
    let mut again = opened(&out, CHUNK, CHUNK).map_err(|error| error.to_string())?;
    while again.next_frame().map_err(|error| error.to_string())?.is_some() {}
    if again.counters.records == found.counters.records && again.truncated.is_empty() {
        return Ok(());
    }
    Err(format!("annotated it has {} records: {}", again.counters.records, again.truncated))
}
