//! Comparing every stage of the engine with golden tensors that the reference implementation made.
//!
//! A golden folder holds the recipe of its weights, the requests, and the tensors of each case. [`run`] writes the
//! folder's checkpoint in both released layouts, runs every case through the real engine, and compares stage by stage
//! under the tolerances of [`tolerance`]. A golden tensor that no stage
//! reached is a failure; a file that no case names counts as unknown.

mod audio;
mod cases;
mod compare;
mod components;
mod golden;
mod operations;
mod prepared;
mod presentation;
mod report;
mod request;
mod requests;
mod tables;
mod tapped;
mod target;
mod text_frontend;
pub mod tolerance;
mod video_encoder;

pub use cases::{Options, run};
pub use compare::LevelDifferences;
pub use golden::Error;
pub use operations::{OperationOptions, run_operations};
pub use report::{Line, Outcome, Summary};
