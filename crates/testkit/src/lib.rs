//! The servers that tests start: real ones, on free ports of 127.0.0.1, gone with the test that started them.
//!
//! Everything here is synchronous and panics when it cannot do what it was asked, because a test without its server is
//! a failed test. Linux only; Postgres and Redis must be installed.
//!
//! A test that is killed (a time-out, an abort, `kill -9`) leaves neither servers nor files behind: beside each server
//! waits a small shell at the other end of a pipe from the test's process, and when that pipe closes, for whatever
//! reason, it ends the server and removes its folder. See the `watchdog` module.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod background;
mod port;
mod postgres;
mod process;
mod proxy;
mod redis;
mod s3;
mod server;
mod wait;
mod watchdog;

pub use port::free_port;
pub use postgres::Postgres;
pub use proxy::{FaultProxy, Mode};
pub use redis::Redis;
pub use s3::S3;
pub use wait::until;
