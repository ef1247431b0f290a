//! The routes under `/v1/videos`, one file per verb.

pub(crate) mod cancel;
pub(crate) mod content;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod events;
mod form;
mod id;
pub(crate) mod list;
mod object;
mod range;
pub(crate) mod remix;
pub(crate) mod retrieve;
mod schedule;
pub(crate) mod sync;

pub use delete::DeletedVideo;
pub use form::{
    AudioUrl, CreateVideo, ExpiresAfter, ImageUrl, InputReference, OneOrMore, PictureFile, ReferenceFile, RemixVideo,
    VideoEvents, VideoFile, VideoUrl,
};
pub use object::{PlaceInQueue, StageMetrics, Video, VideoError, VideoStatus};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use clapboard_jobs::{Job, Status, StoreError};

use crate::app::AppState;
use crate::error::ApiError;

const POLL_AFTER: HeaderName = HeaderName::from_static("openai-poll-after-ms");

/// Describes a job with its place in the queue.
async fn described(state: &AppState, job: &Job) -> Result<Video, ApiError> {
    let place = match job.status() {
        Status::Queued => place(state, job).await?,
        _ => None,
    };
    Ok(Video { queue_position: place, ..Video::of(job) })
}

/// Returns the place in its queue of a job that waited just now; none when it does not any more.
async fn place(state: &AppState, job: &Job) -> Result<Option<PlaceInQueue>, StoreError> {
    if let Some(place) = state.store.queue_position(&job.tenant, job.id).await? {
        return Ok(Some(place.into()));
    }
    // It is farther behind than places are counted, or was begun meanwhile.
    let now = state.store.get(&job.tenant, job.id).await?;
    Ok(now.filter(|job| job.status() == Status::Queued).map(|_| PlaceInQueue::FARTHER))
}

/// Makes the header by which clients know when to look again.
fn poll_after(state: &AppState) -> HeaderMap {
    let millis = u64::try_from(state.options.poll_after.as_millis()).unwrap_or(u64::MAX);
    HeaderMap::from_iter([(POLL_AFTER, HeaderValue::from(millis))])
}
