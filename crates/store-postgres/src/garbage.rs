//! Which objects no row names any more.

use clapboard_jobs::{BlobKey, StoreError, backoff};

use crate::error::unavailable;
use crate::rows::parse;
use crate::store::{PostgresStore, micros};

fn columns(keys: &[BlobKey]) -> Vec<String> {
    keys.iter().map(|key| key.as_str().to_owned()).collect()
}

fn keys(found: Vec<String>) -> Result<Vec<BlobKey>, StoreError> {
    found.into_iter().map(|key| parse("key", &key)).collect()
}

/// Passes over what is locked: somebody is taking care of it, or is making a job whose input it is.
pub(crate) async fn garbage(store: &PostgresStore, limit: u32) -> Result<Vec<BlobKey>, StoreError> {
    let found = sqlx::query_scalar!(
        r#"
        select key from objects
        where standing = 'garbage' and collect_after <= now_micros()
        order by collect_after
        limit $1
        for update skip locked
        "#,
        i64::from(limit)
    )
    .fetch_all(store.pool())
    .await
    .map_err(unavailable("looking for garbage"))?;
    keys(found)
}

pub(crate) async fn forget(store: &PostgresStore, keys: &[BlobKey]) -> Result<(), StoreError> {
    sqlx::query!("delete from objects where key = any($1) and standing = 'garbage'", &columns(keys))
        .execute(store.pool())
        .await
        .map_err(unavailable("forgetting collected garbage"))?;
    Ok(())
}

pub(crate) async fn postpone(store: &PostgresStore, keys: &[BlobKey]) -> Result<(), StoreError> {
    let waits: Vec<i64> =
        (1..=backoff::GARBAGE_STEPS).map(|failures| micros(backoff::garbage_delay(failures))).collect();
    sqlx::query!(
        r#"
        update objects
        set failures = failures + 1,
            collect_after = now_micros() + ($2::bigint[])[least(failures + 1, cardinality($2::bigint[]))]
        -- What another sweep has put off just now is put off once.
        where key = any($1) and standing = 'garbage' and collect_after <= now_micros()
        "#,
        &columns(keys),
        &waits
    )
    .execute(store.pool())
    .await
    .map_err(unavailable("putting garbage off"))?;
    Ok(())
}

pub(crate) async fn unnamed(store: &PostgresStore, asked: &[BlobKey]) -> Result<Vec<BlobKey>, StoreError> {
    let found = sqlx::query_scalar!(
        r#"
        select a.key as "key!"
        from unnest($1::text[]) with ordinality as a (key, place)
        where not exists (select from objects o where o.key = a.key)
        order by a.place
        "#,
        &columns(asked)
    )
    .fetch_all(store.pool())
    .await
    .map_err(unavailable("looking for objects that no row names"))?;
    keys(found)
}
