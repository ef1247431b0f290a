//! Where a next attempt can go on.

use clapboard_jobs::{Checkpoint, Lease, LeaseError};

use crate::error::unavailable;
use crate::held::Held;
use crate::rows::column;
use crate::store::PostgresStore;

pub(crate) async fn expect(store: &PostgresStore, lease: &Lease, step: u32) -> Result<(), LeaseError> {
    let doing = "expecting a checkpoint";
    let mut tx = store.pool().begin().await.map_err(unavailable(doing))?;
    Held::find(&mut tx, lease, doing).await?;
    let key = lease.checkpoint_key(step);
    sqlx::query!(
        "insert into objects (key, job_id, standing) values ($1, $2, 'expected') on conflict do nothing",
        key.as_str(),
        lease.job.as_uuid()
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(())
}

pub(crate) async fn keep(store: &PostgresStore, lease: &Lease, checkpoint: &Checkpoint) -> Result<(), LeaseError> {
    let doing = "keeping a checkpoint";
    let expected = lease.checkpoint_key(checkpoint.step);
    let foreign =
        || LeaseError::ForeignObject { job: lease.job, found: checkpoint.key.clone(), expected: expected.clone() };
    if checkpoint.key != expected {
        return Err(foreign());
    }
    let mut tx = store.pool().begin().await.map_err(unavailable(doing))?;
    Held::find(&mut tx, lease, doing).await?;
    let (id, key) = (lease.job.as_uuid(), expected.as_str());
    // A keep that is sent again finds the object named already.
    let named = sqlx::query!(
        r#"
        update objects set standing = 'named'
        where key = $1 and job_id = $2
            and (standing = 'expected' or exists (select from jobs where id = $2 and checkpoint_key = $1))
        "#,
        key,
        id
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    if named.rows_affected() == 0 {
        return Err(foreign());
    }
    sqlx::query!(
        r#"
        with replaced as (
            update objects o set standing = 'garbage', collect_after = now_micros()
            from jobs j
            where j.id = $1 and o.key = j.checkpoint_key and o.key <> $4
        )
        update jobs
        set checkpoint_key = $4, checkpoint_step = $5, checkpoint_size_bytes = $6, checkpoint_sha256 = $7,
            checkpoint_fingerprint = $8
        where id = $1 and fence = $2 and claim_token = $3 and state = 'running'
        "#,
        id,
        lease.fence.0,
        lease.token.0,
        key,
        i64::from(checkpoint.step),
        column("checkpoint_size_bytes", checkpoint.size_bytes)?,
        checkpoint.sha256,
        checkpoint.fingerprint.0
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(())
}
