//! Partitions that hand out nothing for a while.

use clapboard_h3::Partition;
use clapboard_jobs::StoreError;

use crate::error::unavailable;
use crate::rows;
use crate::store::SqliteStore;

pub(crate) async fn set(store: &SqliteStore, partition: Partition, paused: bool) -> Result<(), StoreError> {
    let doing = "pausing a partition or letting it go on";
    let mut tx = store.begin(doing).await?;
    let name = partition.as_str();
    if paused {
        sqlx::query!("insert into paused_partitions (partition) values (?) on conflict do nothing", name)
            .execute(&mut *tx)
            .await
    } else {
        sqlx::query!("delete from paused_partitions where partition = ?", name).execute(&mut *tx).await
    }
    .map_err(unavailable(doing))?;
    tx.commit().await.map_err(unavailable(doing))
}

pub(crate) async fn read(store: &SqliteStore) -> Result<Vec<Partition>, StoreError> {
    let names = sqlx::query_scalar!("select partition from paused_partitions order by partition")
        .fetch_all(store.readers())
        .await
        .map_err(unavailable("reading the paused partitions"))?;
    names.iter().map(|name| rows::partition(name)).collect()
}
