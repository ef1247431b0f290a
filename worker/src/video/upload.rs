//! Putting the finished file into the media store.

use std::path::Path;
use std::time::Instant;

use clapboard_jobs::{Blob, BlobError, Causes, Lease, Phase, ResultObject};
use clapboard_telemetry::metrics::names;

use crate::attempt::classify::AttemptError;
use crate::options::Options;
use crate::progress::watch::Watch;
use crate::retry::Waits;

/// Stores the file under the claim's own key and returns what the job's row will name.
///
/// An unreachable media store is tried again while the heartbeat keeps the lease, up to the upload deadline: the file
/// on the scratch disk is worth more than the wait. Bytes that move are a sign of life, however slowly. A put that runs is not interrupted by a cancel, since it could land
/// after the key had been cleaned up; where it is given up, by a drain that has lasted too long or by a stall, the key
/// becomes garbage, which is collected once nobody can be writing it any more.
///
/// Errors: [`AttemptError::Upload`], [`AttemptError::Stopped`] between two tries, [`AttemptError::Wedged`].
pub(crate) async fn upload(
    blob: &dyn Blob,
    lease: &Lease,
    file: &Path,
    watch: &Watch,
    options: &Options,
) -> Result<ResultObject, AttemptError> {
    watch.enter(Phase::Upload);
    let moved = || watch.touch();
    let key = lease.result_key();
    let deadline = Instant::now() + options.upload_deadline;
    let mut waits = Waits::default();
    loop {
        if watch.abandoned.is_cancelled() {
            return Err(AttemptError::Stopped);
        }
        watch.touch();
        let put = tokio::select! {
            biased;
            put = blob.put_file(&key, file, &moved) => put,
            () = watch.wedged.cancelled() => return Err(wedged(watch)),
            () = watch.overdue.cancelled() => return Err(AttemptError::Stopped),
        };
        let error = match put {
            Ok(put) => return Ok(ResultObject { key, size_bytes: put.size_bytes, sha256: put.sha256 }),
            Err(error) => error,
        };
        if !matches!(error, BlobError::Unavailable { .. }) || Instant::now() >= deadline {
            return Err(AttemptError::Upload(error));
        }
        names::S3_UPLOAD_RETRIES.increment([]);
        let wait = waits.next();
        tracing::warn!(error = %Causes(&error), ?wait, "could not store the video, trying again");
        tokio::select! {
            biased;
            () = watch.abandoned.cancelled() => return Err(AttemptError::Stopped),
            () = watch.overdue.cancelled() => return Err(AttemptError::Stopped),
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// The error of an attempt whose engine or upload has stopped moving.
pub(crate) fn wedged(watch: &Watch) -> AttemptError {
    watch.stall().map_or(AttemptError::Stopped, AttemptError::Wedged)
}
