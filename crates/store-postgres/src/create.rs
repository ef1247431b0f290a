//! Making a job.
//!
//! For most tenants it is one statement. It waits only for other creates of the same tenant in the same partition, whose
//! ranks follow one another; the partition's virtual time is read without a lock, since a rank that is off by the job
//! being claimed just now is as fair. The jobs of a tenant with a cap on its queue are counted while its row is locked. A job
//! with inputs is made in the transaction that makes them its own; so is one whose request is to be known again, and one with a
//! URL that hears of it.

use clapboard_jobs::{CapacityClass, Job, JobId, NewJob, Secret, StoreError, TraceParent, Weight, rank};
use sqlx::{PgConnection, Postgres, Transaction};

use crate::error::{Refusal, unavailable};
use crate::rows::{column, job_rows, metadata, text};
use crate::store::{PostgresStore, micros};
use crate::{endpoints, inputs, room, submissions};

const DOING: &str = "creating a job";

pub(crate) async fn create(store: &PostgresStore, new: &NewJob) -> Result<Job, StoreError> {
    if !new.inputs.is_empty() || new.submission.is_some() || new.hook.is_some() {
        return create_with_more(store, new).await;
    }
    let mut connection = store.pool().acquire().await.map_err(unavailable(DOING))?;
    if let Some(job) = insert(&mut connection, store, new, false).await? {
        return Ok(job);
    }
    drop(connection);
    // The tenant has a cap: look at it under the lock.
    let mut tx = store.pool().begin().await.map_err(unavailable(DOING))?;
    let made = create_under_lock(&mut tx, store, new).await;
    end(tx, made).await
}

async fn create_with_more(store: &PostgresStore, new: &NewJob) -> Result<Job, StoreError> {
    let mut tx = store.pool().begin().await.map_err(unavailable(DOING))?;
    let made = take_and_insert(&mut tx, store, new).await;
    end(tx, made).await
}

async fn take_and_insert(tx: &mut PgConnection, store: &PostgresStore, new: &NewJob) -> Result<Job, StoreError> {
    if let Some(submission) = &new.submission {
        // Who sends a create again under the same id is told so, as without a submission.
        if exists(tx, new).await? {
            return Err(StoreError::Duplicate { id: new.id });
        }
        match submissions::keep(tx, &new.tenant, submission, new.id, DOING).await {
            // The very same create has been committed while this one waited for its row.
            Err(StoreError::Resubmitted { job } | StoreError::KeyReused { job }) if job == new.id => {
                return Err(StoreError::Duplicate { id: new.id });
            }
            kept => kept?,
        }
    }
    if new.hook.is_some() {
        // There is then something that signs when the job has ended.
        endpoints::keep_hook_secret(tx, &new.tenant, &Secret::random(), DOING).await?;
    }
    // Before the job, so that other creates of the tenant wait for as little as possible.
    if !new.inputs.is_empty() && !inputs::take(tx, new.id, &new.inputs, DOING).await? {
        // The inputs of a job that is there already are its own: its create is sent again.
        let gone = StoreError::InputsGone { id: new.id };
        return Err(if exists(tx, new).await? { StoreError::Duplicate { id: new.id } } else { gone });
    }
    match insert(tx, store, new, false).await? {
        Some(job) => Ok(job),
        None => create_under_lock(tx, store, new).await,
    }
}

async fn create_under_lock(tx: &mut PgConnection, store: &PostgresStore, new: &NewJob) -> Result<Job, StoreError> {
    require_room(tx, new).await?;
    insert(tx, store, new, true).await?.ok_or_else(no_row)
}

/// Ends the transaction as its answer says. One that is dropped is rolled back later: whoever hears of the refusal would find
/// its inputs still locked, and a sweep passes over those.
async fn end(tx: Transaction<'static, Postgres>, made: Result<Job, StoreError>) -> Result<Job, StoreError> {
    match &made {
        Ok(_) => tx.commit().await.map_err(unavailable(DOING))?,
        // The refusal is the answer, whether or not the server hears of it.
        Err(_) => drop(tx.rollback().await),
    }
    made
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

/// Refuses a tenant whose queue is full, under the lock of its row.
async fn require_room(tx: &mut PgConnection, new: &NewJob) -> Result<(), StoreError> {
    match room::require_locked(tx, &new.tenant, DOING).await {
        // Who sends a create again learns that it has succeeded, not that the queue is full of it.
        Err(StoreError::QueueFull { .. }) if exists(tx, new).await? => Err(StoreError::Duplicate { id: new.id }),
        answer => answer,
    }
}

/// Inserts the job; none when its tenant has a cap on its queue and this is not `under_lock`.
async fn insert(
    connection: &mut PgConnection,
    store: &PostgresStore,
    new: &NewJob,
    under_lock: bool,
) -> Result<Option<Job>, StoreError> {
    let hook_notices = new.hook.as_ref().map(|hook| endpoints::names(&hook.notices));
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
                virtual_finish, created_at, run_at, start_by, max_attempts, result_life, metadata,
                end_user, stage_metrics, remixed_from, hook_url, hook_notices, trace
            )
            select
                $1, $2, $3, $4, $5, $6, $7, $8, ($9::text)::json, $11, finish + $12,
                finish, now_micros(), now_micros(), now_micros() + $13, $14, $17, ($18::text)::jsonb, $19, $20, $21, $22,
                $23::text[], $24
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
        under_lock,
        new.result_life.map(micros),
        metadata(&new.metadata)?,
        new.told.user.as_deref().map(text),
        new.told.stage_metrics,
        new.remixed_from.map(JobId::as_uuid),
        new.hook.as_ref().map(|hook| text(&hook.url)),
        hook_notices.as_deref(),
        new.trace.as_ref().map(TraceParent::as_str)
    )
    .fetch_optional(connection)
    .await;
    match inserted {
        Ok(row) => row.map(Job::try_from).transpose(),
        Err(error) if Refusal::of(&error) == Refusal::Duplicate => Err(StoreError::Duplicate { id: new.id }),
        Err(error) => Err(unavailable(DOING)(error)),
    }
}
