//! What a sender has outstanding: a ring of segments.
//!
//! A segment has a number that never changes, from `head` (the oldest outstanding) to `tail`; its
//! place in the ring is that number modulo the ring's size. Segments adjoin, so one is found by
//! bisection. A SACKed segment points behind the run of SACKed ones it stands in: marking a block
//! of any length again costs next to nothing.

use crate::event::Cause;

#[derive(Clone, Copy, Debug, Default)]
pub struct Segment {
    /// Relative sequence numbers.
    pub start: i64,
    pub end: i64,
    /// When it was sent last.
    pub sent: i64,
    /// When its last retransmission was acknowledged, if late enough to be its doing; 0: it was not.
    pub told: i64,
    /// Number of the event that was its last retransmission.
    pub event: u64,
    /// From a SACKed segment to the next that may not be.
    pub(super) skip: u32,
    /// The loss episode in which it was retransmitted.
    pub again: u32,
    /// The scoreboard on which it is SACKed.
    pub(super) sacked: u32,
    /// TCP's time stamp of its last copy.
    pub tsval: u32,
    /// What its last retransmission was; `None` if there was none, or it is known to be spurious.
    pub cause: Option<Cause>,
    /// Whether it was retransmitted.
    pub ever: bool,
    /// Whether it was not captured.
    pub unseen: bool,
}

const SMALLEST: usize = 8;
/// Segments outstanding at most; of a sender of which no ACK was seen, which may have anything.
const MOST: i64 = 262_144;
const DEAF: i64 = 4096;
/// Pieces that a gap in the capture is divided into at most.
pub const PIECES: i64 = 64;
/// Retransmissions remembered after they were acknowledged.
const MEMORY: usize = 32;
const LARGEST_MEMORY: usize = 1024;
const YOUNG: i64 = 1_000_000_000;

/// Where a retransmission is kept that may yet prove spurious.
#[derive(Clone, Copy, Debug)]
pub enum Kept {
    Outstanding(i64),
    Remembered(usize),
}

#[derive(Clone, Debug)]
pub struct Board {
    ring: Vec<Segment>,
    pub head: i64,
    pub tail: i64,
    /// SACKed bytes that are outstanding.
    pub sacked_bytes: i64,
    /// Number of this scoreboard: a sender that gives one up begins another.
    number: u32,
    memory: Vec<Segment>,
    remembered: usize,
}

impl Default for Board {
    fn default() -> Board {
        Board {
            ring: Vec::new(),
            head: 0,
            tail: 0,
            sacked_bytes: 0,
            number: 1,
            memory: Vec::new(),
            remembered: 0,
        }
    }
}

impl Board {
    /// Forget everything, but keep the room.
    pub fn clear(&mut self) {
        (self.head, self.tail, self.sacked_bytes) = (0, 0, 0);
        (self.number, self.remembered) = (1, 0);
    }

    /// Give up what the receiver has SACKed.
    pub fn renew(&mut self) {
        self.number += 1;
        self.sacked_bytes = 0;
    }

