//! Who is where: at most one attempt waits for the engine, one has it, and a few finish their videos.

use std::convert::Infallible;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clapboard_jobs::WorkerState;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

use crate::progress::watch::Watch;

/// How many attempts may encode and upload at once after the engine is done with them. Beyond that the engine waits: a
/// media store that is away must not fill the scratch disk.
pub(crate) const MOST_FINISHING: usize = 2;

/// The places of a worker's attempts, and what the worker is doing according to them.
#[derive(Debug)]
pub(crate) struct Pipeline {
    waiting: Arc<Semaphore>,
    engine: Arc<Semaphore>,
    finishing: Semaphore,
    at_engine: Mutex<Option<Arc<Watch>>>,
    changed: Notify,
    unwell: AtomicBool,
    draining: AtomicBool,
    standing: watch::Sender<WorkerState>,
}

impl Pipeline {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            waiting: Arc::new(Semaphore::new(1)),
            engine: Arc::new(Semaphore::new(1)),
            finishing: Semaphore::new(MOST_FINISHING),
            at_engine: Mutex::new(None),
            changed: Notify::new(),
            unwell: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            standing: watch::Sender::new(WorkerState::Idle),
        })
    }

    /// Tells whether nobody waits for the engine.
    pub(crate) fn has_place(&self) -> bool {
        self.waiting.available_permits() > 0
    }

    /// Takes the place of the attempt that waits for the engine; none when it is taken.
    pub(crate) fn place(self: &Arc<Self>) -> Option<Place> {
        let permit = Arc::clone(&self.waiting).try_acquire_owned().ok()?;
        self.restate();
        Some(Place { permit: Some(permit), pipeline: Arc::clone(self) })
    }

    /// Tells whether some attempt has the engine.
    pub(crate) fn is_engine_taken(&self) -> bool {
        self.engine.available_permits() == 0
    }

    /// Waits for the engine and takes it. A call that is dropped takes nothing.
    pub(crate) async fn take_engine(self: &Arc<Self>, watch: &Arc<Watch>) -> Seat {
        let permit = Arc::clone(&self.engine).acquire_owned().await.expect("the semaphore is never closed");
        *self.at_engine() = Some(Arc::clone(watch));
        self.restate();
        Seat { permit: Some(permit), pipeline: Arc::clone(self) }
    }

    /// Gives the engine to the next attempt as soon as one more may finish its video; to be dropped when this one is
    /// finished.
    pub(crate) async fn finish_beside(&self, seat: Option<Seat>) -> Infallible {
        let _slot = self.finishing.acquire().await.expect("the semaphore is never closed");
        drop(seat);
        pending().await
    }

    /// How long the attempt that has the engine is going to need it; none where that is unknown, as it is once a prediction
    /// has been wrong by more than `lateness`.
    pub(crate) fn engine_free_in(&self, lateness: Duration) -> Option<Duration> {
        self.at_engine().as_ref()?.remaining(Instant::now(), lateness)
    }

    /// Waits until a place has become free since the last call. For one listener.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Takes note whether this machine lacks what every job needs.
    pub(crate) fn set_unwell(&self, unwell: bool) {
        self.unwell.store(unwell, Ordering::Relaxed);
        self.restate();
    }

    /// Takes note that no job is claimed any more.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.restate();
    }

    /// Follows what the worker is doing.
    pub(crate) fn standing(&self) -> watch::Receiver<WorkerState> {
        self.standing.subscribe()
    }

    fn restate(&self) {
        let state = if self.draining.load(Ordering::Relaxed) {
            WorkerState::Draining
        } else if self.unwell.load(Ordering::Relaxed) {
            WorkerState::Unwell
        } else if self.is_engine_taken() || !self.has_place() {
            // One that makes a job's inputs ready takes no other, and nobody should leave one to it.
            WorkerState::Busy
        } else {
            WorkerState::Idle
        };
        self.standing.send_if_modified(|known| std::mem::replace(known, state) != state);
    }

    fn at_engine(&self) -> MutexGuard<'_, Option<Arc<Watch>>> {
        // A single assignment leaves nothing half done.
        self.at_engine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of the attempt that waits for the engine; free again when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    permit: Option<OwnedSemaphorePermit>,
    pipeline: Arc<Pipeline>,
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.permit.take());
        self.pipeline.restate();
        self.pipeline.changed.notify_one();
    }
}

/// The engine, for one attempt; free again when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    permit: Option<OwnedSemaphorePermit>,
    pipeline: Arc<Pipeline>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        *self.pipeline.at_engine() = None;
        drop(self.permit.take());
        self.pipeline.restate();
        self.pipeline.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use crate::options::StallLimits;

    use super::*;

    fn watch() -> Arc<Watch> {
        Arc::new(Watch::new(StallLimits::default(), Instant::now()))
    }

    #[tokio::test]
    async fn there_is_one_place_to_wait_and_one_engine() {
        let pipeline = Pipeline::new();
        let mut standing = pipeline.standing();
        let place = pipeline.place().unwrap();
        assert!(pipeline.place().is_none() && !pipeline.is_engine_taken());
        let seat = pipeline.take_engine(&watch()).await;
        drop(place);
        assert!(pipeline.has_place() && pipeline.is_engine_taken());
        assert_eq!(*standing.borrow_and_update(), WorkerState::Busy);
        drop(seat);
        pipeline.changed().await;
        assert!(!pipeline.is_engine_taken());
        assert_eq!(*standing.borrow_and_update(), WorkerState::Idle);
    }

    #[tokio::test]
    async fn a_worker_that_makes_a_job_ready_is_busy() {
        let pipeline = Pipeline::new();
        let standing = pipeline.standing();
        let place = pipeline.place().unwrap();
        assert_eq!(*standing.borrow(), WorkerState::Busy);
        drop(place);
        assert_eq!(*standing.borrow(), WorkerState::Idle);
    }

    #[tokio::test]
    async fn the_engine_is_given_on_only_while_few_finish() {
        let pipeline = Pipeline::new();
        let mut finishing = Vec::new();
        // Each takes the engine that the one before has given on; the last one does not find room to finish in.
        for _ in 0..=MOST_FINISHING {
            let seat = pipeline.take_engine(&watch()).await;
            let pipeline = Arc::clone(&pipeline);
            finishing.push(tokio::spawn(async move {
                pipeline.finish_beside(Some(seat)).await;
            }));
        }
        let soon = Duration::from_millis(50);
        tokio::time::timeout(soon, pipeline.take_engine(&watch())).await.unwrap_err();
        let first = finishing.remove(0);
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        pipeline.take_engine(&watch()).await;
    }
}
