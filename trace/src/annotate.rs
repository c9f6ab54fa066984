//! Write a capture again with the cause of each retransmission as a comment, which Wireshark shows.

use std::io::{self, Write};

use crate::error::Error;
use crate::event::{Cause, Event};
use crate::format::PCAPNG_MAGIC;
use crate::reader::{RawFrame, Reader};

/// Why a capture was not written again.
#[derive(Debug)]
pub enum Failure {
    Capture(Error),
    Output(io::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Capture(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Output(error)
    }
}

/// Write all records of a capture as pcapng; of the packets that `events` names, in their order, with
/// a comment.
///
/// Time stamps are in nanoseconds. Of a pcapng capture, packets and link types are kept and nothing
/// else.
///
/// # Errors
///
/// If the capture cannot be read, or `out` not be written.
pub fn annotate(mut reader: Reader, events: &[Event], out: &mut impl Write) -> Result<(), Failure> {
    let mut links: Vec<u32> = Vec::new();
    let mut events = events.iter().peekable();
    let mut record = 0;
    section(out)?;
    while let Some(frame) = reader.next_frame()? {
        let known = links.iter().position(|link| *link == frame.link_number);
        let interface = match known {
            Some(number) => number,
            None => {
                describe(frame.link_number, out)?;
                links.push(frame.link_number);
                links.len() - 1
            }
        };
        let mut told = String::new();
        while let Some(event) = events.next_if(|event| event.record == record) {
            told = comment(event);
        }
        packet(&frame, interface as u32, &told, out)?;
        record += 1;
    }
    Ok(())
}

/// Say of an event what made the packet leave, how that was told, and whether it was spurious.
pub fn comment(event: &Event) -> String {
    let (words, source) = event.rule.told();
    let backoff = match (event.cause, event.backoff) {
        (Cause::Rto, times @ 1..) => format!(", back-off {times}"),
        _ => String::new(),
    };
    let spurious =
        event.spurious.map_or(String::new(), |one| format!("; spurious ({})", one.name()));
    let source = if source.is_empty() { String::new() } else { format!(" ({source})") };
    format!("{}{backoff}{spurious}: {words}{source}", event.cause.name())
}

fn section(out: &mut impl Write) -> io::Result<()> {
    let length = 28_u32.to_le_bytes();
    out.write_all(&PCAPNG_MAGIC)?;
    out.write_all(&length)?;
    out.write_all(&0x1a2b_3c4d_u32.to_le_bytes())?;
    out.write_all(&[1, 0, 0, 0])?; // version 1.0
    out.write_all(&u64::MAX.to_le_bytes())?; // the section's length is not told
    out.write_all(&length)
}

/// Write an interface whose time stamps are nanoseconds.
fn describe(link: u32, out: &mut impl Write) -> io::Result<()> {
    let length = 32_u32.to_le_bytes();
    out.write_all(&1_u32.to_le_bytes())?;
    out.write_all(&length)?;
    out.write_all(&(link as u16).to_le_bytes())?;
    out.write_all(&[0; 2 + 4])?; // no snapshot length
    out.write_all(&[9, 0, 1, 0, 9, 0, 0, 0])?; // if_tsresol
    out.write_all(&[0; 4])?; // end of options
    out.write_all(&length)
}

fn packet(
    frame: &RawFrame<'_>,
    interface: u32,
    comment: &str,
    out: &mut impl Write,
) -> io::Result<()> {
    let pad = |length: usize| length.next_multiple_of(4) - length;
    let (bytes, told) = (frame.bytes, comment.as_bytes());
    let options = if told.is_empty() { 0 } else { 4 + told.len() + pad(told.len()) + 4 };
    let length = (32 + bytes.len() + pad(bytes.len()) + options) as u32;
    let time = frame.time_ns.max(0) as u64;
    for word in [
        6,
        length,
        interface,
        (time >> 32) as u32,
        time as u32,
        bytes.len() as u32,
        frame.wire_length.max(bytes.len() as u32),
    ] {
        out.write_all(&word.to_le_bytes())?;
    }
    out.write_all(bytes)?;
    out.write_all(&[0; 3][..pad(bytes.len())])?;
    if !told.is_empty() {
        out.write_all(&1_u16.to_le_bytes())?; // opt_comment
        out.write_all(&(told.len() as u16).to_le_bytes())?;
        out.write_all(told)?;
        out.write_all(&[0; 3][..pad(told.len())])?;
        out.write_all(&[0; 4])?;
    }
    out.write_all(&length.to_le_bytes())
}
