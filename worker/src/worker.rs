//! The loop that claims jobs and works on them.

use std::sync::Arc;
use std::time::Instant;

use clapboard_jobs::{Blob, Causes, Claimant, Claimed, Dispatch, Queue, Store, StoreError};
use clapboard_media::Ffmpeg;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::error::Error;
use crate::execute::execute;
use crate::generator::Generator;
use crate::health::{self, Health, Pauses};
use crate::heartbeat::Heartbeat;
use crate::options::Options;
use crate::retry::{Waits, spread};
use crate::scratch;

/// What a worker works with.
#[derive(Clone)]
pub struct Parts {
    /// The truth about jobs.
    pub store: Arc<dyn Store>,
    /// Where hints come from.
    pub dispatch: Arc<dyn Dispatch>,
    /// Where results go.
    pub blob: Arc<dyn Blob>,
    /// What generates.
    pub generator: Arc<dyn Generator>,
    /// What encodes.
    pub ffmpeg: Ffmpeg,
}

/// Claims jobs that its engine can run, and runs them one after another.
pub struct Worker {
    parts: Parts,
    options: Options,
    claimant: Claimant,
    queues: Vec<Queue>,
}

impl Worker {
    /// Makes a worker, and clears its scratch folder of what dead attempts left. Blocks on the disk for a moment.
    ///
    /// Errors: [`Error::Options`], [`Error::Scratch`].
    pub fn new(parts: Parts, options: Options) -> Result<Self, Error> {
        let options = options.validated()?;
        scratch::prepare(&options.scratch)?;
        let partitions = parts.generator.profile().partitions.clone();
        let queues = partitions.iter().copied().map(Queue::of).collect();
        let claimant = Claimant::new(options.worker, partitions);
        Ok(Self { parts, options, claimant, queues })
    }

    /// Works until `shutdown`: then no job is claimed any more, and the running one is handed back uncounted.
    ///
    /// Errors: [`Error::Heartbeat`]; [`Error::Wedged`] when the engine hangs, after which the process has to end, since
    /// its thread cannot be taken back.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        let heartbeat = Heartbeat::start().map_err(Error::Heartbeat)?;
        tracing::info!(worker.id = %self.options.worker, queues = ?self.queue_names(), "the worker is ready");
        let mut waits = Waits::default();
        let mut pauses = Pauses::from(self.options.unwell_pause);
        while !shutdown.is_cancelled() {
            let error = match self.next_claim(&shutdown).await {
                Ok(Some((claimed, claimed_at))) => {
                    waits = Waits::default();
                    match self.attempt(&heartbeat, claimed, claimed_at, &shutdown).await? {
                        Health::Well => pauses.reset(),
                        Health::Unwell => self.recover(&mut pauses, &shutdown).await,
                    }
                    continue;
                }
                Ok(None) => continue,
                Err(error) => error,
            };
            let wait = waits.next();
            tracing::warn!(error = %Causes(&error), ?wait, "could not claim a job");
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
        tracing::info!(worker.id = %self.options.worker, "the worker has drained");
        Ok(())
    }

    fn queue_names(&self) -> Vec<&'static str> {
        self.queues.iter().map(|queue| queue.as_str()).collect()
    }

    /// Claims the job of the next hint, or the first one in the store's order when none comes in time.
    ///
    /// Only the wait for a hint is interrupted by a shutdown: a claim that was sent is heard, so that no job is held by
    /// nobody, unless the store is silent for longer than a drain may last.
    async fn next_claim(&self, shutdown: &CancellationToken) -> Result<Option<(Claimed, Instant)>, StoreError> {
        let wait = spread(self.options.poll_interval);
        let popped = tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(None),
            popped = self.parts.dispatch.pop(&self.queues, wait) => popped,
        };
        let hint = match popped {
            Ok(hint) => hint,
            Err(error) => {
                tracing::warn!(error = %Causes(&error), "no hints, asking the store itself");
                tokio::select! {
                    biased;
                    () = shutdown.cancelled() => return Ok(None),
                    () = tokio::time::sleep(wait) => None,
                }
            }
        };
        let claimed_at = Instant::now();
        let claim = async {
            match hint {
                Some(hint) => self.parts.store.claim(hint.job, &self.claimant).await,
                None => self.parts.store.claim_next(&self.claimant).await,
            }
        };
        let overdue = async {
            shutdown.cancelled().await;
            tokio::time::sleep(self.options.drain_timeout).await;
        };
        tokio::select! {
            biased;
            claimed = claim => Ok(claimed?.map(|claimed| (claimed, claimed_at))),
            () = overdue => {
                tracing::error!("the store has not answered a claim: what it may have claimed will be reclaimed");
                Ok(None)
            }
        }
    }

    /// Claims nothing until this machine has again what every job needs.
    async fn recover(&self, pauses: &mut Pauses, shutdown: &CancellationToken) {
        loop {
            let pause = pauses.next();
            tracing::warn!(?pause, "no job is claimed for a while");
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            let (root, ffmpeg) = (self.options.scratch.clone(), self.parts.ffmpeg.clone());
            match tokio::task::spawn_blocking(move || health::examine(&root, &ffmpeg)).await {
                Ok(Ok(())) => {
                    tracing::info!("this machine is well again, claiming jobs");
                    return;
                }
                Ok(Err(lack)) => tracing::warn!(error = %Causes(&lack), "this machine is not well yet"),
                Err(error) => tracing::error!(%error, "could not examine this machine"),
            }
        }
    }

    async fn attempt(
        &self,
        heartbeat: &Heartbeat,
        claimed: Claimed,
        claimed_at: Instant,
        shutdown: &CancellationToken,
    ) -> Result<Health, Error> {
        let span = tracing::info_span!(
            "attempt",
            job.id = %claimed.lease.job,
            fence = claimed.lease.fence.0,
            attempt = claimed.job.attempt,
        );
        async {
            tracing::info!(cost_tflop = claimed.job.cost_tflop, "claimed a job");
            execute(&self.parts, &self.options, heartbeat, claimed, claimed_at, shutdown).await
        }
        .instrument(span)
        .await
    }
}
