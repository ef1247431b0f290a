//! Comparing every stage of the engine with golden tensors that the reference implementation made.
//!
//! A golden folder holds the recipe of its weights, the requests, and the tensors of each case. [`run`] writes the
//! folder's checkpoint in both released layouts, runs every case through the real engine, and compares stage by stage
//! under the tolerances of [`tolerance`]. Cases and halves of cases whose task is not built count as unbuilt; a golden
//! tensor that no stage reached is a failure.

mod cases;
mod compare;
mod components;
mod golden;
mod report;
mod requests;
mod t2va;
mod tables;
mod tapped;
pub mod tolerance;

pub use cases::{Options, run};
pub use golden::Error;
pub use report::{Line, Outcome, Summary};
