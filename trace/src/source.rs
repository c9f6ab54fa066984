//! The bytes of a capture, from a file or standard input, unpacked on the way.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Chain, Cursor, Read};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use liblzma::stream::{CONCATENATED, Stream};

use crate::error::{Error, words};

/// Bytes that an unpacker is given at a time.
const PACKED_CHUNK: usize = 1 << 16;
/// Bytes that it gives at a time. Those before damage that it has not given are lost: how many must
/// not depend on how much was asked for.
const PIECE: usize = 1 << 16;
const LONGEST_MAGIC: usize = 6;
/// Memory that a file of xz may ask for: `xz -9` asks for 65 MiB, a header may for 4 GiB.
const XZ_MEMORY: u64 = 128 << 20;
/// What becomes of a file descriptor that is closed: of those here only standard input may be.
const EBADF: i32 = 9;

type Bytes = Chain<Cursor<Vec<u8>>, Counted>;

/// The bytes of one capture.
pub struct Source {
    /// The path as text, bytes that are no UTF-8 as escapes; `-` is standard input.
    pub name: String,
    /// What the capture is packed with.
    pub packed: Option<&'static str>,
    /// Why the unpacker stopped early; empty if it did not.
    pub problem: String,
    stream: Box<dyn Read + Send>,
    /// A piece that was not asked for as a whole, and what is left of it.
    piece: Vec<u8>,
    left: Range<usize>,
    read: Arc<AtomicU64>,
}

/// How far a capture has been read.
pub struct Position(Arc<AtomicU64>);

impl Position {
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A stream that counts the bytes that were read from it.
struct Counted {
    stream: Box<dyn Read + Send>,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// A stream that fills what it is given: how bytes come must not decide how many of those before
/// damage an unpacker gives.
struct Raw(Bytes);

impl Read for Raw {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.0.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

impl Source {
    /// Open a capture; what is packed is recognised by its first bytes, whatever its name.
    ///
    /// # Errors
    ///
    /// If the file is missing or cannot be read.
    pub fn open(path: impl AsRef<OsStr>) -> Result<Source, Error> {
        let path = path.as_ref();
        let name = &text_of(path);
        let opened = if name == "-" {
            io::stdin().as_fd().try_clone_to_owned().map(File::from)
        } else {
            File::open(path)
        };
        let file = opened.and_then(|file| {
            let is_directory = file.metadata()?.is_dir();
            if is_directory { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(file) }
        });
        Source::of(name, Box::new(file.map_err(|error| unreadable(&error, name))?))
    }

    /// Take a stream of bytes for a capture of this name.
    ///
    /// # Errors
    ///
    /// If its first bytes cannot be read.
    pub fn of(name: &str, stream: Box<dyn Read + Send>) -> Result<Source, Error> {
        let read = Arc::new(AtomicU64::new(0));
        let mut stream = Counted { stream, read: read.clone() };
        let mut head = Vec::with_capacity(LONGEST_MAGIC);
        let first = (&mut stream).take(LONGEST_MAGIC as u64).read_to_end(&mut head);
        first.map_err(|error| unreadable(&error, name))?;
        let magic = head.clone();
        let (packed, stream) = unpacker(&magic, Cursor::new(head).chain(stream))
            .map_err(|error| unreadable(&error, name))?;
        Ok(Source {
            name: name.into(),
            packed,
            problem: String::new(),
            stream,
            piece: Vec::new(),
            left: 0..0,
            read,
        })
    }

    /// Read what is there; the number of bytes, 0 at the end.
    ///
    /// Damaged packed data end the capture behind what could be unpacked; `problem` says so.
    ///
    /// # Errors
    ///
    /// If the file cannot be read on.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        if !self.problem.is_empty() {
            return Ok(0);
        }
        loop {
            let count = match self.packed {
                Some(_) => self.unpack(buffer),
                None => self.stream.read(buffer),
            };
            return match (count, self.packed) {
                (Ok(count), _) => Ok(count),
                (Err(error), _) if error.kind() == io::ErrorKind::Interrupted => continue,
                (Err(error), Some(packed)) if error.raw_os_error().is_none() => {
                    self.problem = format!("damaged {packed} data: {error}");
                    Ok(0)
                }
                (Err(error), _) => Err(unreadable(&error, &self.name)),
            };
        }
    }

