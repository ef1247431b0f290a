//! The inputs of a job, from before it is made until they are its own.
//!
//! An input that was noted is garbage of a later moment. The sweep takes it from that moment on and a create before it, and
//! the two never meet: the create holds the row's lock since before the moment at which it looks, and the sweep passes over
//! rows that are locked.

use std::time::Duration;

use clapboard_jobs::{BlobKey, JobId, StoreError};
use sqlx::PgConnection;

use crate::error::unavailable;
use crate::store::{PostgresStore, micros};

/// Returns keys as an array of the server's, in one order for all and each of them once.
fn columns(keys: &[BlobKey]) -> Vec<String> {
    let mut columns: Vec<String> = keys.iter().map(|key| key.as_str().to_owned()).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

pub(crate) async fn expect(
    store: &PostgresStore,
    job: JobId,
    keys: &[BlobKey],
    life: Duration,
) -> Result<(), StoreError> {
    sqlx::query!(
        r#"
        insert into objects (key, job_id, standing, collect_after)
        select key, $2, 'garbage', now_micros() + $3 from unnest($1::text[]) as n (key)
        on conflict do nothing
        "#,
        &columns(keys),
        job.as_uuid(),
        micros(life)
    )
    .execute(store.pool())
    .await
    .map_err(unavailable("expecting the inputs of a job"))?;
    Ok(())
}

/// Lets what was noted for a job that will not be made be collected at once. What a job had is left alone: the worker of one
/// that was deleted may still be reading it, and garbage that could not be deleted waits on. Where a create is taking the rows
/// this waits for it and then finds them taken.
pub(crate) async fn abandon(store: &PostgresStore, job: JobId, keys: &[BlobKey]) -> Result<(), StoreError> {
    sqlx::query!(
        r#"
        update objects set collect_after = now_micros()
        where key = any($1) and job_id = $2 and standing = 'garbage' and collect_after > now_micros() and failures = 0
            and not exists (select from jobs where id = $2)
            and not exists (select from deleted_jobs where id = $2)
        "#,
        &columns(keys),
        job.as_uuid()
    )
    .execute(store.pool())
    .await
    .map_err(unavailable("giving up the inputs of a job"))?;
    Ok(())
}

/// Makes what was noted for the job its inputs, and tells whether all of `keys` are.
pub(crate) async fn take(
    tx: &mut PgConnection,
    job: JobId,
    keys: &[BlobKey],
    doing: &'static str,
) -> Result<bool, StoreError> {
    let keys = columns(keys);
    // Locked by a statement of its own: the next one's moment is later than the lock.
    sqlx::query!(
        "select from objects where key = any($1) and job_id = $2 order by key for update",
        &keys,
        job.as_uuid()
    )
    .fetch_all(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    let taken = sqlx::query!(
        r#"
        update objects set standing = 'input', collect_after = null
        where key = any($1) and job_id = $2 and standing = 'garbage' and collect_after > now_micros()
        "#,
        &keys,
        job.as_uuid()
    )
    .execute(tx)
    .await
    .map_err(unavailable(doing))?;
    Ok(usize::try_from(taken.rows_affected()) == Ok(keys.len()))
}
