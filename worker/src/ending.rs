//! The one write that ends a claim.

use std::time::Instant;

use clapboard_jobs::{HandBack, JobState, Lease, LeaseError, Outcome, Store};

use crate::retry::Waits;
use crate::watch::Watch;

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
            Ending::Finish(outcome) => store.finish(lease, outcome.clone()).await,
            Ending::HandBack(hand_back) => store.hand_back(lease, hand_back.clone()).await,
        };
        let error = match answer {
            Ok(state) => return Written::State(state),
            Err(error) => error,
        };
        match error {
            LeaseError::Lost { .. } if unheard => match completed_by(store, lease).await {
                Ok(true) => return Written::State(JobState::Completed),
                Ok(false) => return Written::Lost,
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "could not read the job back");
                }
            },
            LeaseError::Lost { .. } | LeaseError::ForeignResult { .. } => {
                tracing::warn!(%error, "the attempt's ending was refused");
                return Written::Lost;
            }
            LeaseError::Store(error) => {
                unheard = true;
                tracing::warn!(error = &error as &dyn std::error::Error, "could not write how the attempt ended");
            }
        }
        let wait = waits.next();
        if Instant::now() + wait >= watch.lease_until() {
            return Written::Unknown;
        }
        tokio::time::sleep(wait).await;
    }
}

/// Tells whether the job is completed with the result of this very claim.
async fn completed_by(store: &dyn Store, lease: &Lease) -> Result<bool, clapboard_jobs::StoreError> {
    let job = store.get(&lease.tenant, lease.job).await?;
    let key = lease.result_key();
    Ok(job.and_then(|job| job.result).is_some_and(|result| result.key == key))
}
