//! Tells the store what the worker is doing, and hears what is asked of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clapboard_h3::Partition;
use clapboard_jobs::{Causes, Store, WorkerCard, WorkerState};
use clapboard_telemetry::metrics::names;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::heartbeat::NOT_PRESSED;
use crate::heartbeat::turns::Turns;

/// Says at once what has changed, and every few seconds that the worker is still there.
pub(crate) struct Announcer {
    /// What the worker says about itself; its state is that of `standing`, and its partitions are those of `serving`.
    pub(crate) card: WorkerCard,
    pub(crate) standing: watch::Receiver<WorkerState>,
    /// The partitions whose jobs are taken. A card has some: where none are left, it keeps those it had, and its state tells.
    pub(crate) serving: watch::Receiver<Vec<Partition>>,
    pub(crate) interval: Duration,
    /// Cancelled when somebody asks the worker to drain.
    pub(crate) ordered: CancellationToken,
}

impl Announcer {
    /// Goes on until the worker's standing or its partitions have no more source.
    pub(crate) async fn run(mut self, store: Arc<dyn Store>, turns: Arc<Turns>) {
        loop {
            self.card.state = *self.standing.borrow_and_update();
            let serving = self.serving.borrow_and_update().clone();
            if !serving.is_empty() {
                self.card.partitions = serving;
            }
            match turns.call(Instant::now() + NOT_PRESSED, store.announce(&self.card)).await {
                Some(Ok(orders)) => {
                    turns.heard();
                    if orders.drain {
                        self.ordered.cancel();
                    }
                }
                Some(Err(error)) => {
                    names::HEARTBEAT_FAILURES.increment([]);
                    tracing::warn!(error = %Causes(&error), "could not tell how the worker is doing");
                }
                None => {
                    names::HEARTBEAT_FAILURES.increment([]);
                    tracing::warn!("the store does not answer to how the worker is doing");
                }
            }
            tokio::select! {
                changed = self.standing.changed() => if changed.is_err() {
                    return;
                },
                changed = self.serving.changed() => if changed.is_err() {
                    return;
                },
                () = tokio::time::sleep(self.interval) => {}
            }
        }
    }
}
