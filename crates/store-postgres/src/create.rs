//! Making a job.
//!
//! For most tenants it is one statement. It waits only for other creates of the same tenant in the same partition, whose
//! ranks follow one another; the partition's virtual time is read without a lock, since a rank that is off by the job
//! being claimed just now is as fair. The jobs of a tenant with a cap on its queue are counted while its row is locked. A job
//! with inputs is made in the transaction that makes them its own.

use clapboard_jobs::{CapacityClass, Job, NewJob, StoreError, Weight, rank};
use sqlx::PgConnection;

use crate::error::{Refusal, unavailable};
use crate::inputs;
use crate::rows::{column, job_rows, text};
use crate::store::{PostgresStore, micros};

const DOING: &str = "creating a job";

pub(crate) async fn create(store: &PostgresStore, new: &NewJob) -> Result<Job, StoreError> {
    if !new.inputs.is_empty() {
        return create_with_inputs(store, new).await;
    }
    let mut connection = store.pool().acquire().await.map_err(unavailable(DOING))?;
    if let Some(job) = insert(&mut connection, store, new, false).await? {
        return Ok(job);
    }
    drop(connection);
    // The tenant has a cap: look at it under the lock.
    let mut tx = store.pool().begin().await.map_err(unavailable(DOING))?;
    require_room(&mut tx, new).await?;
    let job = insert(&mut tx, store, new, true).await?;
    tx.commit().await.map_err(unavailable(DOING))?;
    job.ok_or_else(no_row)
}

async fn create_with_inputs(store: &PostgresStore, new: &NewJob) -> Result<Job, StoreError> {
    let mut tx = store.pool().begin().await.map_err(unavailable(DOING))?;
    // Before the job, so that other creates of the tenant wait for as little as possible.
    if !inputs::take(&mut tx, new.id, &new.inputs, DOING).await? {
        // The inputs of a job that is there already are its own: its create is sent again.
        let gone = StoreError::InputsGone { id: new.id };
        return Err(if exists(&mut tx, new).await? { StoreError::Duplicate { id: new.id } } else { gone });
    }
    let job = match insert(&mut tx, store, new, false).await? {
        Some(job) => Some(job),
        None => {
            require_room(&mut tx, new).await?;
            insert(&mut tx, store, new, true).await?
        }
    };
    tx.commit().await.map_err(unavailable(DOING))?;
    job.ok_or_else(no_row)
}

fn no_row() -> StoreError {
    StoreError::Unavailable { doing: DOING, source: "the insert returned no row".into() }
}

async fn exists(tx: &mut PgConnection, new: &NewJob) -> Result<bool, StoreError> {
    let found = sqlx::query_scalar!(r#"select id from jobs where id = $1"#, new.id.as_uuid())
        .fetch_optional(tx)
        .await
        .map_err(unavailable(DOING))?;
    Ok(found.is_some())
}

/// Locks the tenant's row and counts its waiting jobs, no further than the cap.
async fn require_room(tx: &mut PgConnection, new: &NewJob) -> Result<(), StoreError> {
    let tenant = &new.tenant;
    let most = sqlx::query_scalar!("select max_queued from tenants where tenant = $1 for update", tenant.as_str())
        .fetch_optional(&mut *tx)
        .await
        .map_err(unavailable(DOING))?
        .flatten();
    let Some(most) = most else {
        return Ok(());
    };
    let waiting = sqlx::query_scalar!(
        r#"
        select count(*) as "waiting!" from (
            select from jobs
            -- Claimed ones that have not begun have the same status; they are few.
            where tenant collate "POSIX" = $1 and job_status(state, begun_at is not null) = 'queued'
                and lease_expires_at is null
            limit $2
        ) counted
        "#,
        tenant.as_str(),
        most
    )
    .fetch_one(&mut *tx)
    .await
    .map_err(unavailable(DOING))?;
    if waiting >= most {
        // Who sends a create again learns that it has succeeded, not that the queue is full of it.
        if exists(tx, new).await? {
            return Err(StoreError::Duplicate { id: new.id });
        }
        let limit = u32::try_from(most).unwrap_or(u32::MAX);
        return Err(StoreError::QueueFull { tenant: tenant.clone(), limit });
    }
    Ok(())
}

/// Inserts the job; none when its tenant has a cap on its queue and this is not `under_lock`.
async fn insert(
    connection: &mut PgConnection,
    store: &PostgresStore,
    new: &NewJob,
    under_lock: bool,
) -> Result<Option<Job>, StoreError> {
    let inserted = job_rows!(
        r#"
        with allowed as materialized (
            select coalesce((select weight from tenants where tenant = $2), $15) as weight
            where $16 or not exists (select from tenants where tenant = $2 and max_queued is not null)
        ),
        opened as (
            insert into queue_clocks (partition)
            select $4 where not exists (select from queue_clocks where partition = $4)
            on conflict do nothing
        ),
        clock as (
            insert into tenant_clocks as c (partition, tenant, finish)
            select
                $4, $2, coalesce((select virtual_time from queue_clocks where partition = $4), 0.0) + $10 / weight
            from allowed
            on conflict (partition, tenant) do update
            set finish = greatest(excluded.finish, c.finish + $10 / (select weight from allowed))
            returning finish
        ),
        made as (
            insert into jobs (
                id, tenant, model, partition, capacity_class, rows, priority, spec_version, spec, cost_tflop, rank,
                virtual_finish, created_at, run_at, start_by, max_attempts
            )
            select
                $1, $2, $3, $4, $5, $6, $7, $8, ($9::text)::json, $11, finish + $12,
                finish, now_micros(), now_micros(), now_micros() + $13, $14
            from clock
            returning *
        )
        "#,
        "from made",
        new.id.as_uuid(),
        new.tenant.as_str(),
        text(&new.model),
        new.partition.as_str(),
        i32::from(CapacityClass::of_rows(new.rows).number()),
        column("rows", new.rows)?,
        new.priority.as_str(),
        i64::from(new.spec.version),
        new.spec.json,
        rank::share(new.cost_tflop),
        new.cost_tflop,
        new.priority.penalty(),
        new.start_within.map(micros),
        i64::from(store.policy().max_attempts),
        Weight::DEFAULT.get(),
        under_lock
    )
    .fetch_optional(connection)
    .await;
    match inserted {
        Ok(row) => row.map(Job::try_from).transpose(),
        Err(error) if Refusal::of(&error) == Refusal::Duplicate => Err(StoreError::Duplicate { id: new.id }),
        Err(error) => Err(unavailable(DOING)(error)),
    }
}
