//! Jobs in a SQLite file: the store of a standalone service.
//!
//! The file is in WAL mode, so readers never wait for the writer. There is one writing connection, and every write
//! begins with `begin immediate`: a transaction that read first and then wanted to write would be refused at once
//! whenever another process wrote in between, however long the busy time-out is. Commits are synchronous in full,
//! since in WAL mode the level below would let a committed job vanish when the power fails; a job exists once its
//! client has its id. The price is one fsync for each write, of which a running job makes one every few seconds.
//!
//! SQLite has no clock of its own, so the store's clock is given to it: the machine's in a service, one set by hand in tests.
//!
//! Each family of verbs has its file; [`SqliteStore`] ties them to the trait.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod attempts;
mod backlog;
mod cancel;
mod checkpoints;
mod claim;
mod closing;
mod courier;
mod create;
mod delete;
mod deliveries;
mod endpoints;
mod error;
mod finish;
mod fleet;
mod heads;
mod held;
mod identity;
mod keys;
mod lists;
mod objects;
mod open;
mod outbox;
mod pauses;
mod previews;
mod progress;
mod read;
mod retention;
mod room;
mod rows;
mod store;
mod submissions;
mod sweep;
mod tenants;
#[cfg(test)]
mod tests;
mod usage;

pub use error::OpenError;
pub use store::SqliteStore;
