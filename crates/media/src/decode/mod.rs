//! Media that strangers send, turned into pixels and samples: [`image`], [`video`] and [`audio`].
//!
//! Each has a cheap `inspect`, which reads headers only and refuses what is over a limit before memory is spent, and a
//! decoder that stays within what was inspected. What a file is, its content says; a [`Claim`] of its sender that
//! contradicts the content is an error. JPEG, PNG and WebP are decoded here; HEIC, video and sound by outside programs
//! that get the one demuxer that the content calls for and few codecs, one local file, and bounds on their time,
//! output and memory.
//!
//! Every [`Error`] about a file can be shown to whoever sent it; [`Error::is_of_machine`] tells those that cannot.

pub mod audio;
mod boxes;
mod claim;
mod error;
pub mod image;
mod log;
mod size;
pub(crate) mod sniff;
pub(crate) mod source;
mod streams;
pub mod video;

pub use claim::Claim;
pub use error::Error;
pub use sniff::{Format, Kind};
