//! The routes under `/v1/videos`, one file per verb.

pub(crate) mod content;
pub(crate) mod create;
pub(crate) mod delete;
mod form;
mod id;
pub(crate) mod list;
mod object;
mod query;
mod range;
pub(crate) mod retrieve;
pub(crate) mod sync;

pub use delete::DeletedVideo;
pub use form::{AudioUrl, CreateVideo, ImageUrl, InputReference, OneOrMore, ReferenceFile, VideoFile, VideoUrl};
pub use list::VideoList;
pub use object::{Video, VideoError, VideoStatus};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use clapboard_jobs::{Job, Status};

use crate::app::AppState;
use crate::error::ApiError;

const POLL_AFTER: HeaderName = HeaderName::from_static("openai-poll-after-ms");

/// Describes a job with its place in the queue.
async fn described(state: &AppState, job: &Job) -> Result<Video, ApiError> {
    let position = match job.status() {
        Status::Queued => state.store.queue_position(&job.tenant, job.id).await?,
        _ => None,
    };
    Ok(Video { queue_position: position, ..Video::of(job) })
}

/// Makes the header by which clients know when to look again.
fn poll_after(state: &AppState) -> HeaderMap {
    let millis = u64::try_from(state.options.poll_after.as_millis()).unwrap_or(u64::MAX);
    HeaderMap::from_iter([(POLL_AFTER, HeaderValue::from(millis))])
}
