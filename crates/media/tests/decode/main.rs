//! Decoding of real files, made by ffmpeg and libheif's tools on the spot.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod bench;
mod hostile;
mod images;
mod references;
mod sounds;
mod videos;
