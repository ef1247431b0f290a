//! Where a job can be gone on with.

use clapboard_jobs::{Checkpoint, Lease, LeaseError};

use crate::error::unavailable;
use crate::held::Held;
use crate::objects;
use crate::rows::column;
use crate::store::SqliteStore;

pub(crate) async fn expect(store: &SqliteStore, lease: &Lease, step: u32) -> Result<(), LeaseError> {
    let doing = "expecting a checkpoint";
    let mut tx = store.begin(doing).await?;
    let held = Held::find(&mut tx, lease, doing).await?;
    objects::expect(&mut tx, lease.checkpoint_key(step).as_str(), held.job.as_uuid(), doing).await?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(())
}

pub(crate) async fn keep(store: &SqliteStore, lease: &Lease, checkpoint: &Checkpoint) -> Result<(), LeaseError> {
    let doing = "keeping a checkpoint";
    let expected = lease.checkpoint_key(checkpoint.step);
    let foreign =
        || LeaseError::ForeignObject { job: lease.job, found: checkpoint.key.clone(), expected: expected.clone() };
    if checkpoint.key != expected {
        return Err(foreign());
    }
    let mut tx = store.begin(doing).await?;
    let now = store.now().0;
    let held = Held::find(&mut tx, lease, doing).await?;
    let key = expected.as_str();
    if held.checkpoint_key.as_deref() == Some(key) {
        // Kept already: the answer to that was lost.
        return Ok(());
    }
    let (id, fence, token) = held.condition();
    if objects::name(&mut tx, key, id, doing).await? == 0 {
        return Err(foreign());
    }
    let step = i64::from(checkpoint.step);
    let size = column("checkpoint_size_bytes", checkpoint.size_bytes)?;
    let fingerprint = checkpoint.fingerprint.0.as_str();
    let kept = sqlx::query!(
        r#"
        update jobs
        set checkpoint_key = ?, checkpoint_step = ?, checkpoint_size_bytes = ?, checkpoint_sha256 = ?,
            checkpoint_fingerprint = ?
        where id = ? and fence = ? and claim_token = ? and state = 'running'
        "#,
        key,
        step,
        size,
        checkpoint.sha256,
        fingerprint,
        id,
        fence,
        token
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    held.applied(kept.rows_affected())?;
    if let Some(before) = &held.checkpoint_key {
        objects::discard(&mut tx, before, now, doing).await?;
    }
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(())
}
