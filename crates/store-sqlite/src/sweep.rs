//! Claims that are taken back, jobs that did not begin in time, and when to look again.

use clapboard_jobs::store::Reclaimed;
use clapboard_jobs::{FailureCode, JobError, JobId, JobState, LeaseError, Micros, StoreError, WorkerId};
use sqlx::SqliteConnection;
use uuid::Uuid;

use crate::error::unavailable;
use crate::held::{Held, HeldRow, select_held};
use crate::store::SqliteStore;
use crate::{closing, retention};

pub(crate) async fn reclaim_expired(store: &SqliteStore, limit: u32) -> Result<Reclaimed, StoreError> {
    let doing = "taking back jobs whose leases have ended";
    let mut tx = store.begin(doing).await?;
    let (now, limit) = (store.now().0, i64::from(limit));
    let expired =
        select_held!("where state = 'running' and lease_expires_at <= ? order by lease_expires_at limit ?", now, limit)
            .fetch_all(&mut *tx)
            .await
            .map_err(unavailable(doing))?;
    let reclaimed = take_back(&mut tx, expired, now, doing).await?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(reclaimed)
}

pub(crate) async fn reclaim_from_dead(store: &SqliteStore, living: &[WorkerId]) -> Result<Reclaimed, StoreError> {
    let doing = "taking back the jobs of dead workers";
    let mut tx = store.begin(doing).await?;
    let now = store.now().0;
    let held = select_held!("where state = 'running' order by lease_expires_at")
        .fetch_all(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
    let dead = held.into_iter().filter(|row| !living.contains(&WorkerId(row.worker))).collect();
    let reclaimed = take_back(&mut tx, dead, now, doing).await?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(reclaimed)
}

async fn take_back(
    tx: &mut SqliteConnection,
    rows: Vec<HeldRow>,
    now: i64,
    doing: &'static str,
) -> Result<Reclaimed, StoreError> {
    let mut reclaimed = Reclaimed::default();
    for row in rows {
        let held = Held::try_from(row)?;
        match held.close(tx, now, &held.tally.lost(), doing).await {
            Ok(JobState::Queued) => reclaimed.requeued.push(held.job),
            Ok(_) => reclaimed.ended.push(held.job),
            Err(LeaseError::Store(error)) => return Err(error),
            // Cannot be in this transaction, which has read the claim; but then there is nothing to take back.
            Err(LeaseError::Lost { .. } | LeaseError::ForeignObject { .. }) => {}
        }
    }
    Ok(reclaimed)
}

pub(crate) async fn fail_overdue(store: &SqliteStore, limit: u32) -> Result<Vec<JobId>, StoreError> {
    let doing = "failing jobs that did not begin in time";
    let error = JobError::new(FailureCode::StartDeadlineExceeded, "no worker began the job in time");
    let mut tx = store.begin(doing).await?;
    let (now, limit) = (store.now().0, i64::from(limit));
    let overdue = sqlx::query!(
        r#"
        select id as "id: Uuid", claim_token is not null as "is_held!: bool" from jobs
        where start_by is not null and finished_at is null and start_by <= ?
        order by start_by, id
        limit ?
        "#,
        now,
        limit
    )
    .fetch_all(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    for row in &overdue {
        if !row.is_held {
            closing::end_waiting(&mut tx, row.id, now, &error, None, doing).await?;
            continue;
        }
        let held = select_held!("where id = ?", row.id).fetch_one(&mut *tx).await.map_err(unavailable(doing))?;
        let held = Held::try_from(held)?;
        match held.close(&mut tx, now, &held.tally.fail(error.clone()), doing).await {
            Ok(_) => {}
            Err(LeaseError::Store(error)) => return Err(error),
            // Cannot be in this transaction, which has read the claim; but then it is nobody's to fail.
            Err(LeaseError::Lost { .. } | LeaseError::ForeignObject { .. }) => {}
        }
    }
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(overdue.into_iter().map(|row| JobId::from_uuid(row.id)).collect())
}

pub(crate) async fn next_due(store: &SqliteStore, after: Micros) -> Result<Option<Micros>, StoreError> {
    let record_life = store.policy().record_life.map(retention::micros);
    let moment = sqlx::query_scalar!(
        r#"
        select min(moment) as "moment: i64" from (
            select min(run_at) as moment from jobs where state = 'queued' and run_at > ?1
            union all
            select min(lease_expires_at) from jobs where state = 'running' and lease_expires_at > ?1
            union all
            select min(start_by) from jobs where start_by is not null and finished_at is null and start_by > ?1
            union all
            select min(result_expires_at) from jobs where result_key is not null and result_expires_at > ?1
            union all
            select min(finished_at) + ?2 from jobs where finished_at is not null and finished_at > ?1 - ?2
            union all
            select min(deleted_at) + ?2 from deleted_jobs where deleted_at > ?1 - ?2
            union all
            select min(collect_after) from objects where standing = 'garbage' and collect_after > ?1
        )
        "#,
        after.0,
        record_life
    )
    .fetch_one(store.readers())
    .await
    .map_err(unavailable("looking for the next moment that matters"))?;
    Ok(moment.map(Micros))
}
