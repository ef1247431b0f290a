//! How a worker ends its hold on a job.

use clapboard_jobs::{AttemptEnd, HandBack, JobError, JobState, Lease, LeaseError, Outcome, backoff};

use crate::closing::Again;
use crate::error::unavailable;
use crate::held::Held;
use crate::objects;
use crate::store::SqliteStore;

pub(crate) async fn finish(store: &SqliteStore, lease: &Lease, outcome: Outcome) -> Result<JobState, LeaseError> {
    let doing = "finishing a job";
    let expected = lease.result_key();
    if let Outcome::Completed { object, .. } = &outcome
        && object.key != expected
    {
        return Err(LeaseError::ForeignObject { job: lease.job, found: object.key.clone(), expected });
    }
    let mut tx = store.begin(doing).await?;
    let now = store.now().0;
    let held = Held::find(&mut tx, lease, doing).await?;
    let state = match outcome {
        Outcome::Completed { object, report } if !held.cancel_requested => {
            held.complete(&mut tx, now, &object, &report, store.policy().result_life, doing).await?
        }
        Outcome::Completed { .. } | Outcome::Cancelled => {
            held.fail(&mut tx, now, &JobError::cancelled(), doing).await?
        }
        Outcome::Failed(error) => held.fail(&mut tx, now, &error, doing).await?,
    };
    objects::discard_unnamed(&mut tx, lease.job.as_uuid(), held.puts_end(now), now, doing).await?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(state)
}

pub(crate) async fn hand_back(store: &SqliteStore, lease: &Lease, hand_back: HandBack) -> Result<JobState, LeaseError> {
    let doing = "handing a job back";
    let mut tx = store.begin(doing).await?;
    let now = store.now();
    let held = Held::find(&mut tx, lease, doing).await?;
    let state = match hand_back {
        _ if held.cancel_requested => held.fail(&mut tx, now.0, &JobError::cancelled(), doing).await?,
        HandBack::Drained => {
            let again = Again { run_at: now.0, counts: false, ending: AttemptEnd::Drained, error: None };
            held.requeue(&mut tx, now.0, again, doing).await?
        }
        HandBack::Unwell { after, error } => {
            let run_at = now.plus(after).0;
            let again = Again { run_at, counts: false, ending: AttemptEnd::Retried, error: Some(&error) };
            held.requeue(&mut tx, now.0, again, doing).await?
        }
        HandBack::Retry { error, .. } if held.attempt >= held.max_attempts => {
            held.fail(&mut tx, now.0, &error, doing).await?
        }
        HandBack::Retry { after, error } => {
            let attempt = u32::try_from(held.attempt).unwrap_or(u32::MAX);
            // The claim's token is random, so jobs that failed together come back apart.
            let (entropy, _) = lease.token.0.as_u64_pair();
            let run_at = now.plus(backoff::delay_or(after, attempt, entropy)).0;
            let again = Again { run_at, counts: true, ending: AttemptEnd::Retried, error: Some(&error) };
            held.requeue(&mut tx, now.0, again, doing).await?
        }
    };
    objects::discard_unnamed(&mut tx, lease.job.as_uuid(), held.puts_end(now.0), now.0, doing).await?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(state)
}
