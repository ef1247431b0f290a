//! Which job comes next.

pub(crate) mod pipeline;

use std::time::{Duration, Instant};

use clapboard_h3::Partition;
use clapboard_jobs::{Causes, Claimant, Claimed, Hint, Queue, StoreError};

use crate::options::Options;
use crate::retry::{Waits, spread};
use crate::shared::Shared;

/// How long a dispatcher is left alone that has no hint.
const REST: Duration = Duration::from_millis(10);

/// What to ask the store for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Ask {
    /// The job of a hint.
    Hint(Hint),
    /// The first job in the store's own order.
    Next,
    /// The same, for when the engine will be free.
    Ahead,
}

/// Decides when to ask, and asks.
///
/// Hints are a short cut: however many come, the store's own order is asked for once per poll interval, since hints may
/// be lost or trimmed, and none tell of jobs of a larger class that happen to fit. While the engine is taken no hint is
/// taken from workers that are idle.
pub(crate) struct Claiming {
    claimant: Claimant,
    queues: Vec<Queue>,
    poll_interval: Duration,
    window: Duration,
    /// When the store's own order is asked for next.
    next_poll: Instant,
    /// And when it is asked for a job to claim ahead.
    next_ahead: Instant,
    /// Nothing is asked before, since the store did not answer.
    rest_until: Instant,
    waits: Waits,
}

impl Claiming {
    pub(crate) fn new(claimant: Claimant, options: &Options) -> Self {
        let now = Instant::now();
        Self {
            queues: claimant.queues(),
            claimant,
            poll_interval: options.poll_interval,
            window: options.prefetch_window,
            next_poll: now + spread(options.poll_interval),
            next_ahead: now,
            rest_until: now,
            waits: Waits::default(),
        }
    }

    /// Takes jobs of these partitions from now on.
    pub(crate) fn serve(&mut self, partitions: Vec<Partition>) {
        self.claimant.partitions = partitions;
        self.queues = self.claimant.queues();
    }

    /// Tells whether there is no partition that jobs are taken of.
    pub(crate) fn serves_nothing(&self) -> bool {
        self.claimant.partitions.is_empty()
    }

    /// The names of the queues whose hints are taken.
    pub(crate) fn queue_names(&self) -> Vec<String> {
        self.queues.iter().map(Queue::to_string).collect()
    }

    /// Waits until it is time to ask for a job. A call that is dropped loses nothing.
    pub(crate) async fn next(&mut self, shared: &Shared) -> Ask {
        let pipeline = &shared.pipeline;
        loop {
            tokio::time::sleep_until(self.rest_until.into()).await;
            if !pipeline.has_place() {
                pipeline.changed().await;
            } else if !pipeline.is_engine_taken() {
                if let Some(ask) = self.idle(shared).await {
                    return ask;
                }
            } else if self.window.is_zero() {
                pipeline.changed().await;
            } else {
                let now = Instant::now();
                let soon = pipeline.engine_free_in(self.window).is_some_and(|wait| wait <= self.window);
                if soon && now >= self.next_ahead {
                    self.next_ahead = now + spread(self.poll_interval);
                    return Ask::Ahead;
                }
                let look = shared.options.look_interval();
                tokio::select! {
                    () = pipeline.changed() => {}
                    () = tokio::time::sleep(look) => {}
                }
            }
        }
    }

    /// Waits for a hint until the next poll.
    async fn idle(&mut self, shared: &Shared) -> Option<Ask> {
        let now = Instant::now();
        if now >= self.next_poll {
            self.next_poll = now + spread(self.poll_interval);
            return Some(Ask::Next);
        }
        if !self.queues.is_empty() {
            match shared.parts.dispatch.pop(&self.queues, self.next_poll - now).await {
                Ok(Some(hint)) => return Some(Ask::Hint(hint)),
                Ok(None) => {
                    // One that gave up waiting too soon is asked again, though not without a rest.
                    tokio::time::sleep_until(self.next_poll.min(Instant::now() + REST).into()).await;
                    return None;
                }
                Err(error) => tracing::warn!(error = %Causes(&error), "no hints, asking the store itself"),
            }
        }
        tokio::time::sleep_until(self.next_poll.into()).await;
        None
    }

    /// Claims a job and returns a moment before the claim was sent.
    ///
    /// A claim that was sent is heard even when the worker drains, so that no job is held by nobody, unless the store is
    /// silent for longer than a drain may last. `drain` passes a drain on, so that what runs stops meanwhile.
    pub(crate) async fn claim(
        &mut self,
        shared: &Shared,
        ask: Ask,
        drain: impl Future<Output = ()>,
    ) -> Option<(Claimed, Instant)> {
        self.claimant.ahead = ask == Ask::Ahead;
        let claimed_at = Instant::now();
        let store = &shared.parts.store;
        let claim = async {
            match ask {
                Ask::Hint(hint) => store.claim(hint.job, &self.claimant).await,
                Ask::Next | Ask::Ahead => store.claim_next(&self.claimant).await,
            }
        };
        let overdue = async {
            tokio::join!(drain, shared.claims_are_over());
        };
        let claimed = tokio::select! {
            biased;
            claimed = claim => claimed,
            () = overdue => {
                tracing::error!("the store has not answered a claim: what it may have claimed will be reclaimed");
                Ok(None)
            }
        };
        match claimed {
            Ok(claimed) => {
                self.waits = Waits::default();
                claimed.map(|claimed| (claimed, claimed_at))
            }
            Err(error) => {
                self.rest(&error);
                None
            }
        }
    }

    fn rest(&mut self, error: &StoreError) {
        let wait = self.waits.next();
        self.rest_until = Instant::now() + wait;
        tracing::warn!(error = %Causes(error), ?wait, "could not claim a job");
    }
}
