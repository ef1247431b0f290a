//! Claiming a job.

use std::time::Duration;

use clapboard_jobs::{ClaimToken, Claimant, Claimed, Fence, JobId, Lease, Micros, Priority, StoreError};
use sqlx::SqliteConnection;

use crate::error::{unavailable, unreadable};
use crate::heads::{self, Candidate};
use crate::store::SqliteStore;
use crate::{objects, read};

pub(crate) async fn claim(store: &SqliteStore, id: JobId, claimant: &Claimant) -> Result<Option<Claimed>, StoreError> {
    let doing = "claiming a job";
    let mut tx = store.begin(doing).await?;
    let now = store.now();
    let Some(candidate) = heads::by_id(&mut tx, id.as_uuid(), claimant, now, doing).await? else {
        return Ok(None);
    };
    let claimed = take(&mut tx, &candidate, claimant, now, store.policy().lease, doing).await?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(Some(claimed))
}

pub(crate) async fn claim_next(store: &SqliteStore, claimant: &Claimant) -> Result<Option<Claimed>, StoreError> {
    let doing = "claiming the next job";
    let mut tx = store.begin(doing).await?;
    let now = store.now();
    let Some(candidate) = heads::first(&mut tx, claimant, now, doing).await? else {
        return Ok(None);
    };
    let claimed = take(&mut tx, &candidate, claimant, now, store.policy().lease, doing).await?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(Some(claimed))
}

/// Gives the job to the claimant: a new fence, a new token, one more attempt.
async fn take(
    tx: &mut SqliteConnection,
    candidate: &Candidate,
    claimant: &Claimant,
    now: Micros,
    duration: Duration,
    doing: &'static str,
) -> Result<Claimed, StoreError> {
    let token = ClaimToken::random();
    let expires_at = now.plus(duration);
    let (worker, token_uuid) = (claimant.worker.0, token.0);
    let raised = sqlx::query!(
        r#"
        update jobs
        set state = 'running', fence = fence + 1, attempt = attempt + 1,
            claim_token = ?, worker = ?, lease_expires_at = ?
        where id = ? and state = 'queued'
        returning fence as "fence!: i64", attempt as "attempt!: i64"
        "#,
        token_uuid,
        worker,
        expires_at.0,
        candidate.id
    )
    .fetch_one(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    sqlx::query!(
        "insert into job_attempts (job_id, fence, number, worker, claimed_at) values (?, ?, ?, ?, ?)",
        candidate.id,
        raised.fence,
        raised.attempt,
        worker,
        now.0
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    // The penalty is the job's alone: the time of the queue would otherwise leap past everybody who waits.
    let priority: Priority = candidate.priority.parse().map_err(unreadable("priority"))?;
    let served = candidate.rank - priority.penalty();
    sqlx::query!(
        "update queue_clocks set virtual_time = max(virtual_time, ?) where partition = ?",
        served,
        candidate.partition
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;

    let job = read::load(&mut *tx, JobId::from_uuid(candidate.id), doing).await?;
    let lease = Lease {
        job: job.id,
        tenant: job.tenant.clone(),
        fence: Fence(raised.fence),
        token,
        worker: claimant.worker,
        expires_at,
        duration,
    };
    // Written down before the first byte is uploaded, so that no object is ever unknown to the tables.
    objects::expect(tx, lease.result_key().as_str(), candidate.id, doing).await?;
    Ok(Claimed { lease, job })
}
