//! What happens to waiting and running jobs by the passing of time.
//!
//! Several sweeps may run at once: each takes what no other holds (`skip locked`), and the lock makes Postgres look at the
//! row's newest version before it counts as found. So a lease that was renewed just now is not taken back.

use clapboard_jobs::{FailureCode, JobError, JobId, JobState, LeaseError, StoreError, WorkerId, store::Reclaimed};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::closing::end_waiting;
use crate::error::unavailable;
use crate::held::{Held, HeldRow, select_held};
use crate::store::PostgresStore;

pub(crate) async fn reclaim_expired(store: &PostgresStore, limit: u32) -> Result<Reclaimed, StoreError> {
    let doing = "taking back jobs whose leases have ended";
    let mut tx = store.pool().begin().await.map_err(unavailable(doing))?;
    let expired = select_held!(
        r#"
        where state = 'running' and lease_expires_at <= now_micros()
        order by lease_expires_at
        limit $1
        for update skip locked
        "#,
        i64::from(limit)
    )
    .fetch_all(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    let reclaimed = take_back(&mut tx, expired, doing).await?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(reclaimed)
}

pub(crate) async fn reclaim_from_dead(store: &PostgresStore, living: &[WorkerId]) -> Result<Reclaimed, StoreError> {
    let doing = "taking back the jobs of dead workers";
    let living: Vec<Uuid> = living.iter().map(|worker| worker.0).collect();
    let mut tx = store.pool().begin().await.map_err(unavailable(doing))?;
    let dead = select_held!(
        "where state = 'running' and worker <> all($1) order by lease_expires_at for update skip locked",
        &living
    )
    .fetch_all(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    let reclaimed = take_back(&mut tx, dead, doing).await?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(reclaimed)
}

async fn take_back(tx: &mut PgConnection, rows: Vec<HeldRow>, doing: &'static str) -> Result<Reclaimed, StoreError> {
    let mut reclaimed = Reclaimed::default();
    for row in rows {
        let held = Held::try_from(row)?;
        match held.close(tx, &held.tally.lost(), doing).await {
            Ok(JobState::Queued) => reclaimed.requeued.push(held.job),
            Ok(_) => reclaimed.ended.push(held.job),
            Err(LeaseError::Store(error)) => return Err(error),
            // Cannot be in this transaction, which holds the row; but then there is nothing to take back.
            Err(LeaseError::Lost { .. } | LeaseError::ForeignObject { .. }) => {}
        }
    }
    Ok(reclaimed)
}

pub(crate) async fn fail_overdue(store: &PostgresStore, limit: u32) -> Result<Vec<JobId>, StoreError> {
    let doing = "failing jobs that did not begin in time";
    let error = JobError::new(FailureCode::StartDeadlineExceeded, "no worker began the job in time");
    let mut tx = store.pool().begin().await.map_err(unavailable(doing))?;
    // Whether it is held is nothing that an index is to answer: it would go through all that waits.
    let overdue = sqlx::query!(
        r#"
        select id, claim_token is not null as "is_held!" from jobs
        where start_by is not null and finished_at is null and start_by <= now_micros()
        order by start_by, id
        limit $1
        for update skip locked
        "#,
        i64::from(limit)
    )
    .fetch_all(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    if overdue.is_empty() {
        return Ok(Vec::new());
    }
    let ids =
        |is_held| -> Vec<Uuid> { overdue.iter().filter(|row| row.is_held == is_held).map(|row| row.id).collect() };
    let (waiting, held) = (ids(false), ids(true));
    if !waiting.is_empty() {
        end_waiting(&mut tx, &waiting, &error, None, doing).await?;
    }
    if !held.is_empty() {
        // Once a job has begun it has no such time any more: who begins it comes before the lock, or is told that the lease is
        // lost.
        let rows = select_held!("where id = any($1)", &held).fetch_all(&mut *tx).await.map_err(unavailable(doing))?;
        for row in rows {
            let held = Held::try_from(row)?;
            match held.close(&mut tx, &held.tally.fail(error.clone()), doing).await {
                Ok(_) => {}
                Err(LeaseError::Store(error)) => return Err(error),
                // Cannot be in this transaction, which holds the row; but then it is nobody's to fail.
                Err(LeaseError::Lost { .. } | LeaseError::ForeignObject { .. }) => {}
            }
        }
    }
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(overdue.into_iter().map(|row| JobId::from_uuid(row.id)).collect())
}
