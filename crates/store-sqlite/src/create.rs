//! Making a job.

use clapboard_jobs::{Job, Micros, NewJob, StoreError, Weight, rank};

use crate::error::{unavailable, unreadable};
use crate::objects;
use crate::read;
use crate::room;
use crate::rows::column;
use crate::store::SqliteStore;

pub(crate) async fn create(store: &SqliteStore, new: NewJob) -> Result<Job, StoreError> {
    let doing = "creating a job";
    let mut tx = store.begin(doing).await?;
    let now = store.now().0;
    let (id, tenant, partition) = (new.id.as_uuid(), new.tenant.as_str(), new.partition.as_str());

    let known = sqlx::query!(
        r#"
        select
            exists (select 1 from jobs where id = ?3) as "exists!: bool",
            (select weight from tenants where tenant = ?2) as "weight: f64",
            (select max_queued from tenants where tenant = ?2) as "max_queued: u32",
            coalesce((select virtual_time from queue_clocks where partition = ?1), 0.0) as "virtual_time!: f64",
            coalesce((select finish from tenant_clocks where partition = ?1 and tenant = ?2), 0.0) as "finish!: f64"
        "#,
        partition,
        tenant,
        id
    )
    .fetch_one(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    if known.exists {
        return Err(StoreError::Duplicate { id: new.id });
    }
    if !objects::take_inputs(&mut tx, new.id, &new.inputs, now, doing).await? {
        return Err(StoreError::InputsGone { id: new.id });
    }
    if let Some(limit) = known.max_queued {
        room::require(&mut tx, &new.tenant, limit, doing).await?;
    }
    let weight = known.weight.map(Weight::new).transpose().map_err(unreadable("weight"))?.unwrap_or_default();
    let finish = rank::virtual_finish(known.virtual_time, known.finish, new.cost_tflop, weight);
    let rank = finish + new.priority.penalty();

    let max_attempts = i64::from(store.policy().max_attempts);
    let spec_version = i64::from(new.spec.version);
    let rows = column("rows", new.rows)?;
    let priority = new.priority.as_str();
    let start_by = new.start_within.map(|within| Micros(now).plus(within).0);
    sqlx::query!(
        r#"
        insert into jobs (
            id, tenant, model, partition, spec_version, spec, cost_tflop, rows, priority, rank,
            created_at, run_at, start_by, max_attempts
        )
        values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11, ?12, ?13)
        "#,
        id,
        tenant,
        new.model,
        partition,
        spec_version,
        new.spec.json,
        new.cost_tflop,
        rows,
        priority,
        rank,
        now,
        start_by,
        max_attempts
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    sqlx::query!("insert into queue_clocks (partition) values (?) on conflict do nothing", partition)
        .execute(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
    sqlx::query!(
        r#"
        insert into tenant_clocks (partition, tenant, finish) values (?1, ?2, ?3)
        on conflict (partition, tenant) do update set finish = excluded.finish
        "#,
        partition,
        tenant,
        finish
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;

    let job = read::load(&mut tx, new.id, doing).await?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(job)
}