    /// Return the room of a sender with nothing outstanding.
    pub fn release_room(&mut self) {
        self.ring = Vec::new();
        self.memory = Vec::new();
        self.remembered = 0;
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    #[inline(always)]
    pub fn len(&self) -> i64 {
        self.tail - self.head
    }

    #[inline(always)]
    pub fn at(&self, number: i64) -> &Segment {
        &self.ring[number as usize & (self.ring.len() - 1)]
    }

    #[inline(always)]
    pub fn at_mut(&mut self, number: i64) -> &mut Segment {
        let place = number as usize & (self.ring.len() - 1);
        &mut self.ring[place]
    }

    #[inline(always)]
    pub fn first(&self) -> &Segment {
        self.at(self.head)
    }

    #[inline(always)]
    pub fn is_sacked(&self, segment: &Segment) -> bool {
        segment.sacked == self.number
    }

    /// Append a segment; there must be room.
    #[inline(always)]
    pub fn push(&mut self, segment: Segment) {
        let tail = self.tail;
        *self.at_mut(tail) = Segment { skip: 1, ..segment };
        self.tail += 1;
    }

    /// Whether there is room for so many more.
    #[inline(always)]
    pub fn has_room(&self, more: i64) -> bool {
        self.len() + more <= self.ring.len() as i64
    }

    /// How many of the oldest must be given up before `more` may come; `heard`: an ACK was seen.
    pub fn surplus(&self, more: i64, heard: bool) -> i64 {
        let limit = if heard { MOST } else { DEAF };
        if self.len() + more <= limit {
            return 0;
        }
        // seen from a left edge that moves, a packet may lie behind a gap
        (self.len() + more + PIECES + 1 - limit).min(self.len())
    }

    /// Make room for so many more.
    pub fn grow(&mut self, more: i64) {
        let size = (self.len() + more).max(SMALLEST as i64) as usize;
        let size = size.next_power_of_two();
        if size <= self.ring.len() {
            return;
        }
        let mut larger = vec![Segment::default(); size];
        for number in self.head..self.tail {
            larger[number as usize & (size - 1)] = *self.at(number);
        }
        self.ring = larger;
    }

    /// Where what is outstanding begins and ends; there must be something.
    pub fn edges(&self) -> (i64, i64) {
        (self.first().start, self.at(self.tail - 1).end)
    }

    /// Whether segments adjoin and the SACKed ones are as many bytes as was counted.
    pub fn is_sound(&self) -> bool {
        let (mut sacked, mut edge) = (0, None);
        let adjoin = (self.head..self.tail).all(|number| {
            let segment = self.at(number);
            sacked += if self.is_sacked(segment) { segment.end - segment.start } else { 0 };
            let begins = edge.replace(segment.end).is_none_or(|edge| edge == segment.start);
            begins && segment.start < segment.end
        });
        adjoin && self.len() <= self.ring.len() as i64 && sacked == self.sacked_bytes
    }

    /// The first segment that ends behind `edge`; `tail` if there is none.
    #[inline(always)]
    pub fn locate(&self, edge: i64) -> i64 {
        let (mut low, mut high) = (self.head, self.tail);
        while low < high {
            let middle = (low + high) >> 1;
            if self.at(middle).end > edge {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// The first segment from `number` on that is not SACKed; `tail` if there is none.
    pub fn unsacked(&mut self, mut number: i64) -> i64 {
        let mut found = number;
        while found < self.tail && self.is_sacked(self.at(found)) {
            found += i64::from(self.at(found).skip);
        }
        while number < found {
            // everything passed on the way points there from now on
            let segment = self.at_mut(number);
            let step = i64::from(segment.skip);
            segment.skip = (found - number) as u32;
            number += step;
        }
        found
    }

    /// Mark a segment as SACKed.
    #[inline(always)]
    pub fn sack(&mut self, number: i64) {
        let board = self.number;
        let segment = self.at_mut(number);
        (segment.sacked, segment.skip) = (board, 1);
        let bytes = segment.end - segment.start;
        self.sacked_bytes += bytes;
    }

    /// Keep an acknowledged retransmission: word that it was spurious may yet come.
    pub fn remember(&mut self, segment: Segment) {
        let room = self.memory.len();
        let young = |oldest: &Segment| segment.sent - oldest.sent < YOUNG;
        let full = room > 0 && self.remembered >= room && room < LARGEST_MEMORY;
        if room == 0 || full && young(&self.memory[self.remembered & (room - 1)]) {
            let larger = (2 * room).max(MEMORY);
            let mut memory = vec![Segment::default(); larger];
            for number in self.remembered - self.remembered.min(room)..self.remembered {
                memory[number & (larger - 1)] = self.memory[number & (room - 1)];
            }
            self.memory = memory;
        }
        let place = self.remembered & (self.memory.len() - 1);
        self.memory[place] = segment;
        self.remembered += 1;
    }

    /// Say what else the retransmission with a number was.
    pub fn rename(&mut self, event: u64, cause: Cause) {
        let Board { ring, memory, .. } = self;
        for segment in ring.iter_mut().chain(memory) {
            if segment.event == event && segment.cause.is_some() {
                segment.cause = Some(cause);
            }
        }
    }

    /// The last retransmission inside `low` to `high`.
    pub fn recall(&self, low: i64, high: i64) -> Option<Kept> {
        let number = self.locate(low);
        if number < self.tail {
            let segment = self.at(number);
            if segment.cause.is_some() && segment.start >= low && segment.end <= high {
                return Some(Kept::Outstanding(number));
            }
        }
        let room = self.memory.len();
        (1..=self.remembered.min(room))
            .map(|back| (self.remembered - back) & (room - 1))
            .find(|&place| {
                let segment = &self.memory[place];
                segment.cause.is_some() && segment.start < high && segment.end > low
            })
            .map(Kept::Remembered)
    }

    pub fn kept(&mut self, place: Kept) -> &mut Segment {
        match place {
            Kept::Outstanding(number) => self.at_mut(number),
            Kept::Remembered(place) => &mut self.memory[place],
        }
    }
}
