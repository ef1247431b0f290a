//! Hints about jobs that can be claimed.

use std::cmp::Ordering;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use clapboard_h3::Partition;

use crate::id::JobId;

/// Jobs that the same workers can run: those that need the same weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Queue {
    partition: Partition,
}

impl Queue {
    /// Returns the queue of a partition.
    pub const fn of(partition: Partition) -> Self {
        Self { partition }
    }

    /// Returns the weights that its jobs need.
    pub const fn partition(self) -> Partition {
        self.partition
    }

    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        self.partition.as_str()
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Ord for Queue {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl PartialOrd for Queue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Says that a job can probably be claimed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hint {
    /// Where it waits.
    pub queue: Queue,
    /// Its place in the order, fixed when it was made.
    pub rank: f64,
    /// The job.
    pub job: JobId,
}

/// Why a dispatcher could not answer. Nothing is lost: workers then claim from the store by the same order.
#[derive(Debug, thiserror::Error)]
#[error("could not reach the dispatcher while {doing}")]
pub struct DispatchError {
    /// What was being done.
    pub doing: &'static str,
    /// What went wrong.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// Hands out hints, lowest rank first.
///
/// It may lose hints (the scheduler's sweep pushes them again from [`Store::ready`](crate::Store::ready)), keep stale
/// ones (the claim then finds nothing) and may be pushed the same hint any number of times (it keeps one per job and
/// queue, with the rank pushed last). Nothing that must be right depends on it.
#[async_trait]
pub trait Dispatch: Send + Sync {
    /// Adds hints; one that is already there is not doubled.
    async fn push(&self, hints: &[Hint]) -> Result<(), DispatchError>;

    /// Takes the hint with the lowest rank out of the first of `queues` that has one, waiting at most `wait` for one
    /// to come; equal ranks in the order of their ids.
    ///
    /// A call that is dropped while it waits takes nothing.
    async fn pop(&self, queues: &[Queue], wait: Duration) -> Result<Option<Hint>, DispatchError>;

    /// Returns how many hints wait in the queue.
    async fn len(&self, queue: Queue) -> Result<u64, DispatchError>;
}
