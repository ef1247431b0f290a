//! The thread that speaks for the worker while its engine is busy.
//!
//! It has its own small runtime and its own connection to the job store, opened and used on this thread alone, so that
//! neither the engine nor a busy server nor a crowded pool keeps it from beating. Over it go the beats of every held
//! [lease](keeper), what the worker [says about itself](announcer), and the job of a wedged engine back to the store.
//!
//! All leases of a worker share that one connection. Calls take [turns]: the lease that ends soonest goes first, one whose
//! last call was not answered after the others, and what the worker says about itself last. Each call has a time limit, a
//! third of what a renewed lease has left and ten seconds at most, so a beat that is slow or hangs (another transaction
//! holds its row, say) delays the others by that much and loses no lease but its own. A server that answers nobody is what
//! the fence is for.
//!
//! Nothing else on this thread waits, so what it logs has to go to a subscriber that does not wait for its reader.

pub(crate) mod announcer;
mod keeper;
pub(crate) mod turns;

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use clapboard_jobs::{Beat, Causes, Lease, LeaseError, Progress, Store, StoreError, WorkerId};
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use announcer::Announcer;
use keeper::Keeper;
use turns::Turns;

use crate::attempt::ending::Written;
use crate::options::Options;
use crate::progress::watch::Watch;

/// How far off what has no lease counts as due: later than the end of any.
pub(crate) const NOT_PRESSED: Duration = Duration::from_secs(24 * 3600);

/// How long a worker that ends waits for the store to forget it.
const RETIRE_PATIENCE: Duration = Duration::from_secs(3);

/// The heartbeat's thread; it ends when this is dropped.
pub(crate) struct Heartbeat {
    store: Arc<dyn Store>,
    turns: Arc<Turns>,
    runtime: Handle,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

/// A lease that is being kept.
pub(crate) struct Kept(tokio::task::JoinHandle<Option<Written>>);

impl Kept {
    /// Waits until the job of a wedged engine has been given back, and tells what became of that.
    pub(crate) async fn given_back(&mut self) -> Written {
        match (&mut self.0).await {
            Ok(written) => written.unwrap_or(Written::Lost),
            Err(error) => {
                tracing::error!(%error, "the keeper of a lease failed");
                Written::Unknown
            }
        }
    }
}

impl Heartbeat {
    /// Starts the thread, which alone uses `store` from now on, for leases as the options say.
    ///
    /// Errors: what the system said.
    pub(crate) fn start(store: Arc<dyn Store>, options: &Options) -> io::Result<Self> {
        let turns = Turns::new(options.lease, options.fence_margin);
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let thread = thread::Builder::new().name("heartbeat".to_owned()).spawn(move || {
            runtime.block_on(stopped.cancelled());
        })?;
        Ok(Self { store, turns, runtime: handle, stop, thread: Some(thread) })
    }

    /// Who uses the connection next, and how that goes.
    pub(crate) fn turns(&self) -> Arc<Turns> {
        Arc::clone(&self.turns)
    }

    /// Keeps the lease until the attempt is over.
    pub(crate) fn keep(&self, lease: Lease, watch: Arc<Watch>, options: &Options) -> Kept {
        let keeper = Keeper::new(Arc::clone(&self.store), Arc::clone(&self.turns), lease, watch, options);
        Kept(self.runtime.spawn(keeper.run().in_current_span()))
    }

    /// Beats once, and returns a moment before that from which the renewed lease counts.
    ///
    /// Errors: what [`Store::beat`] says; a store that does not answer is one that cannot be reached.
    pub(crate) async fn beat(&self, lease: Lease, progress: Progress) -> Result<(Beat, Instant), LeaseError> {
        let (store, turns) = (Arc::clone(&self.store), Arc::clone(&self.turns));
        let beat = async move {
            // Nobody knows how soon the lease of a dead process ends: at once, for all that is known.
            let answer = turns.call(Instant::now(), async {
                let sent = Instant::now();
                store.beat(&lease, &progress).await.map(|beat| (beat, sent))
            });
            answer.await.unwrap_or_else(|| Err(unheard("beating", io::Error::from(io::ErrorKind::TimedOut)).into()))
        };
        self.runtime.spawn(beat).await.unwrap_or_else(|failed: JoinError| Err(unheard("beating", failed).into()))
    }

    /// Says what the worker is doing from now on.
    pub(crate) fn announce(&self, announcer: Announcer) -> tokio::task::JoinHandle<()> {
        self.runtime.spawn(announcer.run(Arc::clone(&self.store), Arc::clone(&self.turns)))
    }

    /// Lets the store forget the worker.
    pub(crate) async fn retire(&self, worker: WorkerId) {
        let store = Arc::clone(&self.store);
        let retired = self.runtime.spawn(async move {
            let answer = tokio::time::timeout(RETIRE_PATIENCE, store.retire(worker)).await;
            answer.unwrap_or_else(|silence| Err(unheard("retiring a worker", silence)))
        });
        match retired.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(error = %Causes(&error), "could not retire, the worker will be forgotten"),
            Err(error) => tracing::error!(%error, "retiring failed"),
        }
    }
}

fn unheard(doing: &'static str, silence: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Unavailable { doing, source: silence.into() }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the heartbeat's thread had panicked");
        }
    }
}