    fn unpack(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left.is_empty() {
            if buffer.len() >= PIECE {
                return self.stream.read(&mut buffer[..PIECE]);
            }
            self.piece.resize(PIECE, 0);
            self.left = 0..self.stream.read(&mut self.piece)?;
        }
        let count = self.left.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.piece[self.left.start..][..count]);
        self.left.start += count;
        Ok(count)
    }

    /// Bytes of the file that were read so far, packed as they are.
    pub fn position(&self) -> Position {
        Position(self.read.clone())
    }
}

/// A path as text, bytes that are no UTF-8 as escapes.
fn text_of(path: &OsStr) -> String {
    let mut text = String::new();
    for chunk in path.as_bytes().utf8_chunks() {
        text += chunk.valid();
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

fn unreadable(error: &io::Error, name: &str) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::new("no such capture", name),
        io::ErrorKind::IsADirectory => {
            let message = "cannot read the capture: Is a directory";
            Error::new(message, name).hint("name a capture in it")
        }
        _ if error.raw_os_error() == Some(EBADF) => {
            Error::new("standard input is closed", name).hint("name a file, or give one: - < FILE")
        }
        _ => Error::new(format!("cannot read the capture: {}", words(error)), name),
    }
}

/// What a stream that begins with `magic` is packed with, and what unpacks it.
fn unpacker(
    magic: &[u8],
    bytes: Bytes,
) -> io::Result<(Option<&'static str>, Box<dyn Read + Send>)> {
    let raw = Raw(bytes);
    Ok(match magic {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => (Some("zstd"), Box::new(zstd::Decoder::new(raw)?)),
        [0x1f, 0x8b, ..] => {
            let raw = BufReader::with_capacity(PACKED_CHUNK, raw);
            (Some("gzip"), Box::new(flate2::bufread::MultiGzDecoder::new(raw)))
        }
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            let raw = BufReader::with_capacity(PACKED_CHUNK, raw);
            let stream = Stream::new_stream_decoder(XZ_MEMORY, CONCATENATED)?;
            (Some("xz"), Box::new(liblzma::bufread::XzDecoder::new_stream(raw, stream)))
        }
        [b'B', b'Z', b'h', ..] => {
            let raw = BufReader::with_capacity(PACKED_CHUNK, raw);
            (Some("bzip2"), Box::new(bzip2::bufread::MultiBzDecoder::new(raw)))
        }
        [0x04, 0x22, 0x4d, 0x18, ..] => {
            let frames = lz4_flex::frame::FrameDecoder::new(Ending { raw, ended: false });
            (Some("lz4"), Box::new(Lz4 { frames, whole: false }))
        }
        _ => (None, Box::new(raw.0)),
    })
}

/// Frames of lz4, of which the last may be cut off: their decoder does not tell.
struct Lz4 {
    frames: lz4_flex::frame::FrameDecoder<Ending>,
    /// Whether the last frame was whole.
    whole: bool,
}

/// A stream that remembers that it has ended.
struct Ending {
    raw: Raw,
    ended: bool,
}

impl Read for Ending {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.raw.read(buffer)?;
        self.ended |= count == 0 && !buffer.is_empty();
        Ok(count)
    }
}

impl Read for Lz4 {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.frames.read(buffer)? {
                0 if !self.frames.get_ref().ended => self.whole = true,
                0 if !self.whole => return Err(io::ErrorKind::UnexpectedEof.into()),
                0 => return Ok(0),
                count => {
                    self.whole = false;
                    return Ok(count);
                }
            }
        }
    }
}
