//! Making a job.

use clapboard_jobs::{Job, NewJob, StoreError, rank};

use crate::error::unavailable;
use crate::read;
use crate::store::SqliteStore;

pub(crate) async fn create(store: &SqliteStore, new: NewJob) -> Result<Job, StoreError> {
    let doing = "creating a job";
    let mut tx = store.begin(doing).await?;
    let now = store.now().0;
    let (id, tenant, partition) = (new.id.as_uuid(), new.tenant.as_str(), new.partition.as_str());

    let clocks = sqlx::query!(
        r#"
        select
            coalesce((select virtual_time from queue_clocks where partition = ?1), 0.0) as "virtual_time!: f64",
            coalesce((select finish from tenant_clocks where partition = ?1 and tenant = ?2), 0.0) as "finish!: f64"
        "#,
        partition,
        tenant
    )
    .fetch_one(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    let rank = rank::virtual_finish(clocks.virtual_time, clocks.finish, new.cost_tflop, rank::DEFAULT_WEIGHT);

    let max_attempts = i64::from(store.policy().max_attempts);
    let spec_version = i64::from(new.spec.version);
    let inserted = sqlx::query!(
        r#"
        insert into jobs (
            id, tenant, model, partition, spec_version, spec, cost_tflop, rank, created_at, run_at, max_attempts
        )
        values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10)
        "#,
        id,
        tenant,
        new.model,
        partition,
        spec_version,
        new.spec.json,
        new.cost_tflop,
        rank,
        now,
        max_attempts
    )
    .execute(&mut *tx)
    .await;
    match inserted {
        Ok(_) => {}
        Err(error) if error.as_database_error().is_some_and(|refusal| refusal.is_unique_violation()) => {
            return Err(StoreError::Duplicate { id: new.id });
        }
        Err(error) => return Err(unavailable(doing)(error)),
    }

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
        rank
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;

    let job = read::load(&mut tx, new.id, doing).await?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(job)
}
