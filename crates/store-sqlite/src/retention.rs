//! What ends with time: results, records.

use std::time::Duration;

use clapboard_jobs::{JobId, Micros, StoreError};
use uuid::Uuid;

use crate::error::unavailable;
use crate::store::SqliteStore;
use crate::{delete, fleet, objects, submissions};

pub(crate) async fn expire_results(store: &SqliteStore, limit: u32) -> Result<Vec<JobId>, StoreError> {
    let doing = "giving up results whose time has passed";
    let mut tx = store.begin(doing).await?;
    let (now, limit) = (store.now().0, i64::from(limit));
    let expired = sqlx::query_scalar!(
        r#"
        select id as "id: Uuid" from jobs
        where result_key is not null and result_expires_at <= ?
        order by result_expires_at, id
        limit ?
        "#,
        now,
        limit
    )
    .fetch_all(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    for &id in &expired {
        sqlx::query!(
            r#"
            update jobs set result_key = null, result_size_bytes = null, result_sha256 = null, previews = null
            where id = ?
            "#,
            id
        )
        .execute(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
        objects::discard_unnamed(&mut tx, id, now, now, doing).await?;
    }
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(expired.into_iter().map(JobId::from_uuid).collect())
}

pub(crate) async fn purge_records(store: &SqliteStore, limit: u32) -> Result<Vec<JobId>, StoreError> {
    let doing = "deleting what was kept long enough";
    let mut tx = store.begin(doing).await?;
    let now = store.now();
    fleet::forget(&mut tx, now, doing).await?;
    let mut purged = Vec::new();
    if let Some(life) = store.policy().record_life {
        let (kept_since, limit) = (now.0 - micros(life), i64::from(limit));
        purged = sqlx::query_scalar!(
            r#"
            select id as "id: Uuid" from jobs
            where finished_at is not null and finished_at <= ?
            order by finished_at, id
            limit ?
            "#,
            kept_since,
            limit
        )
        .fetch_all(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
        for &id in &purged {
            delete::remove(&mut tx, id, now.0, doing).await?;
        }
    }
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(purged.into_iter().map(JobId::from_uuid).collect())
}

pub(crate) async fn forget_deleted(store: &SqliteStore, limit: u32) -> Result<usize, StoreError> {
    let doing = "forgetting deleted jobs";
    let mut tx = store.begin(doing).await?;
    let (now, limit) = (store.now().0, i64::from(limit));
    let requests = submissions::forget(&mut tx, now, limit, doing).await?;
    let mut forgotten = Vec::new();
    if let Some(life) = store.policy().record_life {
        let kept_since = now - micros(life);
        forgotten = sqlx::query_scalar!(
            r#"
            delete from deleted_jobs
            where id in (select id from deleted_jobs where deleted_at <= ? order by deleted_at limit ?)
            returning id as "id: Uuid"
            "#,
            kept_since,
            limit
        )
        .fetch_all(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
    }
    for &id in &forgotten {
        sqlx::query!("delete from deliveries where job_id = ?", id)
            .execute(&mut *tx)
            .await
            .map_err(unavailable(doing))?;
    }
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(forgotten.len().max(requests))
}

/// Returns a duration in the unit of the tables.
pub(crate) fn micros(life: Duration) -> i64 {
    Micros(0).plus(life).0
}
