//! Storing the media of a request where its worker finds them.

use std::sync::Arc;
use std::time::Duration;

use clapboard_jobs::{Blob, BlobError, BlobKey, Causes, JobId, Store};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::gather::Gathered;
use super::spool::Spooled;
use crate::app::AppState;
use crate::error::ApiError;

/// How long is waited before each further try to store a file.
const TRY_AGAIN: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];
/// How long a file that is being stored may go on once nobody waits for it.
const UNAWAITED: Duration = Duration::from_secs(10);
/// How long a request waits for its files to be stored.
const LONGEST: Duration = Duration::from_secs(60);
/// Which part of the grace storing may take at most: what is still on its way then arrives long before its key may be deleted.
const PART_OF_GRACE: u32 = 4;

/// The stored media of a job that is about to be made. They can be collected as soon as this is dropped without the job
/// having been made.
pub(crate) struct Stored {
    store: Arc<dyn Store>,
    tasks: TaskTracker,
    job: JobId,
    keys: Vec<BlobKey>,
}

impl Stored {
    /// Leaves the media to their job, which was made.
    pub(crate) fn keep(mut self) {
        self.keys.clear();
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        if self.keys.is_empty() {
            return;
        }
        let (store, job, keys) = (Arc::clone(&self.store), self.job, std::mem::take(&mut self.keys));
        self.tasks.spawn(async move {
            // The job may have been made all the same, and its answer lost: then they are its own, and stay.
            if let Err(error) = store.abandon_inputs(job, &keys).await {
                tracing::warn!(job.id = %job, error = %Causes(&error), "could not give up the media of a job that was not made");
            }
        });
    }
}

/// Stores the media of a job that is about to be made. They hold their room until that has ended, also when the request is
/// dropped before.
///
/// Errors: `no_capacity` when the job store or the media store cannot be reached, or storing takes more than a minute or a
/// part of [`Options::input_grace`](crate::Options::input_grace).
pub(crate) async fn store(state: &AppState, job: JobId, media: Gathered) -> Result<Stored, ApiError> {
    let (mut answer, answered) = oneshot::channel();
    let task = state.clone();
    state.tasks.spawn(async move {
        let Gathered { files, rooms, .. } = media;
        let unawaited = async {
            answer.closed().await;
            tokio::time::sleep(UNAWAITED).await;
        };
        let stored = tokio::select! {
            stored = store_files(&task, job, &files) => Some(stored),
            // Some may still arrive: they stay until their grace is over.
            () = unawaited => None,
        };
        drop((files, rooms));
        if let Some(stored) = stored {
            // Where nobody waits, this drops them.
            let _ = answer.send(stored);
        }
    });
    answered.await.unwrap_or_else(|_| {
        tracing::error!(job.id = %job, "storing the media of a request failed");
        Err(ApiError::internal())
    })
}

/// Returns how long storing may take under a grace.
fn patience(grace: Duration) -> Duration {
    LONGEST.min(grace / PART_OF_GRACE)
}

async fn store_files(state: &AppState, job: JobId, files: &[(BlobKey, Spooled)]) -> Result<Stored, ApiError> {
    let grace = state.options.input_grace;
    let keys: Vec<BlobKey> = files.iter().map(|(key, _)| key.clone()).collect();
    let puts = async {
        state.store.expect_inputs(job, &keys, grace).await?;
        // Made only once none of them is on its way any more: what arrived after its key was deleted would stay for ever.
        let stored = || Stored { store: Arc::clone(&state.store), tasks: state.tasks.clone(), job, keys: keys.clone() };
        for (key, file) in files {
            if let Err(error) = put(state.blob.as_ref(), key, file).await {
                if !matches!(error, BlobError::Unavailable { .. }) {
                    drop(stored());
                }
                return Err(error.into());
            }
        }
        Ok(stored())
    };
    timeout(patience(grace), puts).await.unwrap_or_else(|_| {
        tracing::error!(job.id = %job, "the media of a request could not be stored in time");
        Err(ApiError::away("the files of the request could not be stored in time"))
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_waits_a_minute_at_most_and_less_under_a_short_grace() {
        for (grace_s, patience_s) in [(3600, 60), (240, 60), (8, 2)] {
            assert_eq!(patience(Duration::from_secs(grace_s)), Duration::from_secs(patience_s));
        }
    }
}
