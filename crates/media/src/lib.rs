//! Video files through ffmpeg and ffprobe, which stay outside processes: a broken file or a hung codec costs a child,
//! not the worker that holds the weights.
//!
//! [`Ffmpeg`] finds and checks the programs once. [`Muxer`] takes samples, then frames as they are decoded, with bounded
//! back-pressure, and leaves either a complete MP4 or nothing. [`probe`] says what a file of our own holds; [`preview`] makes
//! pictures of it. [`decode`] reads those that strangers send. Everything is synchronous: the callers are the engine's thread and blocking tasks.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod answer;
mod arguments;
pub mod decode;
mod encoder;
mod error;
mod ffmpeg;
mod format;
mod handover;
mod muxer;
pub mod preview;
mod probe;
mod process;
pub mod reference;
mod scratch;
mod tools;

pub use error::Error;
pub use ffmpeg::Ffmpeg;
pub use format::{AUDIO_CHANNELS, AUDIO_SAMPLE_RATE, FPS, MuxFormat, VideoQuality};
pub use muxer::{MuxReport, Muxer};
pub use probe::{AudioStream, FrameRate, MediaInfo, VideoStream, probe};
pub use tools::MediaTools;
