//! What holds of any capture.

use std::io::{Cursor, Read};

use proptest::collection::vec;
use proptest::prelude::*;
use tcpf_trace::analysis::{Analysis, Options, analyse};
use tcpf_trace::error::Error;
use tcpf_trace::packet::Packet;
use tcpf_trace::reader::Reader;
use tcpf_trace::source::Source;

const HEADER: usize = 24;
const CHUNK: usize = 1 << 16;
const SECOND: i64 = 1_000_000_000;

/// A stream that gives so many bytes at a time.
struct Pieces {
    data: Cursor<Vec<u8>>,
    sizes: Vec<usize>,
    next: usize,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = self.sizes[self.next % self.sizes.len()].min(buffer.len());
        self.next += 1;
        self.data.read(&mut buffer[..most])
    }
}

fn opened(data: &[u8], sizes: &[usize], chunk: usize) -> Result<Reader, Error> {
    let data = Cursor::new(data.to_vec());
    Reader::of(Source::of("x", Box::new(Pieces { data, sizes: sizes.into(), next: 0 }))?, chunk)
}

fn whole(data: &[u8]) -> Result<Reader, Error> {
    opened(data, &[CHUNK], CHUNK)
}

fn answer(reader: Result<Reader, Error>, threads: usize) -> Result<Analysis, Error> {
    analyse(reader?, &Options { events: true, threads, ..Options::default() }, |_| true)
}

fn packets(data: &[u8]) -> Result<(Vec<Packet>, Reader), Error> {
    let (mut reader, mut found) = (whole(data)?, Vec::new());
    let mut packet = Packet::default();
    while reader.next(&mut packet)? {
        found.push(packet);
    }
    Ok((found, reader))
}

/// A segment or an acknowledgement between two hosts.
#[derive(Clone, Debug)]
struct Sent {
    after_ns: u32,
    port: u16,
    back: bool,
    /// Of the sender, in segments.
    place: u32,
    carries: bool,
    flags: u8,
}

fn sent() -> impl Strategy<Value = Sent> {
    let flags = prop_oneof![20 => Just(0x10), 1 => Just(0x02), 1 => Just(0x12), 1 => Just(0x11)];
    let port = prop_oneof![3 => Just(20_000), 1 => 20_001..20_009_u16];
    (1..400_000_000_u32, port, any::<bool>(), 0..12_u32, any::<bool>(), flags).prop_map(
        |(after_ns, port, back, place, carries, flags)| Sent {
            after_ns,
            port,
            back,
            place,
            carries,
            flags,
        },
    )
}

/// Write packets as a capture; where each record ends.
fn written(talk: &[Sent], isn: [u32; 2], start_ns: i64) -> (Vec<u8>, Vec<usize>) {
    let mut out = [0xa1b2_3c4d_u32.to_le_bytes(), [2, 0, 4, 0], [0; 4], [0; 4]].concat();
    out.extend([65_535_u32.to_le_bytes(), 101_u32.to_le_bytes()].concat());
    let (mut ends, mut now) = (vec![out.len()], start_ns);
    for (id, one) in talk.iter().enumerate() {
        now += i64::from(one.after_ns);
        let (own, far) = (usize::from(one.back), usize::from(!one.back));
        let payload = if one.carries && !one.back { 1000_u32 } else { 0 };
        let edge = |segments: u32| 1 + 1000 * segments;
        let (seq, ack) = if one.back { (1, edge(one.place)) } else { (edge(one.place), 1) };
        let seq = if one.flags & 2 > 0 { 0 } else { seq };
        let mut packet = vec![0x45, 0];
        packet.extend((40 + payload as u16).to_be_bytes());
        packet.extend((id as u16).to_be_bytes());
        packet.extend([0x40, 0, 64, 6, 0, 0, 10, 0, 0, own as u8, 10, 0, 0, far as u8]);
        packet.extend([one.port, 5001][own].to_be_bytes());
        packet.extend([one.port, 5001][far].to_be_bytes());
        packet.extend(isn[own].wrapping_add(seq).to_be_bytes());
        packet.extend(isn[far].wrapping_add(ack).to_be_bytes());
        packet.extend([0x50, one.flags, 0xff, 0xff, 0, 0, 0, 0]);
        let fields = [
            now / SECOND,
            now % SECOND,
            packet.len() as i64,
            packet.len() as i64 + i64::from(payload),
        ];
        fields.iter().for_each(|field| out.extend((*field as u32).to_le_bytes()));
        out.extend(packet);
        ends.push(out.len());
    }
    (out, ends)
}

