use super::*;
use crate::analysis::Options;

const ISN: u32 = 0_u32.wrapping_sub(700);

fn packet(time_ns: i64, start: i64, payload: u32) -> Packet {
    Packet { time_ns, payload, seq: ISN.wrapping_add(start as u32), ..Packet::default() }
}

#[derive(Default)]
struct Counted {
    counts: [u64; CAUSES],
    episodes: u64,
    spurious: [u64; CAUSES],
    events: Vec<Event>,
}

impl Counted {
    fn tally(&mut self) -> Tally<'_> {
        let Counted { counts, episodes, spurious, events } = self;
        Tally { counts, episodes, spurious, events }
    }
}

/// One of 64 kB and more says nothing of its length: that of the frame is taken, whatever it is.
#[test]
fn packet_of_any_length_is_a_bounded_number_of_segments() {
    let most = i64::from(i32::MAX) - 54;
    for (payload, segments) in [(64_000, 64), (90_000, 90), (400_000, 128), (most, 128)] {
        let mut counted = Counted::default();
        let mut tally = counted.tally();
        let mut sender = Sender::new(Options::default().settings());
        let syn = Packet { mss: 1000, flags: SYN, ..Packet::default() };
        sender.send(&Packet { seq: ISN, ..syn }, &mut tally);
        let ack = ISN.wrapping_add(1);
        sender.receive(&Packet { ack, flags: SYN | ACK, ..syn }, &mut tally);
        sender.send(&packet(MS, 1, payload as u32), &mut tally);
        assert_eq!((sender.una, sender.snd_max), (1, 1 + payload));
        assert_eq!(sender.board.len(), segments);
        assert!(sender.is_sound());
    }
}

/// The edge that sequence numbers are unwrapped at moves: the packet lies behind a gap then.
#[test]
fn what_is_given_up_turns_no_old_packet_into_one_without_room() {
    let mut counted = Counted::default();
    let mut tally = counted.tally();
    let mut sender = Sender::new(Options::default().settings());
    for number in 0..4097 {
        sender.send(&packet(number, 1 + 960 * number, 960), &mut tally);
    }
    sender.send(&packet(1000 * MS, 966 - (1 << 31), 960), &mut tally);
    assert!(sender.is_sound());
    assert!(sender.snd_max > 1 << 31);
    assert!((4001..=4096).contains(&sender.board.len()));
}
