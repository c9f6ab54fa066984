//! The table of connections: which one a packet belongs to, in which direction.
//!
//! A connection is found by its ends, the same for both directions; direction 0 is that of its first
//! packet. A SYN with another initial sequence number begins a new connection, which takes the place
//! of the old one in the table.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::packet::{ACK, Packet, SYN};

/// A packet that is captured once more, on its way through a host or switch, is at most so late.
const COPY_NS: i64 = 10_000_000;
/// No path is as long: an answer as late is none to the packet before it.
const FARTHEST: i64 = 5_000_000_000;
/// A sender this near, by the round trip from the capture to it and back, is where the capture was
/// taken; so is one within this share (one to so many) of the whole round trip.
const NEAR_NS: i64 = 1_000_000;
const NEAR_SHARE: i64 = 16;
/// Slots of ports, by which connections are looked up first and shared out; a power of two.
pub const SLOTS: usize = 1024;

/// How far a sender is away: time from the capture to it and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Away {
    /// The handshake may yet tell.
    #[default]
    Unknown,
    /// It will not.
    Untold,
    Told(i64),
}

impl Away {
    fn of(time_ns: i64) -> Away {
        if time_ns <= FARTHEST { Away::Told(time_ns) } else { Away::Untold }
    }

    /// The time, if it was told; a negative one tells nothing.
    pub fn told(self) -> Option<i64> {
        match self {
            Away::Told(time) if time >= 0 => Some(time),
            _ => None,
        }
    }
}

/// Whether a sender is where the capture was taken.
pub fn is_near(own: i64, far: i64) -> bool {
    own <= NEAR_NS.max((own + far) / NEAR_SHARE)
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Direction {
    /// Its flow, if it has sent data or a SYN.
    pub flow: Option<u32>,
    /// Initial sequence number, from its SYN.
    pub isn: Option<u32>,
    /// How far its sender is away.
    pub away: Away,
    /// What its SYN has.
    pub mss: u16,
    pub window_scale: Option<u8>,
    pub sack_permitted: bool,
    pub timestamps: bool,
    last: Last,
    /// Of those of its packets that have an identification: whether one was seen, and whether the
    /// last one and the one before it came again.
    numbered: bool,
    last_again: bool,
    before_again: bool,
}

/// A direction's last packet, which another may be a copy of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Last {
    time_ns: i64,
    seq: u32,
    ack: u32,
    /// End of the first SACK block, which tells duplicate ACKs apart; 0 without one.
    sack: u32,
    payload: u32,
    ip_id: u16,
    flags: u8,
}

