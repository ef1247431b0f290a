//! Copying the media of one job for another.
//!
//! Each job has objects of its own, so that what is deleted with one is never another's.

use clapboard_h3::Input;
use clapboard_jobs::{BlobKey, JobId};
use futures_util::TryStreamExt;
use tokio::time::timeout;

use super::gather::Gathered;
use super::spool::Spooled;
use super::{Intake, Rooms};
use crate::app::AppState;
use crate::error::ApiError;
use crate::error_code::ErrorCode;

/// Copies the media of `original` for `job`, and names the copies in `inputs`.
///
/// Errors: `unsupported_reference` when they are not kept any more; `queue_full` and `no_capacity`.
pub(crate) async fn copy(
    state: &AppState,
    original: JobId,
    job: JobId,
    inputs: &mut [Input],
    mut rooms: Rooms,
) -> Result<Gathered, ApiError> {
    rooms.hold_upload().await?;
    let reading = async {
        let mut files = Vec::with_capacity(inputs.len());
        for (index, input) in inputs.iter_mut().enumerate() {
            let file = read(state, &rooms.intake, original, &input.object).await?;
            let key = BlobKey::input(&rooms.tenant, job, index, &file.sha256);
            input.object = key.as_str().to_owned();
            files.push((key, file));
        }
        Ok(files)
    };
    let files = timeout(state.options.input_fetch_timeout, reading)
        .await
        .unwrap_or_else(|_| Err(ApiError::away("the references of the original could not be read in time")))?;
    Ok(Gathered::of_known(files, rooms))
}

/// Reads an object into the spool.
async fn read(state: &AppState, intake: &Intake, original: JobId, object: &str) -> Result<Spooled, ApiError> {
    let key: BlobKey = object.parse().map_err(|error| {
        tracing::error!(job.id = %original, %error, "a job names an input that cannot be one");
        ApiError::internal()
    })?;
    let Some(mut opened) = state.blob.open(&key, None).await? else {
        return Err(gone(original));
    };
    let mut file = intake.spool.begin();
    loop {
        match opened.stream.try_next().await {
            Ok(Some(chunk)) => file = file.write(chunk).await.map_err(|error| ApiError::unkept(&error))?,
            Ok(None) => break,
            // It may have been deleted under the reader.
            Err(error) => {
                tracing::warn!(job.id = %original, %error, "could not read an input of a job to the end");
                return match state.blob.head(&key).await? {
                    None => Err(gone(original)),
                    Some(_) => Err(ApiError::away("the references of the original could not be read")),
                };
            }
        }
    }
    let file = file.finish().await.map_err(|error| ApiError::unkept(&error))?;
    // The key ends with the first digits of the digest.
    let digest = key.as_str().rsplit('-').next().unwrap_or_default();
    if digest.is_empty() || !file.sha256.starts_with(digest) {
        tracing::error!(job.id = %original, "an input of a job has changed");
        return Err(ApiError::internal());
    }
    Ok(file)
}

fn gone(original: JobId) -> ApiError {
    let message = format!("the references of {original} are not kept any more; make a new video and send them again");
    ApiError::new(ErrorCode::UnsupportedReference, message).with_param("video_id")
}
