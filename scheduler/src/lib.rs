//! What happens to jobs by the passing of time: leader-free sweeps, of which any number of replicas may run.
//!
//! Each sweep is a repair: it looks at the truth in the store and brings something back in line with it, so it may run at
//! any time, any number of times, beside any other. [`Refill`] pushes hints for what can be claimed; [`Reaper`] takes
//! back jobs whose leases have ended; [`Deadlines`] fails those that did not begin in time; [`Retention`] gives up results
//! and records that were kept long enough; [`Garbage`] deletes objects that no row names any more; [`Orphans`] finds
//! objects that no row ever knew; [`Depths`] measures how much waits. [`Scheduler`] runs them all, each when something falls due and at least every interval.
//!
//! Beside them runs the [`Courier`], which tells receivers of webhooks how jobs have ended.
//!
//! What is away is tried again after a growing rest, and replicas rest for times that differ.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod boot;
mod courier;
mod deadlines;
mod depths;
mod error;
mod garbage;
mod options;
mod orphans;
mod reaper;
mod refill;
mod removal;
mod rest;
mod retention;
mod scheduler;
mod sweep;

pub use boot::take_back_from_dead;
pub use courier::Courier;
pub use deadlines::Deadlines;
pub use depths::Depths;
pub use error::Error;
pub use garbage::Garbage;
pub use options::{InvalidOptions, Options};
pub use orphans::Orphans;
pub use reaper::Reaper;
pub use refill::Refill;
pub use retention::Retention;
pub use scheduler::{Parts, Scheduler};
pub use sweep::{Sweep, Swept};