impl Last {
    #[inline(always)]
    fn of(p: &Packet) -> Last {
        Last {
            time_ns: p.time_ns,
            seq: p.seq,
            ack: p.ack,
            sack: p.sacks().first().map_or(0, |block| block[1]),
            payload: p.payload,
            ip_id: p.ip_id,
            flags: p.flags,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Connection {
    ends: Ends,
    pub directions: [Direction; 2],
    /// Direction of the SYN.
    pub opener: Option<usize>,
    /// Times of the last SYN and of the last SYN-ACK; 0: none.
    asked: i64,
    answered: i64,
}

/// Both ends of a packet, from its source on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ends {
    src: u128,
    dst: u128,
    sport: u16,
    dport: u16,
}

impl Ends {
    #[inline(always)]
    fn of(p: &Packet) -> Ends {
        Ends { src: p.src, dst: p.dst, sport: p.sport, dport: p.dport }
    }

    #[inline(always)]
    fn turned(self) -> Ends {
        Ends { src: self.dst, dst: self.src, sport: self.dport, dport: self.sport }
    }

    /// Where the connection is remembered; the same for both directions.
    #[inline(always)]
    fn slot(self) -> usize {
        let ports = u32::from(self.sport) * u32::from(self.dport);
        (ports.wrapping_mul(0x9e37_79b1) >> 22) as usize
    }

    /// What is the same for both directions, to be hashed.
    fn both(self) -> [(u128, u16); 2] {
        let ends = [(self.src, self.sport), (self.dst, self.dport)];
        if ends[0] <= ends[1] { ends } else { [ends[1], ends[0]] }
    }
}

/// Slot of a packet's connection, the same for both directions.
#[inline(always)]
pub fn slot(p: &Packet) -> usize {
    Ends::of(p).slot()
}

impl Connection {
    fn new(ends: Ends) -> Connection {
        let directions = [Direction::default(); 2];
        Connection { ends, directions, opener: None, asked: 0, answered: 0 }
    }

    /// The direction in which `ends` are this connection's.
    #[inline(always)]
    fn way_of(&self, ends: Ends) -> Option<usize> {
        if self.ends == ends {
            Some(0)
        } else if self.ends == ends.turned() {
            Some(1)
        } else {
            None
        }
    }

    /// Whether a packet was captured twice.
    ///
    /// Then those of the other direction are too, as far as it is known. What comes twice in one
    /// direction only was duplicated by the network, and has reached its receiver twice. A
    /// retransmission has an IP identification of its own (ip_select_ident); where that is 0, as in
    /// IPv6, nothing tells.
    #[inline(always)]
    pub fn is_copy(&mut self, p: &Packet, way: usize) -> bool {
        let last = &self.directions[way].last;
        if p.ip_id == 0 || p.ip_id != last.ip_id {
            return false;
        }
        let late = p.time_ns - last.time_ns;
        if !(0..=COPY_NS).contains(&late)
            || (Last { time_ns: last.time_ns, ..Last::of(p) }) != *last
        {
            return false;
        }
        self.directions[way].last_again = true;
        let other = &self.directions[1 - way];
        !other.numbered || other.last_again || other.before_again
    }

    /// Note a packet as its direction's last one.
    #[inline(always)]
    pub fn keep(&mut self, p: &Packet, way: usize) {
        let own = &mut self.directions[way];
        if p.ip_id != 0 {
            own.before_again = own.last_again;
            own.last_again = false;
            own.numbered = true;
        }
        own.last = Last::of(p);
    }

    /// Whether a packet may tell something of the handshake.
    #[inline(always)]
    pub fn is_shaking(&self, p: &Packet) -> bool {
        let waits = |opener: usize| self.directions[opener].away == Away::Unknown;
        p.flags & SYN > 0 || self.opener.is_some_and(waits)
    }

    /// Follow the handshake: what it agrees on, and how far away each sender is.
    ///
    /// From the last SYN to the SYN-ACK a packet goes from the capture to the one that was asked and
    /// back; from the last SYN-ACK to the ACK to the one that asked and back.
    pub fn shake(&mut self, p: &Packet, way: usize) {
        let own = &mut self.directions[way];
        if p.flags & SYN > 0 {
            own.isn = Some(p.seq);
            own.mss = p.mss;
            own.window_scale = u8::try_from(p.window_scale).ok();
            own.sack_permitted = p.sack_permitted;
            own.timestamps = p.timestamps;
            if p.flags & ACK == 0 {
                self.opener = Some(way);
                self.asked = p.time_ns;
            } else if self.opener == Some(1 - way) {
                if self.answered == 0 {
                    own.away = Away::of(p.time_ns - self.asked);
                }
                self.answered = p.time_ns;
            }
        } else if self.answered > 0
            && self.opener == Some(way)
            && own.away == Away::Unknown
            && p.flags & ACK > 0
        {
            own.away = Away::of(p.time_ns - self.answered);
        }
    }

    /// Whether a packet begins a new connection between the ends of an old one.
    ///
    /// A SYN does if its number is another one, or if data but no SYN of either side went before it.
    #[inline(always)]
    fn is_reopened_by(&self, p: &Packet, way: usize) -> bool {
        if p.flags & (SYN | ACK) != SYN {
            return false;
        }
        let (own, other) = (&self.directions[way], &self.directions[1 - way]);
        match own.isn {
            Some(isn) => isn != p.seq,
            None => own.flow.is_some() || other.flow.is_some() && other.isn.is_none(),
        }
    }
}

/// All connections of a capture, in the order of their first packets.
pub struct Connections {
    pub all: Vec<Connection>,
    table: HashTable<u32>,
    hasher: RandomState,
    /// The last connection found of those whose ports share a slot: most packets need no hash.
    recent: Box<[u32; SLOTS]>,
}

impl Default for Connections {
    fn default() -> Connections {
        let (table, hasher) = (HashTable::new(), RandomState::default());
        Connections { all: Vec::new(), table, hasher, recent: Box::new([0; SLOTS]) }
    }
}

impl Connections {
    /// Number of a packet's connection, which is entered if it is new, and the packet's direction.
    #[inline(always)]
    pub fn find(&mut self, p: &Packet) -> (usize, usize) {
        match self.known(p) {
            Some((number, way)) if !self.all[number].is_reopened_by(p, way) => (number, way),
            _ => (self.enter(p), 0),
        }
    }

    /// The same, but one pair of ends is one connection, whatever SYNs say.
    pub fn find_ends(&mut self, p: &Packet) -> (usize, usize) {
        self.known(p).unwrap_or_else(|| (self.enter(p), 0))
    }

    #[inline(always)]
    fn known(&mut self, p: &Packet) -> Option<(usize, usize)> {
        let ends = Ends::of(p);
        let recent = ends.slot();
        let number = self.recent[recent] as usize;
        if let Some(way) = self.all.get(number).and_then(|one| one.way_of(ends)) {
            return Some((number, way));
        }
        let all = &self.all;
        let same = |number: &u32| all[*number as usize].way_of(ends).is_some();
        let number = *self.table.find(self.hash(ends), same)?;
        self.recent[recent] = number;
        Some((number as usize, self.all[number as usize].way_of(ends)?))
    }

    #[inline(always)]
    fn hash(&self, ends: Ends) -> u64 {
        self.hasher.hash_one(ends.both())
    }

    #[cold]
    fn enter(&mut self, p: &Packet) -> usize {
        let (ends, number) = (Ends::of(p), self.all.len());
        let hash = self.hash(ends);
        let Connections { all, table, hasher, recent } = self;
        recent[ends.slot()] = number as u32;
        let same = |one: &u32| all[*one as usize].way_of(ends).is_some();
        match table.find_mut(hash, same) {
            Some(place) => *place = number as u32,
            None => {
                let hash_of = |one: &u32| hasher.hash_one(all[*one as usize].ends.both());
                table.insert_unique(hash, number as u32, hash_of);
            }
        }
        all.push(Connection::new(ends));
        number
    }
}
