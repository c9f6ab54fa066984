//! Rows of numpy arrays: laid out as the dtypes that `tcpf_lab.trace` names.

use numpy::{Element, PyArrayDescr, PyArrayDescrMethods};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use tcpf_trace::analysis::Found;
use tcpf_trace::compare::{Ends, Mark};
use tcpf_trace::event::{CAUSES, Event};
use tcpf_trace::packet::{Fragment, Packet};
use tcpf_trace::series::Known;

/// A row of `packet.PACKET`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct PacketRow {
    pub time_ns: i64,
    pub record: i64,
    pub src: u64,
    pub dst: u64,
    pub src_high: u64,
    pub dst_high: u64,
    pub seq: u32,
    pub ack: u32,
    pub tsval: u32,
    pub tsecr: u32,
    pub ip_length: u32,
    pub wire_length: u32,
    pub payload: i32,
    pub sack: [[u32; 2]; 4],
    pub sport: u16,
    pub dport: u16,
    pub ip_id: u16,
    pub window: u16,
    pub mss: u16,
    pub protocol: u8,
    pub tos: u8,
    pub ttl: u8,
    pub fragment: u8,
    pub flags: u8,
    pub sacks: u8,
    pub timestamps: u8,
    pub sack_permitted: u8,
    pub window_scale: i8,
    pub interface: u8,
}

/// A row of `events.FLOW`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FlowRow {
    src: [u8; 16],
    dst: [u8; 16],
    sport: i64,
    dport: i64,
    first_ns: i64,
    last_ns: i64,
    packets: i64,
    wire_bytes: i64,
    data_packets: i64,
    payload_bytes: i64,
    acked_bytes: i64,
    acks: i64,
    mss: i64,
    sack: i64,
    timestamps: i64,
    window_scale: i64,
    dscp: i64,
    rtt_min_ns: i64,
    rtt_sum_ns: i64,
    rtt_count: i64,
    syn: i64,
    fin: i64,
    rst: i64,
    episodes: i64,
    isn: i64,
    counts: [i64; CAUSES],
    spurious: [i64; CAUSES],
}

/// A row of `events.EVENT`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct EventRow {
    time_ns: i64,
    flow: i64,
    record: i64,
    start: i64,
    length: i32,
    kind: u8,
    rule: u8,
    backoff: u8,
    spurious: u8,
}

/// A row of `follow.DETAIL`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DetailRow {
    start: i64,
    end: i64,
    una: i64,
    in_flight: i64,
    window: i64,
    rtt_ns: i64,
    srtt_ns: i64,
    rto_ns: i64,
    expires_ns: i64,
}

/// A row of `identity.MARK`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct MarkRow(pub Mark);

impl MarkRow {
    /// Take rows as the marks that they are.
    pub fn marks(rows: &[MarkRow]) -> &[Mark] {
        // SAFETY: a row is a mark and nothing else (`repr(transparent)`).
        unsafe { std::slice::from_raw_parts(rows.as_ptr().cast(), rows.len()) }
    }
}

/// A row of `identity.ENDS`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct EndsRow {
    src: u64,
    dst: u64,
    src_high: u64,
    dst_high: u64,
    sport: u16,
    dport: u16,
    protocol: u8,
}

/// Says that rows of a type are laid out as a dtype of a module of `tcpf_lab.trace`.
///
/// The sizes are compared when the dtype is first needed; that fields stand in the same places is
/// what the tests of the module are for.
macro_rules! element {
    ($row:ty, $module:literal, $name:literal) => {
        // SAFETY: rows are plain numbers without padding that is read, and the dtype's size is theirs.
        unsafe impl Element for $row {
            const IS_COPY: bool = true;

            fn get_dtype(py: Python<'_>) -> Bound<'_, PyArrayDescr> {
                static DTYPE: PyOnceLock<Py<PyArrayDescr>> = PyOnceLock::new();
                let found = DTYPE.get_or_init(py, || {
                    let dtype = py
                        .import(concat!("tcpf_lab.trace.", $module))
                        .and_then(|module| module.getattr($name))
                        .and_then(|dtype| PyArrayDescr::new(py, dtype))
                        .expect(concat!("tcpf_lab.trace.", $module, " has ", $name));
                    assert_eq!(dtype.itemsize(), size_of::<$row>(), $name);
                    dtype.unbind()
                });
                found.bind(py).clone()
            }

            fn clone_ref(&self, _: Python<'_>) -> $row {
                *self
            }
        }
    };
}

element!(PacketRow, "packet", "PACKET");
element!(FlowRow, "analysis", "FLOW");
element!(EventRow, "analysis", "EVENT");
element!(DetailRow, "follow", "DETAIL");
element!(MarkRow, "passage", "MARK");
element!(EndsRow, "passage", "ENDS");

impl From<&Packet> for PacketRow {
    fn from(p: &Packet) -> PacketRow {
        PacketRow {
            time_ns: p.time_ns,
            record: p.record as i64,
            src: p.src as u64,
            dst: p.dst as u64,
            src_high: (p.src >> 64) as u64,
            dst_high: (p.dst >> 64) as u64,
            seq: p.seq,
            ack: p.ack,
            tsval: p.tsval,
            tsecr: p.tsecr,
            ip_length: p.ip_length,
            wire_length: p.wire_length,
            payload: p.payload as i32,
            sack: p.sack,
            sport: p.sport,
            dport: p.dport,
            ip_id: p.ip_id,
            window: p.window,
            mss: p.mss,
            protocol: p.protocol,
            tos: p.tos,
            ttl: p.ttl,
            fragment: p.fragment as u8,
            flags: p.flags,
            sacks: p.sacks().len() as u8,
            timestamps: p.timestamps.into(),
            sack_permitted: p.sack_permitted.into(),
            window_scale: p.window_scale,
            interface: p.interface,
        }
    }
}

/// An address of its upper and lower half.
fn address(high: u64, low: u64) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}

