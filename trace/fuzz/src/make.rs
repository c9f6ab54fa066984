//! Inputs: captures that are mutated, and conversations that no capture has shown yet.

use std::io::Write;

use fastrand::Rng;
use flate2::Compression;
use flate2::write::GzEncoder;

/// Numbers that programs compare with.
const INTERESTING: [u32; 12] =
    [0, 1, 2, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];
const MOST_MUTATIONS: usize = 6;
const LONGEST: usize = 1 << 18;
const SECOND: u64 = 1_000_000_000;

pub struct Maker {
    pub seeds: Vec<Vec<u8>>,
}

impl Maker {
    pub fn input(&self, rng: &mut Rng) -> Vec<u8> {
        if self.seeds.is_empty() || rng.u8(..3) > 0 {
            let made = conversation(rng);
            return if rng.u8(..4) == 0 { mutate(rng, made.clone(), &made) } else { made };
        }
        let (one, other) = (rng.choice(&self.seeds), rng.choice(&self.seeds));
        let (one, other) = (one.map_or(&[][..], |one| one), other.map_or(&[][..], |one| one));
        let begin = rng.usize(..=one.len());
        let part = if rng.u8(..3) == 0 { &one[..begin] } else { &one[..one.len().min(8192)] };
        let changed = mutate(rng, part.to_vec(), other);
        match rng.u8(..16) {
            0 => packed(&changed),
            1 => zstd::encode_all(&*changed, 1).unwrap_or(changed),
            2 => mutate(rng, packed(&changed), other),
            _ => changed,
        }
    }
}

fn packed(data: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(data).and_then(|()| out.finish()).unwrap_or_default()
}

/// Change some bytes, or insert, remove, repeat or take over some.
fn mutate(rng: &mut Rng, mut data: Vec<u8>, other: &[u8]) -> Vec<u8> {
    for _ in 0..rng.usize(1..=MOST_MUTATIONS) {
        if data.is_empty() {
            break;
        }
        let at = rng.usize(..data.len());
        let end = (at + 1 + (1 << rng.u32(..9)) * rng.usize(..3)).min(data.len());
        match rng.u8(..8) {
            0 => data[at] ^= 1 << rng.u8(..8),
            1 => data[at] = rng.u8(..),
            2 => drop(data.drain(at..end)),
            3 if data.len() < LONGEST => {
                let part = data[at..end].to_vec();
                let copies = part.repeat(1 + rng.usize(..4));
                data.splice(at..at, copies);
            }
            4 => data.truncate(at.max(1)),
            5 if !other.is_empty() => {
                let from = rng.usize(..other.len());
                let part = &other[from..(from + end - at).min(other.len())];
                data.splice(at..end, part.iter().copied());
            }
            _ => {
                let value = INTERESTING[rng.usize(..INTERESTING.len())];
                let value = value.wrapping_add(rng.u32(..3)).wrapping_sub(1);
                let bytes = if rng.bool() { value.to_be_bytes() } else { value.to_le_bytes() };
                let width = if rng.bool() { 4 } else { 2 };
                let part = if rng.bool() { &bytes[..width] } else { &bytes[4 - width..] };
                for (place, byte) in data[at..].iter_mut().zip(part) {
                    *place = *byte;
                }
            }
        }
    }
    data
}

/// One end of a made connection.
#[derive(Clone, Copy)]
struct End {
    port: u16,
    isn: u32,
    /// Bytes sent so far; the left edge that the other end has told.
    sent: u32,
    una: u32,
}

/// A connection of which packets are made.
struct Talk {
    ends: [End; 2],
    six: bool,
    stamps: bool,
    sack: bool,
    mss: u16,
    ip_id: u16,
}

