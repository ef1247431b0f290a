//! What a worker says while it holds a job.

use clapboard_jobs::{Beat, Lease, LeaseError, Micros, Progress};

use crate::error::unavailable;
use crate::store::PostgresStore;

struct Held {
    lease_expires_at: i64,
    cancel_requested: bool,
}

fn beat_of(held: Option<Held>, lease: &Lease) -> Result<Beat, LeaseError> {
    match held {
        Some(held) => {
            Ok(Beat { lease_expires_at: Micros(held.lease_expires_at), cancel_requested: held.cancel_requested })
        }
        None => Err(LeaseError::Lost { job: lease.job, fence: lease.fence }),
    }
}

pub(crate) async fn begin(store: &PostgresStore, lease: &Lease) -> Result<Beat, LeaseError> {
    let held = sqlx::query_as!(
        Held,
        r#"
        with held as (
            update jobs
            set begun_at = coalesce(begun_at, now_micros()), start_by = null, lease_expires_at = now_micros() + $4
            where id = $1 and fence = $2 and claim_token = $3 and state = 'running'
                and (start_by is null or start_by > now_micros())
            returning id, fence, begun_at, lease_expires_at, cancel_requested_at
        ),
        noted as (
            update job_attempts a set begun_at = h.begun_at from held h
            where a.job_id = h.id and a.fence = h.fence and a.begun_at is null
        )
        select
            lease_expires_at as "lease_expires_at!", cancel_requested_at is not null as "cancel_requested!"
        from held
        "#,
        lease.job.as_uuid(),
        lease.fence.0,
        lease.token.0,
        store.lease_micros()
    )
    .fetch_optional(store.pool())
    .await
    .map_err(unavailable("recording that a job has begun"))?;
    beat_of(held, lease)
}

pub(crate) async fn beat(store: &PostgresStore, lease: &Lease, progress: &Progress) -> Result<Beat, LeaseError> {
    let held = sqlx::query_as!(
        Held,
        r#"
        update jobs
        set phase = $5, step = $6, total_steps = $7, percent = greatest(percent, $8),
            lease_expires_at = now_micros() + $4
        where id = $1 and fence = $2 and claim_token = $3 and state = 'running'
        returning
            lease_expires_at as "lease_expires_at!", cancel_requested_at is not null as "cancel_requested!"
        "#,
        lease.job.as_uuid(),
        lease.fence.0,
        lease.token.0,
        store.lease_micros(),
        progress.phase.as_str(),
        i64::from(progress.step),
        i64::from(progress.total_steps),
        i32::from(progress.percent.min(Progress::MAX_PERCENT_UNSTORED))
    )
    .fetch_optional(store.pool())
    .await
    .map_err(unavailable("renewing a lease"))?;
    beat_of(held, lease)
}
