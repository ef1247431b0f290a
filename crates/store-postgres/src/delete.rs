//! Deleting jobs: what is left of them, and what becomes of what they named.

use clapboard_jobs::{JobId, JobState, StoreError, Tenant};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::unavailable;
use crate::rows::parse;
use crate::store::PostgresStore;

pub(crate) async fn delete(store: &PostgresStore, tenant: &Tenant, id: JobId) -> Result<Option<JobState>, StoreError> {
    let doing = "deleting a job";
    let mut tx = store.pool().begin().await.map_err(unavailable(doing))?;
    // Locked first: what the second statement sums up is then no longer being written.
    let state = sqlx::query_scalar!(
        "select state from jobs where id = $1 and tenant = $2 for update",
        id.as_uuid(),
        tenant.as_str()
    )
    .fetch_optional(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    let Some(state) = state else {
        return Ok(None);
    };
    bury(&mut tx, &[id.as_uuid()], doing).await?;
    tx.commit().await.map_err(unavailable(doing))?;
    parse("state", &state).map(Some)
}

/// Deletes jobs that this transaction has locked. What they used stays counted, what they named becomes garbage: a worker
/// that still runs one stops at the latest when its lease would have ended.
pub(crate) async fn bury(tx: &mut PgConnection, ids: &[Uuid], doing: &'static str) -> Result<(), StoreError> {
    sqlx::query!(
        r#"
        with gone as materialized (
            select id, tenant, state, created_at, cost_tflop, lease_expires_at from jobs where id = any($1)
        ),
        used as (
            insert into tenant_usage as u (tenant, completed, tflop, worker_micros)
            select
                g.tenant,
                count(*) filter (where g.state = 'completed'),
                coalesce(sum(g.cost_tflop) filter (where g.state = 'completed'), 0.0),
                coalesce(sum(ran.micros), 0)::bigint
            from gone g
            left join lateral (
                select sum(greatest(coalesce(a.ended_at, now_micros()) - a.begun_at, 0)) as micros
                from job_attempts a
                where a.job_id = g.id and a.begun_at is not null
            ) ran on true
            group by g.tenant
            -- One order for all, so that no two wait for each other.
            order by g.tenant
            on conflict (tenant) do update
            set completed = u.completed + excluded.completed, tflop = u.tflop + excluded.tflop,
                worker_micros = u.worker_micros + excluded.worker_micros
        ),
        discarded as (
            update objects o
            set standing = 'garbage', collect_after = greatest(coalesce(g.lease_expires_at, 0), now_micros())
            from gone g
            where o.job_id = g.id and o.standing <> 'garbage'
        ),
        left_over as (
            insert into deleted_jobs (id, tenant, created_at, deleted_at)
            select id, tenant, created_at, now_micros() from gone
            on conflict (id) do update
            set tenant = excluded.tenant, created_at = excluded.created_at, deleted_at = excluded.deleted_at
        )
        delete from jobs j using gone g where j.id = g.id
        "#,
        ids
    )
    .execute(tx)
    .await
    .map_err(unavailable(doing))?;
    Ok(())
}
