//! Hints in the memory of one process.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use clapboard_jobs::{Dispatch, DispatchError, Hint, JobId, Queue};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::room;

/// A sorted set of hints for each queue, with a doorbell.
///
/// It starts empty with its process: the scheduler's first sweep fills it. A full queue lets go of its highest ranks,
/// which the sweeps push again once there is room.
#[derive(Debug, Clone)]
pub struct MemoryDispatch {
    shared: Arc<Shared>,
    is_for_new_jobs: bool,
}

#[derive(Debug)]
struct Shared {
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
        let shared = Shared { window, queues: Mutex::default(), pushed: Notify::new() };
        Self { shared: Arc::new(shared), is_for_new_jobs: false }
    }

    /// Returns a dispatcher of the same hints for whoever makes jobs, who does not know whether they may run: its pushes
    /// take up to half of a queue's window and push nothing out.
    pub fn for_new_jobs(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), is_for_new_jobs: true }
    }
}

impl Shared {
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
    async fn push(&self, hints: &[Hint]) -> Result<usize, DispatchError> {
        if hints.is_empty() {
            return Ok(0);
        }
        let window = self.shared.window;
        let mut added = 0;
        {
            let mut queues = self.shared.queues();
            for hint in hints {
                let queue = queues.entry(hint.queue).or_default();
                if !self.is_for_new_jobs || queue.order.len() < room::for_new_jobs(window) {
                    added += usize::from(queue.insert(hint.rank, hint.job, window));
                }
            }
        }
        self.shared.pushed.notify_waiters();
        Ok(added)
    }

    async fn pop(&self, queues: &[Queue], wait: Duration) -> Result<Option<Hint>, DispatchError> {
        let deadline = Instant::now() + wait;
        loop {
            let rung = self.shared.pushed.notified();
            tokio::pin!(rung);
            // Listening begins before looking, so that a push in between is heard.
            rung.as_mut().enable();
            if let Some(hint) = self.shared.pop_now(queues) {
                return Ok(Some(hint));
            }
            if tokio::time::timeout_at(deadline, rung).await.is_err() {
                return Ok(None);
            }
        }
    }

    async fn len(&self, queue: Queue) -> Result<u64, DispatchError> {
        Ok(self.shared.queues().get(&queue).map_or(0, |hints| hints.order.len() as u64))
    }
}

/// Jobs in the order of their ranks, each at most once.
#[derive(Debug, Default)]
struct SortedHints {
    order: BTreeSet<(Rank, JobId)>,
    ranks: HashMap<JobId, Rank>,
}

impl SortedHints {
    /// Adds a job, or moves it, and tells whether it was not there before.
    fn insert(&mut self, rank: f64, job: JobId, window: usize) -> bool {
        let old = self.ranks.insert(job, Rank(rank));
        if let Some(old) = old {
            self.order.remove(&(old, job));
        }
        self.order.insert((Rank(rank), job));
        if self.order.len() > window
            && let Some((_, last)) = self.order.pop_last()
        {
            self.ranks.remove(&last);
        }
        old.is_none()
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

    #[tokio::test]
    async fn new_jobs_leave_room_for_those_that_are_known_to_be_ready() {
        let all = MemoryDispatch::new(WINDOW);
        let new_jobs = all.for_new_jobs();
        let queue = Queue::of(clapboard_h3::Partition::Fl2va, clapboard_jobs::CapacityClass::SMALLEST);
        let hint = |rank: u32| Hint { queue, rank: f64::from(rank), job: JobId::new() };
        for rank in 0..500 {
            new_jobs.push(&[hint(rank)]).await.unwrap();
        }
        assert_eq!(new_jobs.len(queue).await.unwrap(), 50);
        let ready: Vec<Hint> = (1000..1050).map(hint).collect();
        all.push(&ready).await.unwrap();
        new_jobs.push(&[hint(0)]).await.unwrap();
        assert_eq!(all.len(queue).await.unwrap(), 100);
        let mut left = Vec::new();
        while let Some(hint) = new_jobs.pop(&[queue], Duration::ZERO).await.unwrap() {
            left.push(hint);
        }
        assert_eq!(left[50..], ready);
    }

    clapboard_jobs::dispatch_conformance!(async { (Arc::new(MemoryDispatch::new(WINDOW)) as Arc<dyn Dispatch>, ()) });
}
