//! Hints about jobs that can be claimed.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use clapboard_h3::Partition;

use crate::capacity::CapacityClass;
use crate::id::JobId;

/// Jobs that the same workers can run: those that need the same weights and as much room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Queue {
    partition: Partition,
    capacity: CapacityClass,
}

impl Queue {
    /// Returns the queue of a partition's jobs of one capacity class.
    pub const fn of(partition: Partition, capacity: CapacityClass) -> Self {
        Self { partition, capacity }
    }

    /// Returns the weights that its jobs need.
    pub const fn partition(self) -> Partition {
        self.partition
    }

    /// Returns the room that its jobs need.
    pub const fn capacity(self) -> CapacityClass {
        self.capacity
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.partition, self.capacity)
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
/// queue, with the rank pushed last). It keeps a bounded window of hints per queue, those of the lowest ranks, so that a
/// million waiting jobs cost it nothing. Nothing that must be right depends on it.
#[async_trait]
pub trait Dispatch: Send + Sync {
    /// Adds hints and returns how many were not there before; one that is already there is not doubled. Where a queue has more
    /// than its window holds, those of the highest ranks are dropped.
    async fn push(&self, hints: &[Hint]) -> Result<usize, DispatchError>;

    /// Takes the hint with the lowest rank out of all `queues`, waiting at most `wait` for one to come; equal ranks in
    /// the order of their ids.
    ///
    /// A call that is dropped while it waits takes nothing.
    async fn pop(&self, queues: &[Queue], wait: Duration) -> Result<Option<Hint>, DispatchError>;

    /// Returns how many hints wait in the queue.
    async fn len(&self, queue: Queue) -> Result<u64, DispatchError>;
}
