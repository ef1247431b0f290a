//! Hints in the memory of one process.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use clapboard_jobs::{Dispatch, DispatchError, Hint, JobId, Queue};
use tokio::sync::Notify;
use tokio::time::Instant;

/// A sorted set of hints for each queue, with a doorbell.
///
/// It starts empty with its process: the scheduler's first sweep fills it. A full queue lets go of its highest ranks,
/// which the sweeps push again once there is room.
#[derive(Debug)]
pub struct MemoryDispatch {
    /// How many hints a queue keeps. Those of jobs that were deleted stay until they are popped, so without a bound
    /// they would add up behind a job that runs for hours.
    window: usize,
    queues: Mutex<HashMap<Queue, SortedHints>>,
    /// Rings for everybody at each push: which of the waiting wants which queue is for them to find out.
    pushed: Notify,
}

impl MemoryDispatch {
    /// Makes an empty dispatcher that keeps `window` hints per queue.
    pub fn new(window: usize) -> Self {
        Self { window, queues: Mutex::default(), pushed: Notify::new() }
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<Queue, SortedHints>> {
        // A panic elsewhere cannot leave hints that matter half written: the next sweep repairs any of them.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pop_now(&self, wanted: &[Queue]) -> Option<Hint> {
        let mut queues = self.queues();
        let first = |&queue: &Queue| Some((queues.get(&queue)?.order.first().copied()?, queue));
        let (_, queue) = wanted.iter().filter_map(first).min_by_key(|&(first, _)| first)?;
        let (rank, job) = queues.get_mut(&queue)?.pop_first()?;
        Some(Hint { queue, rank, job })
    }
}

#[async_trait]
impl Dispatch for MemoryDispatch {
    async fn push(&self, hints: &[Hint]) -> Result<(), DispatchError> {
        if hints.is_empty() {
            return Ok(());
        }
        {
            let mut queues = self.queues();
            for hint in hints {
                queues.entry(hint.queue).or_default().insert(hint.rank, hint.job, self.window);
            }
        }
        self.pushed.notify_waiters();
        Ok(())
    }

    async fn pop(&self, queues: &[Queue], wait: Duration) -> Result<Option<Hint>, DispatchError> {
        let deadline = Instant::now() + wait;
        loop {
            let rung = self.pushed.notified();
            tokio::pin!(rung);
            // Listening begins before looking, so that a push in between is heard.
            rung.as_mut().enable();
            if let Some(hint) = self.pop_now(queues) {
                return Ok(Some(hint));
            }
            if tokio::time::timeout_at(deadline, rung).await.is_err() {
                return Ok(None);
            }
        }
    }

    async fn len(&self, queue: Queue) -> Result<u64, DispatchError> {
        Ok(self.queues().get(&queue).map_or(0, |hints| hints.order.len() as u64))
    }
}

/// Jobs in the order of their ranks, each at most once.
#[derive(Debug, Default)]
struct SortedHints {
    order: BTreeSet<(Rank, JobId)>,
    ranks: HashMap<JobId, Rank>,
}

impl SortedHints {
    fn insert(&mut self, rank: f64, job: JobId, window: usize) {
        if let Some(old) = self.ranks.insert(job, Rank(rank)) {
            self.order.remove(&(old, job));
        }
        self.order.insert((Rank(rank), job));
        if self.order.len() > window
            && let Some((_, last)) = self.order.pop_last()
        {
            self.ranks.remove(&last);
        }
    }

    fn pop_first(&mut self) -> Option<(f64, JobId)> {
        let (rank, job) = self.order.pop_first()?;
        self.ranks.remove(&job);
        Some((rank.0, job))
    }
}

/// A rank with a total order.
#[derive(Debug, Clone, Copy)]
struct Rank(f64);

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Rank {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Rank {}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use clapboard_jobs::conformance::dispatch::WINDOW;

    use super::*;

    #[test]
    fn a_full_queue_forgets_what_it_drops() {
        let mut hints = SortedHints::default();
        for rank in (0..110).rev() {
            hints.insert(f64::from(rank), JobId::new(), 100);
        }
        assert_eq!((hints.order.len(), hints.ranks.len()), (100, 100));
        while hints.pop_first().is_some() {}
        assert!(hints.ranks.is_empty());
    }

    clapboard_jobs::dispatch_conformance!(async { (Arc::new(MemoryDispatch::new(WINDOW)) as Arc<dyn Dispatch>, ()) });
}
