//! Jobs in PostgreSQL: the store of a service whose parts run on several machines.
//!
//! **Clock.** All times are those of the database's clock, read within the statement that uses them; nobody sends a time.
//! Clocks of workers, APIs and schedulers may be as wrong as they like.
//!
//! **Transactions.** Isolation is `read committed`. A verb is one statement where one suffices, and what a statement
//! decides by stands in its `where`; otherwise it locks the job's row first and reads what it needs under the lock. So any
//! number of schedulers, APIs and workers may run at once, none of them the leader. A transaction that Postgres rolls back
//! for another's sake (deadlock, serialization) is done again a few times; one whose commit was not heard is an error that
//! leaves open what became of it, as [`Store`](clapboard_jobs::Store) says.
//!
//! **Waiting.** A verb waits [`Options::acquire_timeout`] for a connection and the server works
//! [`Options::statement_timeout`] on a statement; the sum of both is the longest that any verb takes, also where the server has
//! vanished without a word. A broken connection is
//! replaced by the next verb that needs one, so after an outage the store recovers by itself.
//!
//! **TLS** is as the URL's `sslmode` says, by rustls with the system's certificates.
//!
//! **Poolers.** Statements are prepared once per connection under a name. A pooler in *transaction* mode hands the next
//! transaction to another server connection, which has other statements under the same names, so it does *not* work: opening
//! the store then fails with `prepared statement "sqlx_s_1" already exists`, or a later verb does. A pooler in *session* mode
//! works, migrations included, if its pool is as large as those of all stores together: PgBouncer with
//! `pool_mode = session` and `ignore_startup_parameters = extra_float_digits`.
//!
//! Durability is the server's: with `synchronous_commit` off, or with a failover to a replica that lags behind, a job that
//! was acknowledged can be lost.
//!
//! Each family of verbs has its file; [`PostgresStore`] ties them to the trait.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod backlog;
mod bulk;
mod cancel;
mod checkpoint;
mod claim;
mod closing;
mod courier;
mod create;
mod delete;
mod deliveries;
mod endpoints;
mod error;
mod facts;
mod finish;
mod fleet;
mod garbage;
mod held;
mod inputs;
mod keys;
mod migrate;
mod open;
mod options;
mod previews;
mod progress;
mod read;
mod ready;
mod retention;
mod room;
mod rows;
mod store;
mod submissions;
mod sweep;
mod tenants;
#[cfg(test)]
mod tests;
mod url;

pub use error::{Missing, OpenError};
pub use facts::{Pooling, PostgresFacts};
pub use migrate::{Migrated, migrate};
pub use options::Options;
pub use store::{Connections, PostgresStore};
pub use url::{DatabaseUrl, InvalidUrl};
