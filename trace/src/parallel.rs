//! Follow the flows of one capture in several threads.
//!
//! One thread reads and dissects; all see every packet, in the order of the capture. Connections are
//! shared out by their ports: each is followed by one thread. What the threads found is merged at the
//! end.

use std::collections::VecDeque;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::scope;

use crate::connection::{SLOTS, slot};
use crate::engine::Engine;
use crate::error::Error;
use crate::packet::Packet;
use crate::reader::Reader;

/// Packets that are handed over at a time: they stay in the L2 cache.
const BLOCK: usize = 1024;
/// Blocks on their way to a thread.
const AHEAD: usize = 4;
/// Reading a plain file takes less time than following its flows: beside one thread, the reading one
/// follows one connection of so many itself.
const OWN_SHARE: usize = 8;
/// Reading takes as long as following in two threads: more would wait.
const MOST: usize = 4;

/// Follow what `reader` reads in `threads` threads at most; `new` makes an engine for each.
///
/// `goes_on` says of each packet whether to read on behind it.
///
/// # Errors
///
/// If the capture cannot be read.
pub fn follow(
    reader: &mut Reader,
    threads: usize,
    new: impl Fn() -> Engine,
    mut goes_on: impl FnMut(&Packet) -> bool,
) -> Result<Engine, Error> {
    let others = threads.clamp(1, MOST) - 1;
    let own = match others {
        0 => SLOTS,
        1 if !reader.is_packed() => SLOTS / OWN_SHARE,
        _ => 0,
    };
    scope(|scope| {
        let mut workers = Vec::with_capacity(others);
        for number in 0..others {
            let border = |number: usize| own + (SLOTS - own) * number / others;
            let slots = border(number)..border(number + 1);
            let (sender, blocks) = sync_channel::<Arc<Vec<Packet>>>(AHEAD);
            let mut engine = new();
            let follow = move || {
                blocks.iter().for_each(|block| follow_block(&mut engine, &block, &slots));
                engine.finish();
                engine
            };
            workers.push((sender, scope.spawn(follow)));
        }
        let (mut engine, mut used, mut more) = (new(), VecDeque::new(), true);
        while more {
            let mut block = unused(&mut used);
            let packets = Arc::make_mut(&mut block);
            packets.resize(BLOCK, Packet::default());
            let mut filled = 0;
            while filled < BLOCK && more {
                let packet = &mut packets[filled];
                let found = reader.next(packet)?;
                filled += usize::from(found);
                more = found && goes_on(packet);
            }
            packets.truncate(filled);
            for (sender, _) in &workers {
                // a thread that panicked takes none; joining it says so
                let _ = sender.send(block.clone());
            }
            if own > 0 {
                follow_block(&mut engine, &block, &(0..own));
            }
            used.push_back(block);
        }
        engine.finish();
        for (sender, worker) in workers {
            drop(sender);
            engine.merge(worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        Ok(engine)
    })
}

/// Follow the connections of some slots through a block.
fn follow_block(engine: &mut Engine, block: &[Packet], slots: &Range<usize>) {
    for packet in block {
        engine.note_time(packet);
        if packet.is_tcp() && (slots.len() == SLOTS || slots.contains(&slot(packet))) {
            engine.advance(packet);
        }
    }
}

/// Give the oldest block if all threads are through with it, else a new one.
fn unused(used: &mut VecDeque<Arc<Vec<Packet>>>) -> Arc<Vec<Packet>> {
    match used.front() {
        Some(oldest) if Arc::strong_count(oldest) == 1 => used.pop_front().unwrap_or_default(),
        _ => Arc::default(),
    }
}
