//! Dispatchers: how a worker hears of jobs without asking the store all the time.
//!
//! [`MemoryDispatch`] is for a service of one process, [`RedisDispatch`] for any number of them. Both hold hints only:
//! nothing that must be right depends on either, and everything that they lose is pushed again by the scheduler.
//!
//! Beside them, in the same two places, requests are counted: [`MemoryLimiter`] and [`RedisLimiter`].

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod limiter;
mod memory;
mod redis;
mod room;

pub use limiter::MemoryLimiter;
pub use memory::MemoryDispatch;
pub use redis::{OpenError, RedisDispatch, RedisFacts, RedisLimiter, RedisOptions};
