//! Which objects no row names any more.

use std::collections::HashSet;

use clapboard_jobs::{BlobKey, StoreError};

use crate::error::{unavailable, unreadable};
use crate::store::SqliteStore;

pub(crate) async fn garbage(store: &SqliteStore, limit: u32) -> Result<Vec<BlobKey>, StoreError> {
    let (now, limit) = (store.now().0, i64::from(limit));
    let keys = sqlx::query_scalar!(
        "select key from objects where standing = 'garbage' and collect_after <= ? order by collect_after limit ?",
        now,
        limit
    )
    .fetch_all(store.readers())
    .await
    .map_err(unavailable("looking for garbage"))?;
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
