//! How a worker ends its hold on a job.

use clapboard_jobs::{AttemptEnd, HandBack, JobError, JobState, Lease, LeaseError, Micros, Outcome, backoff};

use crate::closing::{Again, Held, complete};
use crate::error::unavailable;
use crate::store::{PostgresStore, micros};

pub(crate) async fn finish(store: &PostgresStore, lease: &Lease, outcome: &Outcome) -> Result<JobState, LeaseError> {
    let doing = "finishing a job";
    if let Outcome::Completed { object, report } = outcome {
        let expected = lease.result_key();
        if object.key != expected {
            return Err(LeaseError::ForeignObject { job: lease.job, found: object.key.clone(), expected });
        }
        let result_life = store.policy().result_life.map(micros);
        // One statement is one transaction; it refuses where a cancel was asked for or the lease is lost.
        if complete(store.pool(), lease, object, report, result_life, doing).await? {
            return Ok(JobState::Completed);
        }
    }
    let mut tx = store.pool().begin().await.map_err(unavailable(doing))?;
    let held = Held::find(&mut tx, lease, doing).await?;
    let state = match outcome {
        // The tables do not name its object: the claim was not one of theirs.
        Outcome::Completed { .. } if !held.cancel_requested => {
            return Err(LeaseError::Lost { job: lease.job, fence: lease.fence });
        }
        Outcome::Completed { .. } | Outcome::Cancelled => held.fail(&mut tx, &JobError::cancelled(), doing).await?,
        Outcome::Failed(error) => held.fail(&mut tx, error, doing).await?,
    };
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(state)
}

pub(crate) async fn hand_back(
    store: &PostgresStore,
    lease: &Lease,
    hand_back: &HandBack,
) -> Result<JobState, LeaseError> {
    let doing = "handing a job back";
    let mut tx = store.pool().begin().await.map_err(unavailable(doing))?;
    let held = Held::find(&mut tx, lease, doing).await?;
    let now = Micros(held.now);
    let again = |run_at: Micros, counts, ending, error| Again { run_at: run_at.0, counts, ending, error };
    let state = match hand_back {
        _ if held.cancel_requested => held.fail(&mut tx, &JobError::cancelled(), doing).await?,
        HandBack::Drained => held.requeue(&mut tx, again(now, false, AttemptEnd::Drained, None), doing).await?,
        HandBack::Unwell { after, error } => {
            let run_at = now.plus(*after);
            held.requeue(&mut tx, again(run_at, false, AttemptEnd::Retried, Some(error)), doing).await?
        }
        HandBack::Retry { error, .. } if held.attempt >= held.max_attempts => held.fail(&mut tx, error, doing).await?,
        HandBack::Retry { after, error } => {
            let attempt = u32::try_from(held.attempt).unwrap_or(u32::MAX);
            // The claim's token is random, so jobs that failed together come back apart.
            let (entropy, _) = lease.token.0.as_u64_pair();
            let run_at = now.plus(backoff::delay_or(*after, attempt, entropy));
            held.requeue(&mut tx, again(run_at, true, AttemptEnd::Retried, Some(error)), doing).await?
        }
    };
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(state)
}
