//! What a process tells about itself: log lines, metrics and traces.
//!
//! * **Logs**: one line per event on standard error, as text for people or JSON for machines ([`init`]).
//! * **Metrics**: every one of them is a constant of [`metrics`], so that rooms, tests and the page of documentation speak of the
//!   same. They are counted once [`metrics::install`] has been called, and cost next to nothing before.
//! * **Traces**: spans of [`traces`] follow a job from its request through the queue to its webhook. They have a target of their
//!   own and share nothing with log lines, so nothing that is logged can end up in a trace. They are made where an endpoint is
//!   given that takes them, and cost next to nothing otherwise.
//! * **[`Listener`]** shows the metrics, and whether the process is well.
//!
//! Nobody who logs, counts or traces ever waits for whoever reads: what cannot be delivered is lost and told of.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod error;
mod listener;
mod logs;
pub mod metrics;
pub mod traces;

pub use error::Error;
pub use listener::{Health, ListenError, Listener, Unwell};
pub use logs::{LastLines, LogFormat, Telemetry, init};