impl From<&PacketRow> for Packet {
    fn from(row: &PacketRow) -> Packet {
        Packet {
            time_ns: row.time_ns,
            record: row.record as u64,
            src: address(row.src_high, row.src),
            dst: address(row.dst_high, row.dst),
            seq: row.seq,
            ack: row.ack,
            tsval: row.tsval,
            tsecr: row.tsecr,
            ip_length: row.ip_length,
            wire_length: row.wire_length,
            payload: row.payload as u32,
            sport: row.sport,
            dport: row.dport,
            ip_id: row.ip_id,
            window: row.window,
            mss: row.mss,
            protocol: row.protocol,
            tos: row.tos,
            ttl: row.ttl,
            fragment: match row.fragment {
                0 => Fragment::Whole,
                1 => Fragment::First,
                _ => Fragment::Later,
            },
            flags: row.flags,
            timestamps: row.timestamps != 0,
            sack_permitted: row.sack_permitted != 0,
            window_scale: row.window_scale,
            interface: row.interface,
            sack: row.sack,
            sack_blocks: row.sacks,
        }
    }
}

impl From<&Found> for FlowRow {
    fn from(found: &Found) -> FlowRow {
        let row = &found.row;
        FlowRow {
            src: row.src.to_be_bytes(),
            dst: row.dst.to_be_bytes(),
            sport: row.sport.into(),
            dport: row.dport.into(),
            first_ns: row.first_ns,
            last_ns: row.last_ns,
            packets: row.packets as i64,
            wire_bytes: row.wire_bytes as i64,
            data_packets: row.data_packets as i64,
            payload_bytes: row.payload_bytes as i64,
            acked_bytes: found.acked_bytes,
            acks: row.acks as i64,
            mss: found.mss.into(),
            sack: found.sack.into(),
            timestamps: found.timestamps.into(),
            window_scale: found.window_scale.map_or(-1, i64::from),
            dscp: row.dscp.map_or(-1, i64::from),
            rtt_min_ns: found.rtt_min_ns,
            rtt_sum_ns: row.rtt_sum_ns,
            rtt_count: row.rtt_count as i64,
            syn: row.syn as i64,
            fin: row.fin as i64,
            rst: row.rst as i64,
            episodes: row.episodes as i64,
            isn: found.isn.into(),
            counts: row.counts.map(|count| count as i64),
            spurious: row.spurious.map(|count| count as i64),
        }
    }
}

impl From<&Event> for EventRow {
    fn from(event: &Event) -> EventRow {
        EventRow {
            time_ns: event.time_ns,
            flow: event.flow.into(),
            record: event.record as i64,
            start: event.start,
            length: event.length as i32,
            kind: event.cause as u8,
            rule: event.rule as u8,
            backoff: event.backoff,
            spurious: event.spurious.map_or(0, |evidence| evidence as u8),
        }
    }
}

impl From<&Known> for DetailRow {
    fn from(known: &Known) -> DetailRow {
        DetailRow {
            start: known.start,
            end: known.end,
            una: known.una,
            in_flight: known.in_flight,
            window: known.window,
            rtt_ns: known.rtt_ns,
            srtt_ns: known.srtt_ns,
            rto_ns: known.rto_ns,
            expires_ns: known.expires_ns,
        }
    }
}

impl From<&Ends> for EndsRow {
    fn from(ends: &Ends) -> EndsRow {
        EndsRow {
            src: ends.src as u64,
            dst: ends.dst as u64,
            src_high: (ends.src >> 64) as u64,
            dst_high: (ends.dst >> 64) as u64,
            sport: ends.sport,
            dport: ends.dport,
            protocol: ends.protocol,
        }
    }
}

impl From<&EndsRow> for Ends {
    fn from(row: &EndsRow) -> Ends {
        Ends {
            src: address(row.src_high, row.src),
            dst: address(row.dst_high, row.dst),
            sport: row.sport,
            dport: row.dport,
            protocol: row.protocol,
        }
    }
}
