//! What a worker says while it holds a job.

use clapboard_jobs::{Beat, Lease, LeaseError, Micros, Progress};

use crate::error::unavailable;
use crate::store::SqliteStore;

pub(crate) async fn begin(store: &SqliteStore, lease: &Lease) -> Result<Beat, LeaseError> {
    let doing = "recording that a job has begun";
    let mut tx = store.begin(doing).await?;
    let now = store.now();
    let expires_at = now.plus(store.policy().lease);
    let (id, fence, token) = (lease.job.as_uuid(), lease.fence.0, lease.token.0);
    let held = sqlx::query!(
        r#"
        update jobs set begun_at = coalesce(begun_at, ?), start_by = null, lease_expires_at = ?
        where id = ? and fence = ? and claim_token = ? and state = 'running' and (start_by is null or start_by > ?)
        returning cancel_requested_at is not null as "cancel_requested!: bool"
        "#,
        now.0,
        expires_at.0,
        id,
        fence,
        token,
        now.0
    )
    .fetch_optional(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    let Some(held) = held else {
        return Err(LeaseError::Lost { job: lease.job, fence: lease.fence });
    };
    sqlx::query!(
        "update job_attempts set begun_at = coalesce(begun_at, ?) where job_id = ? and fence = ?",
        now.0,
        id,
        fence
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(Beat { lease_expires_at: expires_at, cancel_requested: held.cancel_requested })
}

pub(crate) async fn beat(store: &SqliteStore, lease: &Lease, progress: &Progress) -> Result<Beat, LeaseError> {
    let doing = "renewing a lease";
    let mut tx = store.begin(doing).await?;
    let expires_at: Micros = store.now().plus(store.policy().lease);
    let (id, fence, token) = (lease.job.as_uuid(), lease.fence.0, lease.token.0);
    let phase = progress.phase.as_str();
    let (step, total_steps) = (i64::from(progress.step), i64::from(progress.total_steps));
    let percent = i64::from(progress.percent.min(Progress::MAX_PERCENT_UNSTORED));
    let held = sqlx::query!(
        r#"
        update jobs
        set phase = ?, step = ?, total_steps = ?, percent = max(percent, ?), lease_expires_at = ?
        where id = ? and fence = ? and claim_token = ? and state = 'running'
        returning cancel_requested_at is not null as "cancel_requested!: bool"
        "#,
        phase,
        step,
        total_steps,
        percent,
        expires_at.0,
        id,
        fence,
        token
    )
    .fetch_optional(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    let Some(held) = held else {
        return Err(LeaseError::Lost { job: lease.job, fence: lease.fence });
    };
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(Beat { lease_expires_at: expires_at, cancel_requested: held.cancel_requested })
}
