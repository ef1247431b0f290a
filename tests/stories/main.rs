//! Stories of the whole system, told through the real binary over tiny checkpoints.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod bad_input;
mod checkpoint;
mod create;
mod delete;
mod distributed;
mod generate;
mod keys;
mod plan;
mod references;
mod restart;
mod startup;
mod support;
mod telemetry;
mod verify;
mod webhooks;
