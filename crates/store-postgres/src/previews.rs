//! Pictures of a result: objects of the claim that makes them, kept as long as the result is.

use clapboard_jobs::{JobId, Lease, LeaseError, Preview, PreviewKind};
use sqlx::PgConnection;

use crate::error::unavailable;
use crate::held::Held;
use crate::store::PostgresStore;

pub(crate) async fn expect(store: &PostgresStore, lease: &Lease) -> Result<(), LeaseError> {
    let doing = "expecting pictures of a result";
    let mut tx = store.pool().begin().await.map_err(unavailable(doing))?;
    Held::find(&mut tx, lease, doing).await?;
    let keys: Vec<String> = PreviewKind::ALL.iter().map(|&kind| lease.preview_key(kind).to_string()).collect();
    sqlx::query!(
        r#"
        insert into objects (key, job_id, standing)
        select key, $2, 'expected' from unnest($1::text[]) as n (key)
        on conflict do nothing
        "#,
        &keys,
        lease.job.as_uuid()
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(())
}

/// Refuses pictures that were not expected. The transaction has locked their job.
pub(crate) async fn require_expected(
    tx: &mut PgConnection,
    job: JobId,
    previews: &[Preview],
    doing: &'static str,
) -> Result<(), LeaseError> {
    if previews.is_empty() {
        return Ok(());
    }
    let expected = sqlx::query_scalar!(
        "select key from objects where key = any($1) and job_id = $2 and standing = 'expected'",
        &keys(previews),
        job.as_uuid()
    )
    .fetch_all(tx)
    .await
    .map_err(unavailable(doing))?;
    let unknown = |preview: &&Preview| !expected.iter().any(|key| key == preview.object.key.as_str());
    match previews.iter().find(unknown) {
        Some(preview) => Err(LeaseError::foreign_preview(job, preview, preview.object.key.clone())),
        None => Ok(()),
    }
}

/// Returns the keys of pictures as an array of the server's.
pub(crate) fn keys(previews: &[Preview]) -> Vec<String> {
    previews.iter().map(|preview| preview.object.key.to_string()).collect()
}
