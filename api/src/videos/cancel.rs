//! `POST /v1/videos/{id}/cancel`: ends a video and keeps its record.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;

use clapboard_jobs::{Cancelled, Job, JobId, Store, StoreError, Tenant};
use clapboard_telemetry::metrics::names;

use super::id::VideoId;
use super::{Video, described, poll_after};
use crate::app::AppState;
use crate::auth::Caller;
use crate::error::{ApiError, ErrorBody};

/// Cancels a video and answers with it; one that has ended stays as it is.
///
/// One that waits has `failed` with the code `cancelled` at once. One that runs has when its worker has stopped, which it
/// does at its next block; whatever the worker finishes meanwhile is not kept.
#[utoipa::path(
    post, path = "/v1/videos/{id}/cancel", tag = "videos",
    params(("id" = String, Path, description = "The video's id.")),
    responses(
        (status = 200, body = Video, headers(("openai-poll-after-ms" = u64, description = "When to look again."))),
        (status = 404, description = "There is no such video.", body = ErrorBody),
        (status = 503, description = "The job store cannot be reached now.", body = ErrorBody),
    ),
)]
pub(crate) async fn cancel(
    State(state): State<AppState>,
    Caller(tenant): Caller,
    VideoId(id): VideoId,
) -> Result<(HeaderMap, Json<Video>), ApiError> {
    let job = end(&*state.store, &tenant, id).await?.ok_or_else(ApiError::video_not_found)?;
    tracing::info!(job.id = %id, job.state = %job.state, "somebody asked for the cancel of a job");
    let video = described(&state, &job).await.unwrap_or_else(|_| Video::of(&job));
    Ok((poll_after(&state), Json(video)))
}

/// Cancels a job, and counts it if that has ended it.
pub(super) async fn end(store: &dyn Store, tenant: &Tenant, id: JobId) -> Result<Option<Job>, StoreError> {
    let Some(Cancelled { job, has_ended_it }) = store.cancel(tenant, id).await? else {
        return Ok(None);
    };
    if has_ended_it {
        names::JOBS_FINISHED.increment([job.partition.as_str(), "cancelled", "cancelled"]);
    }
    Ok(Some(job))
}
