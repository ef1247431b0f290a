//! How a worker ends its hold on a job.

use clapboard_jobs::{HandBack, JobError, JobState, Lease, LeaseError, Outcome};

use crate::error::unavailable;
use crate::held::Held;
use crate::store::{PostgresStore, micros};

pub(crate) async fn finish(store: &PostgresStore, lease: &Lease, outcome: &Outcome) -> Result<JobState, LeaseError> {
    let doing = "finishing a job";
    let expected = lease.result_key();
    if let Outcome::Completed { object, previews, .. } = outcome {
        if object.key != expected {
            return Err(LeaseError::ForeignObject { job: lease.job, found: object.key.clone(), expected });
        }
        lease.require_own_previews(previews)?;
    }
    let mut tx = store.pool().begin().await.map_err(unavailable(doing))?;
    let held = Held::find(&mut tx, lease, doing).await?;
    let state = match outcome {
        // Whoever completes a job says that he has begun it.
        Outcome::Completed { .. } if held.is_late && !held.tally.cancel_requested => {
            return Err(LeaseError::Lost { job: lease.job, fence: lease.fence });
        }
        Outcome::Completed { object, previews, report } if !held.tally.cancel_requested => {
            let life = store.policy().result_life.map(micros);
            held.complete(&mut tx, (object, previews), report, life, doing).await?
        }
        Outcome::Completed { .. } | Outcome::Cancelled => {
            held.close(&mut tx, &held.tally.fail(JobError::cancelled()), doing).await?
        }
        Outcome::Failed(error) => held.close(&mut tx, &held.tally.fail(error.clone()), doing).await?,
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
    // The claim's token is random, so jobs that failed together come back apart.
    let (entropy, _) = lease.token.0.as_u64_pair();
    let state = held.close(&mut tx, &held.tally.hand_back(hand_back.clone(), entropy), doing).await?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(state)
}
