//! The objects that rows name, are about to name, or named once.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use clapboard_jobs::{BlobKey, JobId, StoreError, backoff};
use sqlx::SqliteConnection;
use uuid::Uuid;

use crate::error::{unavailable, unreadable};
use crate::rows::number;
use crate::store::SqliteStore;

/// Takes note of a key that a claim is about to write. What is known of it already stays.
pub(crate) async fn expect(
    tx: &mut SqliteConnection,
    key: &str,
    job: Uuid,
    doing: &'static str,
) -> Result<(), StoreError> {
    sqlx::query!(
        "insert into objects (key, job_id, standing) values (?, ?, 'expected') on conflict (key) do nothing",
        key,
        job
    )
    .execute(tx)
    .await
    .map_err(unavailable(doing))?;
    Ok(())
}

/// Takes note of the inputs of a job that is about to be made: they are garbage of a later moment. What is known of a key
/// already stays.
pub(crate) async fn expect_inputs(
    store: &SqliteStore,
    job: JobId,
    keys: &[BlobKey],
    life: Duration,
) -> Result<(), StoreError> {
    let doing = "expecting the inputs of a job";
    let mut tx = store.begin(doing).await?;
    let (job, collect_after) = (job.as_uuid(), store.now().plus(life).0);
    for key in keys {
        let key = key.as_str();
        sqlx::query!(
            r#"
            insert into objects (key, job_id, standing, collect_after) values (?, ?, 'garbage', ?)
            on conflict (key) do nothing
            "#,
            key,
            job,
            collect_after
        )
        .execute(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
    }
    tx.commit().await.map_err(unavailable(doing))
}

/// Lets what was noted for a job that will not be made be collected at once. What a job had is left alone: the worker of one
/// that was deleted may still be reading it, and garbage that could not be deleted waits on.
pub(crate) async fn abandon_inputs(store: &SqliteStore, job: JobId, keys: &[BlobKey]) -> Result<(), StoreError> {
    let doing = "giving up the inputs of a job";
    let mut tx = store.begin(doing).await?;
    let (job, now) = (job.as_uuid(), store.now().0);
    for key in keys {
        let key = key.as_str();
        sqlx::query!(
            r#"
            update objects set collect_after = ?3
            where key = ?1 and job_id = ?2 and standing = 'garbage' and collect_after > ?3 and failures = 0
                and not exists (select 1 from jobs where id = ?2)
                and not exists (select 1 from deleted_jobs where id = ?2)
            "#,
            key,
            job,
            now
        )
        .execute(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
    }
    tx.commit().await.map_err(unavailable(doing))
}

/// Makes what was noted for the job its inputs, and tells whether all of `keys` are.
pub(crate) async fn take_inputs(
    tx: &mut SqliteConnection,
    job: JobId,
    keys: &[BlobKey],
    now: i64,
    doing: &'static str,
) -> Result<bool, StoreError> {
    let job = job.as_uuid();
    for key in keys.iter().collect::<BTreeSet<&BlobKey>>() {
        let key = key.as_str();
        let taken = sqlx::query!(
            r#"
            update objects set standing = 'input', collect_after = null
            where key = ? and job_id = ? and standing = 'garbage' and collect_after > ?
            "#,
            key,
            job,
            now
        )
        .execute(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
        if taken.rows_affected() == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes down that the job's row names an object that was expected, and returns how many such there were.
pub(crate) async fn name(
    tx: &mut SqliteConnection,
    key: &str,
    job: Uuid,
    doing: &'static str,
) -> Result<u64, StoreError> {
    let named = sqlx::query!(
        "update objects set standing = 'named' where key = ? and job_id = ? and standing = 'expected'",
        key,
        job
    )
    .execute(tx)
    .await
    .map_err(unavailable(doing))?;
    Ok(named.rows_affected())
}

/// Makes one object that was named garbage, to be collected at once.
pub(crate) async fn discard(
    tx: &mut SqliteConnection,
    key: &str,
    now: i64,
    doing: &'static str,
) -> Result<(), StoreError> {
    sqlx::query!(
        "update objects set standing = 'garbage', collect_after = ? where key = ? and standing = 'named'",
        now,
        key
    )
    .execute(tx)
    .await
    .map_err(unavailable(doing))?;
    Ok(())
}

/// Makes all objects of a job that nobody holds garbage, except those that its row names, which are its result with the pictures
/// of it and the checkpoint where it can go on, and the inputs of one that can still run. Those that were stored can be collected
/// from `now` on, those that were only expected when nobody can still be putting them: from `puts_end` on.
pub(crate) async fn discard_unnamed(
    tx: &mut SqliteConnection,
    job: Uuid,
    puts_end: i64,
    now: i64,
    doing: &'static str,
) -> Result<(), StoreError> {
    sqlx::query!(
        r#"
        update objects
        set standing = 'garbage', collect_after = case when standing = 'expected' then ?2 else ?3 end
        where job_id = ?1 and standing <> 'garbage' and not exists (
            select 1 from jobs where jobs.id = ?1 and (
                objects.key in (jobs.result_key, jobs.checkpoint_key)
                or objects.key in (select value ->> '$.key' from json_each(jobs.previews))
                or objects.standing = 'input' and jobs.state not in ('completed', 'cancelled')
            )
        )
        "#,
        job,
        puts_end,
        now
    )
    .execute(tx)
    .await
    .map_err(unavailable(doing))?;
    Ok(())
}

/// Makes all objects of a job that is about to be deleted garbage.
pub(crate) async fn discard_all(
    tx: &mut SqliteConnection,
    job: Uuid,
    collect_after: i64,
    doing: &'static str,
) -> Result<(), StoreError> {
    sqlx::query!(
        "update objects set standing = 'garbage', collect_after = ? where job_id = ? and standing <> 'garbage'",
        collect_after,
        job
    )
    .execute(tx)
    .await
    .map_err(unavailable(doing))?;
    Ok(())
}

pub(crate) async fn garbage(store: &SqliteStore, limit: u32) -> Result<Vec<BlobKey>, StoreError> {
    let doing = "looking for garbage";
    // Among the writers, so that no job is being made meanwhile whose input a reader would still take for garbage.
    let mut tx = store.begin(doing).await?;
    let (now, limit) = (store.now().0, i64::from(limit));
    let keys = sqlx::query_scalar!(
        "select key from objects where standing = 'garbage' and collect_after <= ? order by collect_after limit ?",
        now,
        limit
    )
    .fetch_all(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    keys.into_iter().map(|key| key.parse().map_err(unreadable("key"))).collect()
}

pub(crate) async fn forget(store: &SqliteStore, keys: &[BlobKey]) -> Result<(), StoreError> {
    let doing = "forgetting collected garbage";
    let mut tx = store.begin(doing).await?;
    for key in keys {
        let key = key.as_str();
        sqlx::query!("delete from objects where key = ? and standing = 'garbage'", key)
            .execute(&mut *tx)
            .await
            .map_err(unavailable(doing))?;
    }
    tx.commit().await.map_err(unavailable(doing))
}

pub(crate) async fn postpone(store: &SqliteStore, keys: &[BlobKey]) -> Result<(), StoreError> {
    let doing = "putting garbage off";
    let mut tx = store.begin(doing).await?;
    let now = store.now();
    for key in keys {
        let key = key.as_str();
        let failures = sqlx::query_scalar!(
            r#"
            update objects set failures = failures + 1
            -- What another sweep has put off just now is put off once.
            where key = ? and standing = 'garbage' and collect_after <= ?
            returning failures
            "#,
            key,
            now.0
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
        let Some(failures) = failures else {
            continue;
        };
        let collect_after = now.plus(backoff::garbage_delay(number("failures", failures)?)).0;
        sqlx::query!("update objects set collect_after = ? where key = ?", collect_after, key)
            .execute(&mut *tx)
            .await
            .map_err(unavailable(doing))?;
    }
    tx.commit().await.map_err(unavailable(doing))
}

pub(crate) async fn unnamed(store: &SqliteStore, keys: &[BlobKey]) -> Result<Vec<BlobKey>, StoreError> {
    let asked = serde_json::to_string(keys).map_err(unreadable("key"))?;
    let named: HashSet<String> =
        sqlx::query_scalar!("select key from objects where key in (select value from json_each(?))", asked)
            .fetch_all(store.readers())
            .await
            .map_err(unavailable("looking for objects that no row names"))?
            .into_iter()
            .collect();
    Ok(keys.iter().filter(|key| !named.contains(key.as_str())).cloned().collect())
}
