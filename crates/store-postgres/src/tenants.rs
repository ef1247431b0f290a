//! What tenants may have, by which keys they are known, and what they have used.

use clapboard_jobs::{KeyHash, StoreError, Tenant, TenantLimits, Usage};

use crate::error::unavailable;
use crate::rows::{number, parse};
use crate::store::PostgresStore;

pub(crate) async fn set(store: &PostgresStore, tenant: &Tenant, limits: &TenantLimits) -> Result<(), StoreError> {
    sqlx::query!(
        r#"
        insert into tenants (tenant, weight, max_running, max_queued) values ($1, $2, $3, $4)
        on conflict (tenant) do update
        set weight = excluded.weight, max_running = excluded.max_running, max_queued = excluded.max_queued
        "#,
        tenant.as_str(),
        limits.weight.get(),
        limits.max_running.map(i64::from),
        limits.max_queued.map(i64::from)
    )
    .execute(store.pool())
    .await
    .map_err(unavailable("setting the limits of a tenant"))?;
    Ok(())
}

pub(crate) async fn add_key(store: &PostgresStore, key: &KeyHash, tenant: &Tenant) -> Result<(), StoreError> {
    sqlx::query!(
        r#"
        insert into api_keys (hash, tenant, created_at) values ($1, $2, now_micros())
        on conflict (hash) do update set tenant = excluded.tenant
        "#,
        key.0.as_slice(),
        tenant.as_str()
    )
    .execute(store.pool())
    .await
    .map_err(unavailable("adding an API key"))?;
    Ok(())
}

pub(crate) async fn of_key(store: &PostgresStore, key: &KeyHash) -> Result<Option<Tenant>, StoreError> {
    let found = sqlx::query_scalar!("select tenant from api_keys where hash = $1", key.0.as_slice())
        .fetch_optional(store.pool())
        .await
        .map_err(unavailable("looking up an API key"))?;
    found.map(|tenant| parse("tenant", &tenant)).transpose()
}

pub(crate) async fn usage(store: &PostgresStore) -> Result<Vec<Usage>, StoreError> {
    let found = sqlx::query!(
        r#"
        select
            tenant as "tenant!", sum(completed)::bigint as "completed!", sum(tflop) as "tflop!",
            sum(worker_micros)::bigint as "worker_micros!"
        from (
            select tenant, completed, tflop, worker_micros from tenant_usage
            union all
            select tenant, count(*), sum(cost_tflop), 0 from jobs where state = 'completed' group by tenant
            union all
            select j.tenant, 0, 0.0, sum(greatest(a.ended_at - a.begun_at, 0))::bigint
            from job_attempts a join jobs j on j.id = a.job_id
            where a.begun_at is not null and a.ended_at is not null
            group by j.tenant
        ) parts
        group by tenant
        order by tenant
        "#
    )
    .fetch_all(store.pool())
    .await
    .map_err(unavailable("summing up usage"))?;
    let mut all = Vec::with_capacity(found.len());
    for row in found {
        all.push(Usage {
            tenant: parse("tenant", &row.tenant)?,
            completed: number("completed", row.completed)?,
            tflop: row.tflop,
            worker_seconds: row.worker_micros as f64 / 1e6,
        });
    }
    Ok(all)
}
