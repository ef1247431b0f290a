//! Storing the media of a request where its worker finds them.

use std::time::Duration;

use clapboard_jobs::{Blob, BlobError, BlobKey, Causes, JobId, Store};

use super::spool::Spooled;
use crate::error::ApiError;

/// How long is waited before each further try to store a file.
const TRY_AGAIN: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];

/// Stores the media of a job that is about to be made. Without that job they are garbage after `grace`.
///
/// Errors: `no_capacity` when the job store or the media store cannot be reached.
pub(crate) async fn store(
    store: &dyn Store,
    blob: &dyn Blob,
    job: JobId,
    files: &[(BlobKey, Spooled)],
    grace: Duration,
) -> Result<(), ApiError> {
    let keys: Vec<BlobKey> = files.iter().map(|(key, _)| key.clone()).collect();
    store.expect_inputs(job, &keys, grace).await?;
    for (key, file) in files {
        put(blob, key, file).await?;
    }
    Ok(())
}

async fn put(blob: &dyn Blob, key: &BlobKey, file: &Spooled) -> Result<(), BlobError> {
    let mut waits = TRY_AGAIN.into_iter();
    loop {
        match (blob.put_file(key, file.path(), &|| ()).await, waits.next()) {
            (Err(error @ BlobError::Unavailable { .. }), Some(wait)) => {
                tracing::warn!(error = %Causes(&error), "could not store an input; trying again");
                tokio::time::sleep(wait).await;
            }
            (put, _) => return put.map(drop),
        }
    }
}
