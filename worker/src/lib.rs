//! Runs jobs: claim, prepare, generate, encode, store, complete.
//!
//! A [`Worker`] holds one engine and works on one job at a time. For each claim it makes an attempt: the engine decodes
//! straight into ffmpeg ([`MuxSink`]), the finished file goes into the media store under the claim's own key, and one
//! write to the job store makes it the job's result. Whatever ends an attempt early, its scratch folder is removed.
//!
//! What keeps the lease is not in the engine's way: heartbeats come from a thread of their own. They carry progress up
//! and cancels down, they end when the engine stops moving, and they stop the engine when they cannot get through
//! before the lease could be given away.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod classify;
mod ending;
mod error;
mod execute;
mod generator;
mod health;
mod heartbeat;
mod memory;
mod options;
mod progress;
mod retry;
mod scratch;
mod sink;
mod upload;
mod watch;
mod worker;

pub use error::Error;
pub use generator::Generator;
pub use memory::peak_memory_bytes;
pub use options::{InvalidOptions, Options, StallLimits};
pub use progress::Meter;
pub use sink::MuxSink;
pub use worker::{Parts, Worker};
