//! The one write that ends a claim.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clapboard_jobs::{Causes, ErrorClass, HandBack, JobState, Lease, LeaseError, Outcome, Store, StoreError};

use crate::attempt::classify::AttemptError;
use crate::heartbeat::turns::Turns;
use crate::progress::watch::{StopCause, Watch};
use crate::retry::Waits;

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

impl Ending {
    /// Returns what is written about an attempt that failed; nothing when the job is another's, or may be.
    ///
    /// An unwell worker's job waits for `unwell_pause`.
    pub(crate) fn of(error: &AttemptError, cause: Option<StopCause>, unwell_pause: Duration) -> Option<Self> {
        // Once the attempt was told to stop, whatever it ended with is the answer to that.
        match cause {
            Some(StopCause::LeaseLost | StopCause::Fenced) => return None,
            Some(StopCause::Cancelled) => return Some(Self::Finish(Outcome::Cancelled)),
            Some(StopCause::Drain) => return Some(Self::HandBack(HandBack::Drained)),
            None => {}
        }
        let class = error.class();
        match class {
            ErrorClass::Unwell => tracing::warn!(error = %Causes(error), "this worker lacks what the job needs"),
            ErrorClass::Interrupted | ErrorClass::Premature => {}
            _ => tracing::error!(error = %Causes(error), ?class, "the attempt failed"),
        }
        let error = error.job_error();
        Some(match class {
            ErrorClass::Retryable { after } => Self::HandBack(HandBack::Retry { after, error }),
            ErrorClass::Fatal { .. } => Self::Finish(Outcome::Failed(error)),
            ErrorClass::Interrupted => Self::HandBack(HandBack::Drained),
            ErrorClass::Premature => Self::HandBack(HandBack::Returned),
            ErrorClass::Unwell => Self::HandBack(HandBack::Unwell { after: unwell_pause, error }),
        })
    }
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

/// The connection over which an ending is written.
#[derive(Clone, Copy)]
pub(crate) enum Line<'a> {
    /// One that others need not wait for.
    Own(&'a dyn Store),
    /// That of the heartbeat, where each call takes its turn.
    Heartbeat(&'a dyn Store, &'a Arc<Turns>),
}

impl<'a> Line<'a> {
    fn store(self) -> &'a dyn Store {
        match self {
            Self::Own(store) | Self::Heartbeat(store, _) => store,
        }
    }
}

/// Writes the ending, again and again while the lease lasts and the store does not answer.
///
/// A try whose answer was not heard, here or by a process that has died meanwhile, may have taken effect; the next one is
/// then told that the claim holds no more. So a job that was to be completed is always read back: if its row names this
/// claim's key, the earlier try had succeeded; and as long as nobody could read it, nothing is known.
pub(crate) async fn write(line: Line<'_>, lease: &Lease, ending: &Ending, watch: &Watch) -> Written {
    let store = line.store();
    let mut waits = Waits::default();
    loop {
        let answer = match ending {
            Ending::Finish(outcome) => heard(line, watch, store.finish(lease, outcome.clone())).await,
            Ending::HandBack(hand_back) => heard(line, watch, store.hand_back(lease, hand_back.clone())).await,
        };
        let error = match answer {
            Ok(state) => return Written::State(state),
            Err(error) => error,
        };
        match error {
            LeaseError::Lost { .. } => {
                if matches!(ending, Ending::Finish(Outcome::Completed { .. })) {
                    match heard(line, watch, completed_by(store, lease)).await {
                        Ok(true) => return Written::State(JobState::Completed),
                        Ok(false) => {}
                        Err(error) => {
                            tracing::warn!(error = %Causes(&error), "could not read the job back");
                            return Written::Unknown;
                        }
                    }
                }
                tracing::info!("the job was deleted or given away before the attempt's ending was written");
                return Written::Lost;
            }
            LeaseError::ForeignObject { .. } => {
                tracing::warn!(%error, "the attempt's ending was refused");
                return Written::Lost;
            }
            LeaseError::Store(error) => {
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
/// The wait for a turn counts as well.
async fn heard<T, E: From<StoreError>>(
    line: Line<'_>,
    watch: &Watch,
    answer: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let lease_until = watch.lease_until();
    let lease_left = lease_until.saturating_duration_since(Instant::now());
    let patience = lease_left.clamp(LEAST_PATIENCE, MOST_PATIENCE);
    let answer = async {
        match line {
            Line::Own(_) => Some(answer.await),
            Line::Heartbeat(_, turns) => turns.call(lease_until, answer).await,
        }
    };
    tokio::time::timeout(patience, answer).await.ok().flatten().unwrap_or_else(|| {
        let silence = io::Error::from(io::ErrorKind::TimedOut);
        Err(E::from(StoreError::Unavailable { doing: "ending an attempt", source: silence.into() }))
    })
}

/// Tells whether the job is completed with the result of this very claim.
async fn completed_by(store: &dyn Store, lease: &Lease) -> Result<bool, StoreError> {
    let job = store.get(&lease.tenant, lease.job).await?;
    let key = lease.result_key();
    Ok(job.and_then(|job| job.result).is_some_and(|result| result.key == key))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use clapboard_h3::Partition;
    use clapboard_jobs::fixtures::{FaultyStore, MovedClock, small_spec};
    use clapboard_jobs::{Claimant, Claimed, NewJob, Policy, ResultObject, RunReport, Tenant, WorkerId};
    use clapboard_store_sqlite::SqliteStore;

    use crate::options::StallLimits;

    use super::*;

    /// A claim, the write that completes its job, and a folder that goes with the store.
    async fn finished() -> (FaultyStore, Lease, Ending, Watch, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(MovedClock::default());
        let store = SqliteStore::open(&folder.path().join("jobs.sqlite"), Policy::default(), clock).await.unwrap();
        let job = store.create(NewJob::new(Tenant::default(), "h3", &small_spec())).await.unwrap();
        let claimant = Claimant::new(WorkerId::new(), vec![Partition::Fl2va]);
        let Claimed { lease, .. } = store.claim(job.id, &claimant).await.unwrap().unwrap();
        let watch = Watch::new(StallLimits::default(), Instant::now() + lease.duration);
        let object = ResultObject { key: lease.result_key(), size_bytes: 1, sha256: "00".repeat(32) };
        let ending = Ending::Finish(Outcome::Completed { object, previews: Vec::new(), report: RunReport::default() });
        (FaultyStore::over(Arc::new(store)), lease, ending, watch, folder)
    }

    #[tokio::test]
    async fn a_job_that_cannot_be_read_back_may_have_been_completed() {
        let (store, lease, ending, watch, _folder) = finished().await;
        store.lose_next_finish();
        store.refuse_gets();
        assert_eq!(write(Line::Own(&store), &lease, &ending, &watch).await, Written::Unknown);
        assert_eq!(store.finishes(), 2);
    }

    #[tokio::test]
    async fn a_result_that_a_dead_process_has_written_already_is_no_loss() {
        let (store, lease, ending, watch, _folder) = finished().await;
        for _ in 0..2 {
            assert_eq!(write(Line::Own(&store), &lease, &ending, &watch).await, Written::State(JobState::Completed));
        }
        store.delete(&lease.tenant, lease.job).await.unwrap().unwrap();
        assert_eq!(write(Line::Own(&store), &lease, &ending, &watch).await, Written::Lost);
    }
}