fn talk() -> impl Strategy<Value = Vec<Sent>> {
    vec(sent(), 1..60)
}

const ISN: [u32; 2] = [1, 1];
const START: i64 = SECOND * 1_000_000;

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_bytes_end_in_packets_or_one_message(data in vec(any::<u8>(), 0..400), begin in 0..4) {
        let (made, _) = written(&[], ISN, START);
        let begin = if begin > 0 { &made[..] } else { &[] };
        match packets(&[begin, &data].concat()) {
            Ok((found, reader)) => prop_assert!(found.len() as u64 <= reader.counters.records),
            Err(error) => prop_assert!(!error.message.is_empty()),
        }
    }

    #[test]
    fn cut_anywhere_gives_what_is_before(talk in talk(), cut in any::<prop::sample::Index>()) {
        let (made, ends) = written(&talk, ISN, START);
        let length = HEADER + cut.index(made.len() - HEADER + 1);
        let (found, reader) = match packets(&made[..length]) {
            Ok(found) => found,
            Err(_) => return Err(TestCaseError::reject("nothing of it is whole")),
        };
        let before = ends.iter().filter(|end| **end <= length).count() - 1;
        prop_assert_eq!(found.len(), before);
        let clean = ends.contains(&length);
        prop_assert_eq!(reader.truncated.is_empty(), clean, "{}", reader.truncated);
    }

    #[test]
    fn blocks_and_threads_make_no_difference(
        talk in talk(),
        sizes in vec(1..300_usize, 1..8),
        chunk in 1..600_usize,
        threads in 1..5_usize,
        damage in any::<Option<(prop::sample::Index, u8)>>(),
    ) {
        let (mut made, _) = written(&talk, ISN, START);
        if let Some((place, value)) = damage {
            let place = place.index(made.len());
            made[place] = value;
        }
        let expected = format!("{:?}", answer(whole(&made), 1));
        let found = answer(opened(&made, &sizes, chunk), threads);
        prop_assert_eq!(format!("{found:?}"), expected);
    }

    #[test]
    fn sequence_numbers_wrap(talk in talk(), isn in any::<[u32; 2]>()) {
        let answers = [ISN, isn].map(|isn| answer(whole(&written(&talk, isn, START).0), 1));
        let [first, other] = answers.map(|found| found.map(|mut found| {
            found.flows.iter_mut().for_each(|flow| flow.isn = 0);
            found
        }));
        prop_assert_eq!(format!("{first:?}"), format!("{other:?}"));
    }

    #[test]
    fn the_time_of_day_makes_no_difference(talk in talk(), later in 0..1_000_000_000_i64) {
        let answers = [0, later].map(|later| {
            let found = answer(whole(&written(&talk, ISN, START + later).0), 1)?;
            let event = |event: &tcpf_trace::event::Event| {
                (event.time_ns - later, event.cause, event.rule, event.start, event.spurious)
            };
            Ok::<_, Error>((
                found.events.iter().map(event).collect::<Vec<_>>(),
                found.flows.iter().map(|flow| flow.row.rtt_sum_ns).collect::<Vec<_>>(),
            ))
        });
        prop_assert_eq!(&answers[0], &answers[1]);
    }

    #[test]
    fn damage_in_the_middle_loses_what_it_hit(talk in vec(sent(), 40..60), hit in 10..20_usize) {
        let (mut made, ends) = written(&talk, ISN, START);
        made[ends[hit]..ends[hit + 1]].fill(0xff);
        let (found, reader) = packets(&made).map_err(|error| TestCaseError::fail(error.message))?;
        prop_assert_eq!(found.len(), talk.len() - 1);
        prop_assert_eq!(reader.skipped as usize, ends[hit + 1] - ends[hit]);
    }
}
