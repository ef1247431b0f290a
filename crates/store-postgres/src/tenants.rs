//! What tenants may have, and what they have used.

use clapboard_jobs::{StoreError, Tenant, TenantLimits, Usage, Weight};

use crate::error::{unavailable, unreadable};
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

pub(crate) async fn list(store: &PostgresStore) -> Result<Vec<(Tenant, TenantLimits)>, StoreError> {
    let found = sqlx::query!("select tenant, weight, max_running, max_queued from tenants order by tenant")
        .fetch_all(store.pool())
        .await
        .map_err(unavailable("reading the limits of tenants"))?;
    let mut all = Vec::with_capacity(found.len());
    for row in found {
        let limits = TenantLimits {
            weight: Weight::new(row.weight).map_err(unreadable("weight"))?,
            max_running: row.max_running.map(|most| number("max_running", most)).transpose()?,
            max_queued: row.max_queued.map(|most| number("max_queued", most)).transpose()?,
        };
        all.push((parse("tenant", &row.tenant)?, limits));
    }
    Ok(all)
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
