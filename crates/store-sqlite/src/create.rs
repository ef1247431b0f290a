//! Making a job.

use clapboard_jobs::{Job, JobId, Micros, NewJob, Secret, StoreError, TraceParent, Weight, rank};

use crate::error::{unavailable, unreadable};
use crate::rows::{self, column};
use crate::store::SqliteStore;
use crate::{endpoints, objects, read, retention, room, submissions};

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
    if let Some(submission) = &new.submission {
        submissions::keep(&mut tx, &new.tenant, submission, new.id, now, doing).await?;
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
    let (metadata, remixed_from) = (rows::metadata(&new.metadata)?, new.remixed_from.map(JobId::as_uuid));
    let (hook_url, hook_notices) = match &new.hook {
        Some(hook) => (Some(hook.url.as_str()), Some(endpoints::names(&hook.notices)?)),
        None => (None, None),
    };
    if new.hook.is_some() {
        // There is then something that signs when the job has ended.
        endpoints::keep_hook_secret(&mut tx, &new.tenant, &Secret::random(), doing).await?;
    }
    let trace = new.trace.as_ref().map(TraceParent::as_str);
    let result_life = new.result_life.map(retention::micros);
    let start_by = new.start_within.map(|within| Micros(now).plus(within).0);
    sqlx::query!(
        r#"
        insert into jobs (
            id, tenant, model, partition, spec_version, spec, cost_tflop, rows, priority, rank,
            created_at, run_at, start_by, max_attempts, result_life, metadata, end_user, stage_metrics, remixed_from,
            hook_url, hook_notices, trace
        )
        values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)
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
        max_attempts,
        result_life,
        metadata,
        new.told.user,
        new.told.stage_metrics,
        remixed_from,
        hook_url,
        hook_notices,
        trace
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
