//! What a job is, and what its store, its dispatcher and its media store must do.
//!
//! A job is a row. It exists from the moment its row is committed, it is worked on by whoever holds its [`Lease`],
//! and it ends exactly once. Everything that may change a job goes through one verb of [`Store`], each a whole
//! transaction; [`Dispatch`] carries hints that may be lost, doubled or stale; [`Blob`] keeps immutable objects, and
//! the objects it keeps are those that some row names.
//!
//! Two ideas carry the crate. The *fence* is a number that every claim raises and nothing lowers; together with the
//! random *claim token* it is in the `where` clause of every write that follows a claim, so that a worker which lost
//! its lease can change nothing ([`lease`]). The *transition function* [`JobState::on`] is the one place that says
//! which state follows which; the tables check the same law.
//!
//! The `conformance` feature holds one suite per trait, which each implementation's tests run whole, and the `fixtures`
//! that the tests of several crates share.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

pub mod attempt;
pub mod backlog;
pub mod backoff;
pub mod blob;
mod capacity;
mod causes;
mod checkpoint;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod dispatch;
#[cfg(feature = "conformance")]
pub mod fixtures;
mod fleet;
mod id;
mod job;
mod keyring;
pub mod lease;
mod metadata;
mod outbox;
mod outcome;
pub mod policy;
mod preview;
mod progress;
pub mod rank;
mod rate;
pub mod rows;
mod spec;
mod state;
pub mod store;
mod submission;
pub mod tally;
mod tenant;
mod time;
mod trace;
mod usage;

pub use attempt::{Attempt, AttemptEnd};
pub use backlog::Backlog;
pub use blob::{Blob, BlobError, BlobKey};
pub use capacity::CapacityClass;
pub use causes::Causes;
pub use checkpoint::{Checkpoint, Fingerprint};
pub use dispatch::{Dispatch, DispatchError, Hint, Queue};
pub use fleet::{Orders, WorkerCard, WorkerRecord, WorkerState};
pub use id::{ClaimToken, Fence, InvalidId, JobId, Tenant, WorkerId};
pub use job::{Job, NewJob, Told};
pub use keyring::{ApiKey, ApiKeyId, Grant, Keyring, Scope};
pub use lease::{Beat, Claimant, Claimed, Lease, LeaseError};
pub use metadata::{InvalidMetadata, Metadata};
pub use outbox::{
    Aftermath, Attempted, Delivery, DeliveryId, DeliveryPage, DeliveryQuery, DeliveryState, Due, Effect, Endpoint,
    EndpointChange, EndpointId, Fate, InvalidSecret, JobHook, MAX_ENDPOINTS, MAX_TRIES, Notice, Outbox, Receiver,
    Secret, Tried, after_failure, reasons,
};
pub use outcome::{ErrorClass, FailureCode, HandBack, JobError, Outcome, ResultObject, RunReport};
pub use policy::Policy;
pub use preview::{Preview, PreviewKind};
pub use progress::{Phase, Progress};
pub use rank::Priority;
pub use rate::{Allowance, Limiter, Rate};
pub use spec::SpecRecord;
pub use state::{IllegalTransition, JobEvent, JobState, Status};
pub use store::{Cancelled, JobPage, ListQuery, Order, Store, StoreError};
pub use submission::{Resend, Submission};
pub use tally::{Again, Tally, Verdict};
pub use tenant::{InvalidWeight, KeyHash, TenantLimits, Weight};
pub use time::{Clock, Micros, SystemClock};
pub use trace::{InvalidTraceParent, TraceParent};
pub use usage::Usage;
