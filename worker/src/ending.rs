//! The one write that ends a claim.

use std::time::{Duration, Instant};

use clapboard_jobs::{Causes, HandBack, JobState, Lease, LeaseError, Outcome, Store, StoreError};

use crate::retry::Waits;
use crate::watch::Watch;

/// How long the store may take to answer before it is asked again, while the lease lasts.
const MOST_PATIENCE: Duration = Duration::from_secs(10);
/// How long it may take when the lease has ended: it may still be unaware of that.
const LEAST_PATIENCE: Duration = Duration::from_secs(1);

/// What is written about a claim that ends.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ending {
    /// The job ends.
    Finish(Outcome),
    /// The job goes back to wait.
    HandBack(HandBack),
}

/// What became of the write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// The job stands there now.
    State(JobState),
    /// The claim held no more: nothing was written, and nothing of it may be kept.
    Lost,
    /// The store did not answer while the lease lasted: the write may have taken effect, or the job will be reclaimed.
    Unknown,
}

/// Writes the ending, again and again while the lease lasts and the store does not answer.
///
/// A try whose answer was not heard may have taken effect; the next one is then told that the claim holds no more. So a
/// completed job is read back: if its row names this claim's key, the earlier try had succeeded.
pub(crate) async fn write(store: &dyn Store, lease: &Lease, ending: &Ending, watch: &Watch) -> Written {
    let mut waits = Waits::default();
    let mut unheard = false;
    loop {
        let answer = match ending {
            Ending::Finish(outcome) => heard(watch, store.finish(lease, outcome.clone())).await,
            Ending::HandBack(hand_back) => heard(watch, store.hand_back(lease, hand_back.clone())).await,
        };
        let error = match answer {
            Ok(state) => return Written::State(state),
            Err(error) => error,
        };
        match error {
            LeaseError::Lost { .. } if unheard => match heard(watch, completed_by(store, lease)).await {
                Ok(true) => return Written::State(JobState::Completed),
                Ok(false) => return Written::Lost,
                Err(error) => tracing::warn!(error = %Causes(&error), "could not read the job back"),
            },
            LeaseError::Lost { .. } => {
                tracing::info!("the job was deleted or given away before the attempt's ending was written");
                return Written::Lost;
            }
            LeaseError::ForeignResult { .. } => {
                tracing::warn!(%error, "the attempt's ending was refused");
                return Written::Lost;
            }
            LeaseError::Store(error) => {
                unheard = true;
                tracing::warn!(error = %Causes(&error), "could not write how the attempt ended");
            }
        }
        let wait = waits.next();
        if Instant::now() + wait >= watch.lease_until() {
            return Written::Unknown;
        }
        tokio::time::sleep(wait).await;
    }
}

/// Waits for an answer of the store's, but not for ever: a store that is silent is one that cannot be reached.
async fn heard<T, E: From<StoreError>>(watch: &Watch, answer: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let lease_left = watch.lease_until().saturating_duration_since(Instant::now());
    let patience = lease_left.clamp(LEAST_PATIENCE, MOST_PATIENCE);
    tokio::time::timeout(patience, answer).await.unwrap_or_else(|silence| {
        Err(E::from(StoreError::Unavailable { doing: "ending an attempt", source: silence.into() }))
    })
}

/// Tells whether the job is completed with the result of this very claim.
async fn completed_by(store: &dyn Store, lease: &Lease) -> Result<bool, StoreError> {
    let job = store.get(&lease.tenant, lease.job).await?;
    let key = lease.result_key();
    Ok(job.and_then(|job| job.result).is_some_and(|result| result.key == key))
}
