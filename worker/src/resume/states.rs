//! Storing the states that a job can be gone on from, beside the engine and never in its way.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clapboard_engine::{CheckpointSink, DenoiseCheckpoint};
use clapboard_jobs::{Blob, BlobError, Causes, Checkpoint, Fingerprint, Lease, LeaseError, Store};
use tokio::sync::Notify;

use crate::progress::pulse::Pulse;
use crate::progress::watch::Watch;
use crate::retry::Waits;

/// The newest state that is not stored yet: the engine puts it here, and replaces one that was not fetched in time.
#[derive(Debug, Default)]
pub(crate) struct StateSlot {
    held: Mutex<Held>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Held {
    newest: Option<DenoiseCheckpoint>,
    closed: bool,
}

impl StateSlot {
    fn held(&self) -> MutexGuard<'_, Held> {
        // Single assignments leave nothing half done.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, state: DenoiseCheckpoint) {
        self.held().newest = Some(state);
        self.changed.notify_one();
    }

    /// No state comes any more; the last one can still be fetched.
    pub(crate) fn close(&self) {
        self.held().closed = true;
        self.changed.notify_one();
    }

    fn is_closed(&self) -> bool {
        self.held().closed
    }

    fn has_newer(&self) -> bool {
        self.held().newest.is_some()
    }

    /// Waits for a state and takes it; none when no more comes.
    async fn next(&self) -> Option<DenoiseCheckpoint> {
        loop {
            {
                let mut held = self.held();
                if let Some(state) = held.newest.take() {
                    return Some(state);
                }
                if held.closed {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }
}

/// The engine's side: wants a state every so often.
#[derive(Debug)]
pub(crate) struct StateSink {
    slot: Arc<StateSlot>,
    interval: Option<Duration>,
    due: Instant,
    /// States up to this step are stored already.
    known: usize,
}

impl StateSink {
    /// Wants the first state after `interval`, and none of the first `known` steps.
    pub(crate) fn new(slot: Arc<StateSlot>, interval: Option<Duration>, known: usize) -> Self {
        let due = Instant::now() + interval.unwrap_or_default();
        Self { slot, interval, due, known }
    }
}

impl CheckpointSink for StateSink {
    fn wants(&mut self, step: usize, _total: usize) -> bool {
        let Some(interval) = self.interval else { return false };
        let now = Instant::now();
        if step <= self.known || now < self.due {
            return false;
        }
        self.due = now + interval;
        true
    }

    fn keep(&mut self, checkpoint: DenoiseCheckpoint) {
        if checkpoint.step > self.known {
            self.known = checkpoint.step;
            self.slot.put(checkpoint);
        }
    }
}

/// Why a state was not stored.
#[derive(Debug, thiserror::Error)]
enum StateError {
    #[error("could not write the state to the scratch folder")]
    Write(#[source] io::Error),
    #[error(transparent)]
    Blob(#[from] BlobError),
    #[error(transparent)]
    Lease(#[from] LeaseError),
    #[error("nothing of the state has moved for {0:?}")]
    Stalled(Duration),
}

impl StateError {
    fn is_lost(&self) -> bool {
        matches!(self, Self::Lease(LeaseError::Lost { .. } | LeaseError::ForeignObject { .. }))
    }
}

/// Stores the states of one attempt.
pub(crate) struct StateKeeper {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) blob: Arc<dyn Blob>,
    pub(crate) lease: Lease,
    /// The attempt's folder.
    pub(crate) folder: PathBuf,
    pub(crate) fingerprint: Fingerprint,
    /// How long the storing of a state may go on without a byte that moves.
    pub(crate) patience: Duration,
    pub(crate) watch: Arc<Watch>,
}

impl StateKeeper {
    /// Stores one state after another, the newest first, until no more comes or the lease is lost.
    ///
    /// A state that cannot be stored is tried again until there is a newer one. A failure is only told: the job is worth
    /// more than what would make its next attempt shorter.
    pub(crate) async fn run(&self, slot: &StateSlot) {
        while let Some(state) = slot.next().await {
            let step = state.step;
            let mut waits = Waits::default();
            while let Err(error) = self.store(&state, slot).await {
                if error.is_lost() {
                    return;
                }
                let wait = waits.next();
                tracing::warn!(error = %Causes(&error), step, ?wait, "could not store the state");
                tokio::time::sleep(wait).await;
                if slot.has_newer() {
                    break;
                }
            }
        }
    }

    /// Stores one state, however slowly, as long as it moves.
    async fn store(&self, state: &DenoiseCheckpoint, slot: &StateSlot) -> Result<(), StateError> {
        let since = Instant::now();
        let pulse = Pulse::default();
        let moved = || {
            pulse.beat();
            // As long as the engine runs, its own signs of life alone count: a state that moves says nothing about it.
            if slot.is_closed() {
                self.watch.touch();
            }
        };
        tokio::select! {
            biased;
            stored = self.store_patiently(state, &moved) => stored?,
            () = pulse.stops(self.patience) => return Err(StateError::Stalled(self.patience)),
        }
        let duration_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(step = state.step, size_bytes = state.bytes.len(), duration_ms, "stored the state");
        Ok(())
    }

    async fn store_patiently(
        &self,
        state: &DenoiseCheckpoint,
        moved: &(dyn Fn() + Send + Sync),
    ) -> Result<(), StateError> {
        let step = u32::try_from(state.step).unwrap_or(u32::MAX);
        self.store.expect_checkpoint(&self.lease, step).await?;
        let file = self.folder.join("state.safetensors");
        tokio::fs::write(&file, &state.bytes).await.map_err(StateError::Write)?;
        let key = self.lease.checkpoint_key(step);
        let put = self.blob.put_file(&key, &file, moved).await;
        remove(&file).await;
        let put = put?;
        let fingerprint = self.fingerprint.clone();
        let checkpoint = Checkpoint { key, step, size_bytes: put.size_bytes, sha256: put.sha256, fingerprint };
        Ok(self.store.keep_checkpoint(&self.lease, &checkpoint).await?)
    }
}

/// Removes the file at once, so that it does not lie beside the video; the folder's end would remove it as well.
async fn remove(file: &Path) {
    if let Err(error) = tokio::fs::remove_file(file).await {
        tracing::warn!(%error, "could not remove a stored state from the scratch folder");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(step: usize) -> DenoiseCheckpoint {
        DenoiseCheckpoint { step, bytes: vec![1, 2, 3] }
    }

    #[test]
    fn a_state_is_wanted_once_per_interval_and_never_one_that_is_known() {
        let slot = Arc::new(StateSlot::default());
        let mut sink = StateSink::new(Arc::clone(&slot), Some(Duration::from_secs(3600)), 3);
        assert!(!sink.wants(4, 9));
        sink.due = Instant::now();
        assert!(!sink.wants(3, 9));
        assert!(sink.wants(4, 9));
        assert!(!sink.wants(5, 9));
        sink.keep(state(3));
        assert!(!slot.has_newer());
        let mut never = StateSink::new(slot, None, 0);
        assert!(!never.wants(1, 9));
    }

    #[tokio::test]
    async fn the_newest_state_replaces_one_that_was_not_fetched_and_outlives_the_close() {
        let slot = Arc::new(StateSlot::default());
        let mut sink = StateSink::new(Arc::clone(&slot), None, 0);
        sink.keep(state(1));
        sink.keep(state(2));
        slot.close();
        assert_eq!(slot.next().await, Some(state(2)));
        assert_eq!(slot.next().await, None);
    }
}
