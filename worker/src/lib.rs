//! Runs jobs: claim, prepare, generate, encode, store, complete.
//!
//! A [`Worker`] holds one engine. For each claim it makes an attempt: the media that the job starts from are fetched and
//! decoded, the engine decodes its result straight into ffmpeg ([`MuxSink`]), the finished file goes into the media store under the claim's own key, and one write to the job store
//! makes it the job's result. At most one attempt has the engine, at most one waits for it (claimed ahead when the running
//! one is predicted to end soon), and a few finish their videos beside it, so that the engine does not idle while a video
//! is encoded and stored. Whatever ends an attempt early, its scratch folder is removed.
//!
//! Every so often the engine's state is stored, so that an attempt anywhere can go on where this one was lost. A finished
//! video lies on the scratch disk with its claim, so that a restarted worker can still store it.
//!
//! What keeps the lease is not in the engine's way: heartbeats come from a thread of their own. They carry progress up
//! and cancels down, they end when the engine stops moving, and they stop the engine when they cannot get through
//! before the lease could be given away.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod attempt;
mod claims;
mod error;
mod generator;
mod heartbeat;
mod inputs;
mod liveness;
mod machine;
mod options;
mod progress;
mod resume;
mod retry;
mod scratch;
mod shared;
mod video;
mod worker;

pub use error::Error;
pub use generator::Generator;
pub use liveness::{Liveness, Stuck};
pub use machine::media_store::try_media_store;
pub use machine::memory::peak_memory_bytes;
pub use options::{DrainMode, InvalidOptions, Options, StallLimits};
pub use progress::meter::Meter;
pub use scratch::work_folder;
pub use video::sink::MuxSink;
pub use worker::{Drained, Parts, Worker};
