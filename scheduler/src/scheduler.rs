//! Runs the sweeps.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use clapboard_jobs::{Blob, Causes, Dispatch, Store};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::courier::Courier;
use crate::deadlines::Deadlines;
use crate::depths::Depths;
use crate::error::Error;
use crate::garbage::Garbage;
use crate::options::{InvalidOptions, Options};
use crate::orphans::Orphans;
use crate::reaper::Reaper;
use crate::refill::Refill;
use crate::rest::{rest, retry, time, until_due};
use crate::retention::Retention;
use crate::sweep::{Sweep, Swept};

/// What the sweeps work with.
#[derive(Clone)]
pub struct Parts {
    /// The truth about jobs.
    pub store: Arc<dyn Store>,
    /// Where hints go.
    pub dispatch: Arc<dyn Dispatch>,
    /// Where results lie.
    pub blob: Arc<dyn Blob>,
}

/// Runs every sweep on its own, each at once, then when something falls due and at least every interval, and the courier
/// beside them.
pub struct Scheduler {
    store: Arc<dyn Store>,
    sweeps: Vec<Arc<dyn Sweep>>,
    courier: Courier,
}

impl Scheduler {
    /// Makes the scheduler with all its sweeps.
    ///
    /// Errors: [`InvalidOptions`].
    pub fn new(parts: &Parts, options: Options) -> Result<Self, InvalidOptions> {
        let options = options.validated()?;
        let courier = Courier::new(Arc::clone(&parts.store), &options);
        Ok(Self { store: Arc::clone(&parts.store), sweeps: register(parts, &options), courier })
    }

    /// Sweeps and delivers until `shutdown`, and for at most [`Options::webhook_drain`] after it as long as the webhooks that
    /// are being sent take to end. What takes longer is cut off, and sent again under the same id by whoever delivers next.
    pub async fn run(self, shutdown: CancellationToken) {
        let Self { store, sweeps, courier } = self;
        tokio::join!(sweep(sweeps, store, shutdown.clone()), courier.run(shutdown));
    }
}

/// Runs the sweeps until `shutdown`.
async fn sweep(all: Vec<Arc<dyn Sweep>>, store: Arc<dyn Store>, shutdown: CancellationToken) {
    let mut running = JoinSet::new();
    let mut sweeps = HashMap::new();
    for sweep in all {
        let task = running.spawn(keep(Arc::clone(&sweep), Arc::clone(&store), shutdown.clone(), Duration::ZERO));
        sweeps.insert(task.id(), sweep);
    }
    while let Some(ended) = running.join_next().await {
        let Err(error) = ended else { continue };
        let Some(sweep) = sweeps.remove(&error.id()) else { continue };
        tracing::error!(%error, sweep = sweep.name(), "a sweep has panicked, and goes on after its interval");
        let pause = sweep.interval();
        let task = running.spawn(keep(Arc::clone(&sweep), Arc::clone(&store), shutdown.clone(), pause));
        sweeps.insert(task.id(), sweep);
    }
}

/// Every sweep there is.
fn register(parts: &Parts, options: &Options) -> Vec<Arc<dyn Sweep>> {
    let Parts { store, dispatch, blob } = parts;
    vec![
        Arc::new(Refill::new(Arc::clone(store), Arc::clone(dispatch), options)),
        Arc::new(Reaper::new(Arc::clone(store), Arc::clone(dispatch), options)),
        Arc::new(Deadlines::new(Arc::clone(store), options)),
        Arc::new(Retention::new(Arc::clone(store), options)),
        Arc::new(Garbage::new(Arc::clone(store), Arc::clone(blob), options)),
        Arc::new(Depths::new(Arc::clone(store))),
        Arc::new(Orphans::new(Arc::clone(store), Arc::clone(blob), options)),
    ]
}

/// Sweeps again and again after a pause, until `shutdown`.
async fn keep(sweep: Arc<dyn Sweep>, store: Arc<dyn Store>, shutdown: CancellationToken, pause: Duration) {
    let sweeping = async {
        tokio::time::sleep(pause).await;
        repeat(&*sweep, &*store).await;
    };
    tokio::select! {
        biased;
        () = shutdown.cancelled() => {}
        () = sweeping => {}
    }
}

async fn repeat(sweep: &dyn Sweep, store: &dyn Store) {
    let name = sweep.name();
    let mut failures = 0u32;
    loop {
        let wait = match once(sweep, store).await {
            Ok(wait) => {
                if failures > 0 {
                    tracing::info!(sweep = name, failures, "a sweep works again");
                }
                failures = 0;
                wait
            }
            Err(error) => {
                failures = failures.saturating_add(1);
                // One line when it begins: what is away for an hour is not news every two seconds.
                if failures == 1 {
                    tracing::warn!(error = %Causes(&error), sweep = name, "a sweep failed, and is tried until it works");
                } else {
                    tracing::debug!(error = %Causes(&error), sweep = name, failures, "a sweep failed again");
                }
                Some(retry(sweep, &error, failures))
            }
        };
        if let Some(wait) = wait {
            tokio::time::sleep(wait).await;
        }
    }
}

/// Sweeps and returns how long to rest; none when there is more to do.
async fn once(sweep: &dyn Sweep, store: &dyn Store) -> Result<Option<Duration>, Error> {
    // The time from before the work, so that nothing can fall due unseen during it.
    let before = if sweep.when_due() { time(store).await } else { None };
    let Swept { done, more } = sweep.sweep_once().await?;
    if done > 0 {
        tracing::debug!(sweep = sweep.name(), done, "swept");
    }
    if more {
        return Ok(None);
    }
    let until_due = match before {
        Some(before) => until_due(store, before).await,
        None => None,
    };
    Ok(Some(rest(until_due, sweep.interval())))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use async_trait::async_trait;
    use clapboard_jobs::{Policy, SystemClock};
    use clapboard_store_sqlite::SqliteStore;

    use super::*;

    /// Panics at its first run, and tells the shutdown of its second.
    struct Stumbling {
        runs: AtomicU32,
        done: CancellationToken,
    }

    #[async_trait]
    impl Sweep for Stumbling {
        fn name(&self) -> &'static str {
            "stumbling"
        }

        fn interval(&self) -> Duration {
            Options::LEAST_INTERVAL
        }

        fn when_due(&self) -> bool {
            false
        }

        async fn sweep_once(&self) -> Result<Swept, Error> {
            assert!(self.runs.fetch_add(1, Ordering::SeqCst) > 0, "as the test says");
            self.done.cancel();
            Ok(Swept { done: 0, more: false })
        }
    }

    #[tokio::test]
    async fn a_sweep_that_panicked_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.sqlite");
        let store = SqliteStore::open(&file, Policy::default(), Arc::new(SystemClock)).await.unwrap();
        let done = CancellationToken::new();
        let sweep = Stumbling { runs: AtomicU32::new(0), done: done.clone() };
        let store: Arc<dyn Store> = Arc::new(store);
        let courier = Courier::new(Arc::clone(&store), &Options::default());
        let scheduler = Scheduler { store, sweeps: vec![Arc::new(sweep)], courier };
        scheduler.run(done.clone()).await;
        assert!(done.is_cancelled());
    }
}
