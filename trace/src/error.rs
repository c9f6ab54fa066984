//! What went wrong with a capture, for its user.

use std::fmt;

/// Why a capture cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What is wrong.
    pub message: String,
    /// The file.
    pub place: String,
    /// What to try; may be empty.
    pub hint: String,
}

impl Error {
    pub fn new(message: impl Into<String>, place: &str) -> Error {
        Error { message: message.into(), place: place.into(), hint: String::new() }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = hint.into();
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.place, self.message)?;
        if self.hint.is_empty() { Ok(()) } else { write!(out, "\n  try: {}", self.hint) }
    }
}

impl std::error::Error for Error {}

/// What the system says of an error, without its number.
pub fn words(error: &std::io::Error) -> String {
    let told = error.to_string();
    told.split(" (os error").next().unwrap_or_default().into()
}

/// How many of a thing there are: `1 byte`, `2 bytes`.
pub fn counted(number: u64, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}
