//! The MiniMax-H3 engine: a checkpoint in, frames and samples out.
//!
//! The engine knows tensors and nothing of jobs, HTTP or SQL. Networks are written once against the operations in
//! [`ops`]; their weights come from a [`weights::WeightSource`].

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

pub mod activations;
pub mod audio_vae;
pub mod bench;
pub mod checkpoint;
pub mod dit;
pub mod ops;
pub mod parallel;
pub mod plan;
pub mod projection;
pub mod sampling;
pub mod text;
pub mod verify;
pub mod video_vae;
pub mod vision;
pub mod weights;

mod components;
mod conditions;
mod control;
mod denoise;
mod device;
mod engine;
mod files;
mod fingerprint;
mod generate;
mod handle;
mod hex;
mod host_memory;
mod load;
mod progress;
mod residency;
mod resume;
mod run;
mod sink;
mod staging;
mod tap;

pub use control::{Command, Control, Uninterrupted};
pub use device::{Device, NoSuchDevice};
pub use engine::{ComputeDtype, Engine, EngineConfig, MemoryBounds};
pub use generate::{GenerateError, GenerationReport, Request};
pub use handle::{Done, EngineHandle, Generation};
pub use load::{LoadError, Loading};
pub use progress::{Phase, Progress, ProgressEvent, Unwatched};
pub use residency::MemoryBudgets;
pub use resume::{CheckpointSink, Continuation, DenoiseCheckpoint, NoCheckpoints, ResumeError};
pub use run::{Run, RunError, Stop};
pub use sink::{FrameSink, MediaChunk, MediaFormat, SinkError};
pub use tap::{NoTap, Tap};
pub use weights::{Placement, ResidentLayers};