/// Make a capture of some connections that lose, repeat and mix up what they send.
fn conversation(rng: &mut Rng) -> Vec<u8> {
    let link = [1_u32, 101, 113, 276, 0][rng.usize(..5)];
    let mut out = [0xa1b2_3c4d_u32.to_le_bytes(), [2, 0, 4, 0], [0; 4], [0; 4]].concat();
    out.extend([65_535_u32.to_le_bytes(), link.to_le_bytes()].concat());
    let port = rng.u16(10_000..60_000);
    let mut talks: Vec<_> =
        (0..rng.u16(1..5)).map(|number| Talk::new(rng, port + number % 3)).collect();
    let mut now = 1_000 * SECOND;
    let step = 1 << rng.u32(10..30); // from a microsecond to a second
    for _ in 0..1 << rng.u32(2..9) {
        now = match rng.u16(..400) {
            0 => now.saturating_sub(rng.u64(..3 * SECOND)),
            1 => now + rng.u64(..100_000 * SECOND),
            2..=20 => now + rng.u64(..2 * SECOND),
            _ => now + rng.u64(..step),
        };
        let count = talks.len();
        let talk = &mut talks[rng.usize(..count)];
        let packet = talk.packet(rng);
        for _ in 0..=u8::from(rng.u8(..50) == 0) {
            record(&mut out, link, now, &packet, rng);
        }
    }
    out
}

/// Append a record; payload is cut off, as by a snapshot length.
fn record(out: &mut Vec<u8>, link: u32, now: u64, packet: &[u8], rng: &mut Rng) {
    let six = packet[0] >> 4 == 6;
    let kind: u16 = if six { 0x86dd } else { 0x0800 };
    let mut frame = match link {
        1 => [&[0; 12][..], &kind.to_be_bytes()].concat(),
        113 => [&[0; 14][..], &kind.to_be_bytes()].concat(),
        276 => [&kind.to_be_bytes()[..], &[0; 18]].concat(),
        0 => u32::to_le_bytes(if six { 24 } else { 2 }).to_vec(),
        _ => Vec::new(),
    };
    frame.extend(packet);
    let payload = if six {
        u16::from_be_bytes([packet[4], packet[5]]) as usize + 40
    } else {
        u16::from_be_bytes([packet[2], packet[3]]) as usize
    };
    let wire = frame.len() - packet.len() + payload.max(packet.len());
    if rng.u8(..60) == 0 {
        frame.truncate(rng.usize(..frame.len()));
    }
    let fields = [now / SECOND, now % SECOND, frame.len() as u64, wire as u64];
    for field in fields {
        out.extend((field as u32).to_le_bytes());
    }
    out.extend(frame);
}

impl Talk {
    fn new(rng: &mut Rng, port: u16) -> Talk {
        let mut end = |port| {
            // Sequence numbers wrap soon, or where the sign of a difference does.
            let near = [0, 0x8000_0000][rng.usize(..2)];
            let isn =
                if rng.bool() { rng.u32(..) } else { u32::wrapping_sub(near, rng.u32(..20_000)) };
            End { port, isn, sent: 0, una: 0 }
        };
        let ends = [end(port), end(5001)];
        let mss = [88, 536, 1000, 1460, 9000][rng.usize(..5)];
        let (six, stamps, sack) = (rng.u8(..4) == 0, rng.bool(), rng.bool());
        Talk { ends, six, stamps, sack, mss, ip_id: rng.u16(..) }
    }

