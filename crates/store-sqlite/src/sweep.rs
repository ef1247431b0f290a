//! What happens to jobs by the passing of time.

use clapboard_jobs::{Hint, JobId, JobState, LeaseError, Micros, Queue, StoreError, WorkerId, store::Reclaimed};
use sqlx::SqliteConnection;
use uuid::Uuid;

use crate::closing::{Held, HeldRow, select_held};
use crate::error::unavailable;
use crate::rows;
use crate::store::SqliteStore;

pub(crate) async fn ready(store: &SqliteStore, limit: u32) -> Result<Vec<Hint>, StoreError> {
    let doing = "looking for jobs that are due";
    let (now, limit) = (store.now().0, i64::from(limit));
    let partitions = sqlx::query_scalar!("select partition from queue_clocks order by partition")
        .fetch_all(store.readers())
        .await
        .map_err(unavailable(doing))?;
    let mut hints = Vec::new();
    for name in partitions {
        let queue = Queue::of(rows::partition(&name)?);
        let jobs = sqlx::query!(
            r#"
            select id as "id: Uuid", rank from jobs
            where state = 'queued' and partition = ? and run_at <= ?
            order by rank, id
            limit ?
            "#,
            name,
            now,
            limit
        )
        .fetch_all(store.readers())
        .await
        .map_err(unavailable(doing))?;
        hints.extend(jobs.into_iter().map(|row| Hint { queue, rank: row.rank, job: JobId::from_uuid(row.id) }));
    }
    Ok(hints)
}

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
    let dead = held
        .into_iter()
        .filter(|row| !living.contains(&WorkerId(row.worker)))
        // The dead write nothing more, whatever their leases say.
        .map(|row| HeldRow { lease_expires_at: now, ..row })
        .collect();
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
    for held in rows.into_iter().map(Held::from) {
        let state = match held.reclaim(tx, now, doing).await {
            Ok(state) => state,
            Err(LeaseError::Store(error)) => return Err(error),
            // Cannot be in this transaction, which has read the claim; but then there is nothing to take back.
            Err(LeaseError::Lost { .. } | LeaseError::ForeignResult { .. }) => continue,
        };
        held.discard_object(tx, held.lease_expires_at.max(now), doing).await?;
        match state {
            JobState::Queued => reclaimed.requeued.push(held.job),
            _ => reclaimed.ended.push(held.job),
        }
    }
    Ok(reclaimed)
}

pub(crate) async fn next_due(store: &SqliteStore, after: Micros) -> Result<Option<Micros>, StoreError> {
    let moment = sqlx::query_scalar!(
        r#"
        select min(moment) as "moment: i64" from (
            select min(run_at) as moment from jobs where state = 'queued' and run_at > ?1
            union all
            select min(lease_expires_at) from jobs where state = 'running' and lease_expires_at > ?1
            union all
            select min(collect_after) from objects where standing = 'garbage' and collect_after > ?1
        )
        "#,
        after.0
    )
    .fetch_one(store.readers())
    .await
    .map_err(unavailable("looking for the next moment that matters"))?;
    Ok(moment.map(Micros))
}
