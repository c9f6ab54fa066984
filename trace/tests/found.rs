//! What the fuzz loop found, each as the smallest input that shows it.

use std::io::Cursor;

use tcpf_trace::analysis::{Analysis, Options, analyse};
use tcpf_trace::error::Error;
use tcpf_trace::reader::Reader;
use tcpf_trace::source::Source;

fn answer(hex: &str) -> Result<Analysis, Error> {
    let digits = hex.split_whitespace().collect::<String>();
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap_or(0);
    let bytes: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
    let source = Source::of("x", Box::new(Cursor::new(bytes)))?;
    analyse(Reader::of(source, 1 << 16)?, &Options::default(), |_| true)
}

/// The offset of an interface made times that are damage anywhere else: written again, such a
/// capture could not be read.
#[test]
fn time_that_an_offset_moves_out_of_range_is_damage() {
    let found = answer(
        "0a0d0d0a 1c000000 4d3c2b1a 01000000 ffffffff ffffffff 1c000000
         01000000 2c000000 0c000000 00000000 09000100 0b000000 0e000800 82bee012 01000000 00000000
         2c000000
         06000000 54000000 00000000 fe9c9717 00002a36 34000000 34000000 45000034 00004000 40060000
         0a000001 0a000002 4e201389 fffff4de 8ec3d2ee 800203e8 00000000 02040064 03030f01 04020101
         54000000",
    );
    let message = found.map(|found| found.first_ns).map_err(|error| error.message);
    let expected = "damaged: packet 1 at byte 72: its time stamp of 1700000000000000000 units is \
                    out of range; 0 packets before it are whole";
    assert_eq!(message, Err(expected.into()));
}