    /// Make the next packet of either end.
    fn packet(&mut self, rng: &mut Rng) -> Vec<u8> {
        let way = usize::from(rng.u8(..5) < 2);
        let mss = u32::from(self.mss);
        let [own, far] = [self.ends[way], self.ends[1 - way]];
        let (mut flags, mut seq, mut length) = (0x10, own.sent, 0);
        let mut options = Vec::new();
        let mut ack = far.una;
        match rng.u16(..200) {
            0..=7 => {
                flags = if way == 0 { 2 } else { 0x12 };
                seq = 0;
                options.extend([2, 4]);
                options.extend(self.mss.to_be_bytes());
                if self.sack {
                    options.extend([4, 2, 1, 1]);
                }
                options.extend([3, 3, rng.u8(..20), 0]);
                if rng.u8(..20) > 0 {
                    self.ends[way].sent = own.sent.max(1);
                }
            }
            8..=9 => flags = [0x11, 0x14, 0x04, 0x12, 0x0][rng.usize(..5)],
            10..=12 => seq = own.una.wrapping_sub(rng.u32(..2)), // keep-alive
            13 => seq = rng.u32(..),
            14..=90 if way == 0 => length = mss * [1, 1, 1, 2, 8][rng.usize(..5)],
            14..=30 => length = rng.u32(..mss),
            31..=60 => {
                let outstanding = own.sent.wrapping_sub(own.una).max(1);
                seq = own.una.wrapping_add(rng.u32(..outstanding) / mss.max(1) * mss);
                length = mss;
            }
            61..=70 => (seq, length) = (own.una, mss),
            71..=72 => seq = own.sent.wrapping_add(mss * rng.u32(..60)), // a gap
            _ => ack = far.una.wrapping_add(rng.u32(..4 * mss).min(far.sent.wrapping_sub(far.una))),
        }
        self.ends[1 - way].una = ack;
        let end = seq.wrapping_add(length);
        if end.wrapping_sub(own.sent) < 0x8000_0000 {
            self.ends[way].sent = end;
        }
        let room = far.sent.wrapping_sub(ack);
        if self.sack && room > 0 && rng.bool() {
            let blocks = rng.usize(1..4);
            options.extend([1, 1, 5, 2 + 8 * blocks as u8]);
            for _ in 0..blocks {
                let low = ack.wrapping_add(rng.u32(..room)).wrapping_sub(mss * rng.u32(..3));
                let high = low.wrapping_add(mss * rng.u32(1..4));
                options.extend(far.isn.wrapping_add(low).to_be_bytes());
                options.extend(far.isn.wrapping_add(high).to_be_bytes());
            }
        } else if self.stamps {
            options.extend([1, 1, 8, 10]);
            options.extend(u32::to_be_bytes(rng.u32(..9) + own.sent / 1000));
            options.extend(u32::to_be_bytes(rng.u32(..9) + far.una / 1000));
        }
        let window = if rng.u8(..30) == 0 { 0 } else { rng.u16(..) };
        let numbers = [own.isn.wrapping_add(seq), far.isn.wrapping_add(ack)];
        let tcp = header(&self.ends, way, numbers, flags, window, &options);
        self.ip(way, &tcp, length, rng)
    }

    fn ip(&mut self, way: usize, tcp: &[u8], length: u32, rng: &mut Rng) -> Vec<u8> {
        let size = tcp.len() + length as usize;
        let hosts = if way == 0 { [1, 2] } else { [2, 1] };
        self.ip_id = self.ip_id.wrapping_add(u16::from(rng.u8(..40) > 0));
        if self.six {
            let mut packet = vec![0x60, 0, 0, 0];
            packet.extend((size.min(65_535) as u16).to_be_bytes());
            packet.extend([6, 64]);
            for host in hosts {
                packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
            }
            packet.extend(tcp);
            return packet;
        }
        let total = ((20 + size) as u16).to_be_bytes(); // 0 of what is longer: a segment not yet cut
        let total = if size + 20 > 65_535 { [0, 0] } else { total };
        let id = self.ip_id.to_be_bytes();
        let fragment = if rng.u16(..300) == 0 { [0x20, rng.u8(..4)] } else { [0x40, 0] };
        let tos = [0, 0, 40, 184][rng.usize(..4)];
        let start = [0x45, tos, total[0], total[1], id[0], id[1], fragment[0], fragment[1]];
        let mut packet = start.to_vec();
        packet.extend([64, 6, 0, 0, 10, 0, 0, hosts[0], 10, 0, 0, hosts[1]]);
        packet.extend(tcp);
        packet
    }
}

fn header(
    ends: &[End; 2],
    way: usize,
    [seq, ack]: [u32; 2],
    flags: u8,
    window: u16,
    options: &[u8],
) -> Vec<u8> {
    let mut tcp = ends[way].port.to_be_bytes().to_vec();
    tcp.extend(ends[1 - way].port.to_be_bytes());
    tcp.extend(seq.to_be_bytes());
    tcp.extend(ack.to_be_bytes());
    let padded = options.len().div_ceil(4).min(10) * 4;
    tcp.extend([((5 + padded / 4) << 4) as u8, flags]);
    tcp.extend(window.to_be_bytes());
    tcp.extend([0; 4]);
    tcp.extend(options.iter().chain(&[1; 4]).take(padded));
    tcp
}
