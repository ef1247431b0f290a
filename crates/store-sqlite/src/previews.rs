//! Pictures of a result: objects of the claim that makes them, kept as long as the result is.

use clapboard_jobs::{JobId, Lease, LeaseError, Preview, PreviewKind};
use sqlx::SqliteConnection;

use crate::error::unavailable;
use crate::held::Held;
use crate::objects;
use crate::store::SqliteStore;

pub(crate) async fn expect(store: &SqliteStore, lease: &Lease) -> Result<(), LeaseError> {
    let doing = "expecting pictures of a result";
    let mut tx = store.begin(doing).await?;
    let held = Held::find(&mut tx, lease, doing).await?;
    for kind in PreviewKind::ALL {
        objects::expect(&mut tx, lease.preview_key(kind).as_str(), held.job.as_uuid(), doing).await?;
    }
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(())
}

/// Writes down that the job's row names pictures that were expected, each once.
///
/// Errors: [`LeaseError::ForeignObject`] when one was not.
pub(crate) async fn name(
    tx: &mut SqliteConnection,
    job: JobId,
    previews: &[Preview],
    doing: &'static str,
) -> Result<(), LeaseError> {
    for preview in previews {
        let key = &preview.object.key;
        if objects::name(tx, key.as_str(), job.as_uuid(), doing).await? == 0 {
            return Err(LeaseError::foreign_preview(job, preview, key.clone()));
        }
    }
    Ok(())
}
