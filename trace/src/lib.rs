#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod analysis;
pub mod annotate;
mod bytes;
pub mod compare;
pub mod connection;
pub mod engine;
pub mod error;
pub mod event;
pub mod format;
pub mod json;
pub mod link;
pub mod packet;
mod parallel;
pub mod reader;
pub mod sender;
pub mod series;
pub mod source;
#[cfg(feature = "cli")]
pub mod table;
