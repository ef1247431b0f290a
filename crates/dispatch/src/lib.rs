//! Dispatchers: how a worker hears of jobs without asking the store all the time.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod memory;

pub use memory::MemoryDispatch;
