//! Media stores: where finished videos lie.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod disk;
mod hash;

pub use disk::{DiskBlob, OpenError};
