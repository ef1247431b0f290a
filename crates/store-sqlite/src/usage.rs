//! What tenants have used: sums that are raised in the transaction that ends an attempt, and outlast its job.

use clapboard_jobs::{StoreError, Usage};
use sqlx::SqliteConnection;
use uuid::Uuid;

use crate::error::unavailable;
use crate::rows;
use crate::store::SqliteStore;

pub(crate) async fn read(store: &SqliteStore) -> Result<Vec<Usage>, StoreError> {
    let sums = sqlx::query!("select tenant, completed, tflop, worker_micros from tenant_usage order by tenant")
        .fetch_all(store.readers())
        .await
        .map_err(unavailable("reading what tenants have used"))?;
    sums.into_iter()
        .map(|row| {
            Ok(Usage {
                tenant: rows::parse("tenant", &row.tenant)?,
                completed: rows::number("completed", row.completed)?,
                tflop: row.tflop,
                worker_seconds: row.worker_micros as f64 / 1e6,
            })
        })
        .collect()
}

/// Adds the time from the begin of the job's open attempt until now, if it has one that has begun.
pub(crate) async fn add_time(
    tx: &mut SqliteConnection,
    job: Uuid,
    now: i64,
    doing: &'static str,
) -> Result<(), StoreError> {
    sqlx::query!(
        r#"
        insert into tenant_usage (tenant, worker_micros)
        select j.tenant, max(?2 - a.begun_at, 0)
        from job_attempts a
        join jobs j on j.id = a.job_id
        where a.job_id = ?1 and a.ended_at is null and a.begun_at is not null
        on conflict (tenant) do update set worker_micros = worker_micros + excluded.worker_micros
        "#,
        job,
        now
    )
    .execute(tx)
    .await
    .map_err(unavailable(doing))?;
    Ok(())
}

/// Adds a job that was completed just now.
pub(crate) async fn add_completed(tx: &mut SqliteConnection, job: Uuid, doing: &'static str) -> Result<(), StoreError> {
    sqlx::query!(
        r#"
        insert into tenant_usage (tenant, completed, tflop)
        select tenant, 1, cost_tflop from jobs where id = ?
        on conflict (tenant) do update
        set completed = completed + excluded.completed, tflop = tflop + excluded.tflop
        "#,
        job
    )
    .execute(tx)
    .await
    .map_err(unavailable(doing))?;
    Ok(())
}
