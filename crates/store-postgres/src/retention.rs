//! What is kept and for how long, and when a sweep has to look again.

use std::time::Duration;

use clapboard_jobs::{JobId, Micros, StoreError};
use sqlx::PgConnection;

use crate::delete::bury;
use crate::error::unavailable;
use crate::rows::number;
use crate::store::{PostgresStore, micros};

/// How long a worker that says nothing is remembered at all.
const WORKER_RECORD_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) async fn expire_results(store: &PostgresStore, limit: u32) -> Result<Vec<JobId>, StoreError> {
    let given_up = sqlx::query_scalar!(
        r#"
        with expired as materialized (
            select id, result_expires_at from jobs
            where result_key is not null and result_expires_at <= now_micros()
            order by result_expires_at, id
            limit $1
            for update skip locked
        ),
        given_up as (
            update jobs j set result_key = null, result_size_bytes = null, result_sha256 = null, previews = null
            from expired e
            where j.id = e.id and j.result_key is not null
            returning j.id, j.result_expires_at
        ),
        discarded as (
            update objects o set standing = 'garbage', collect_after = now_micros()
            from given_up g
            where o.job_id = g.id and o.standing <> 'garbage'
        )
        select id as "id!" from given_up order by result_expires_at, id
        "#,
        i64::from(limit)
    )
    .fetch_all(store.pool())
    .await
    .map_err(unavailable("giving up results"))?;
    Ok(given_up.into_iter().map(JobId::from_uuid).collect())
}

pub(crate) async fn purge_records(store: &PostgresStore, limit: u32) -> Result<Vec<JobId>, StoreError> {
    let doing = "purging records";
    let mut tx = store.pool().begin().await.map_err(unavailable(doing))?;
    sqlx::query!("delete from workers where seen_at <= now_micros() - $1", micros(WORKER_RECORD_LIFE))
        .execute(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
    let mut purged = Vec::new();
    if let Some(life) = store.policy().record_life.map(micros) {
        purged = sqlx::query_scalar!(
            r#"
            select id from jobs
            where finished_at is not null and finished_at <= now_micros() - $1
            order by finished_at, id
            limit $2
            for update skip locked
            "#,
            life,
            i64::from(limit)
        )
        .fetch_all(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
        bury(&mut tx, &purged, doing).await?;
    }
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(purged.into_iter().map(JobId::from_uuid).collect())
}

pub(crate) async fn forget_deleted(store: &PostgresStore, limit: u32) -> Result<usize, StoreError> {
    let doing = "forgetting deleted jobs";
    let mut tx = store.pool().begin().await.map_err(unavailable(doing))?;
    let requests = sqlx::query!(
        r#"
        with due as materialized (
            select tenant, token from submissions where expires_at <= now_micros()
            order by expires_at
            limit $1
            for update skip locked
        )
        delete from submissions s using due d where s.tenant = d.tenant and s.token = d.token
        "#,
        i64::from(limit)
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    let requests = usize::try_from(requests.rows_affected()).unwrap_or(usize::MAX);
    let jobs = match store.policy().record_life.map(micros) {
        Some(life) => forget_jobs(&mut tx, life, limit, doing).await?,
        None => 0,
    };
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(jobs.max(requests))
}

async fn forget_jobs(tx: &mut PgConnection, life: i64, limit: u32, doing: &'static str) -> Result<usize, StoreError> {
    let forgotten = sqlx::query_scalar!(
        r#"
        with due as materialized (
            select id from deleted_jobs where deleted_at <= now_micros() - $1
            order by deleted_at
            limit $2
            for update skip locked
        ),
        forgotten as (
            delete from deleted_jobs where id in (select id from due)
            returning id
        ),
        untold as (
            delete from deliveries d using forgotten f where d.job_id = f.id
        )
        select count(*) as "forgotten!" from forgotten
        "#,
        life,
        i64::from(limit)
    )
    .fetch_one(tx)
    .await
    .map_err(unavailable(doing))?;
    number("deleted_jobs", forgotten)
}

pub(crate) async fn next_due(store: &PostgresStore, after: Micros) -> Result<Option<Micros>, StoreError> {
    let moment = sqlx::query_scalar!(
        r#"
        select min(moment) from (
            select min(run_at) as moment from jobs where worker is null and finished_at is null and run_at > $1
            union all
            select min(start_by) from jobs where start_by is not null and finished_at is null and start_by > $1
            union all
            select min(lease_expires_at) from jobs where state = 'running' and lease_expires_at > $1
            union all
            select min(result_expires_at) from jobs where result_key is not null and result_expires_at > $1
            union all
            select min(finished_at) + $2 from jobs where finished_at is not null and finished_at > $1 - $2
            union all
            select min(deleted_at) + $2 from deleted_jobs where deleted_at > $1 - $2
            union all
            select min(collect_after) from objects where standing = 'garbage' and collect_after > $1
        ) moments
        "#,
        after.0,
        store.policy().record_life.map(micros)
    )
    .fetch_one(store.pool())
    .await
    .map_err(unavailable("looking for the next moment that matters"))?;
    Ok(moment.map(Micros))
}
