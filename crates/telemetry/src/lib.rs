//! Log output: one line per event on standard error, as text for people or JSON for machines.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod logs;

pub use logs::{Error, LastLines, LogFormat, init};
