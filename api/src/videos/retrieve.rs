//! `GET /v1/videos/{id}`: tells how a video stands.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use clapboard_jobs::{FailureCode, Job};
use serde::Serialize;
use utoipa::ToSchema;

use super::id::VideoId;
use super::{Video, described, poll_after};
use crate::app::AppState;
use crate::auth::Caller;
use crate::error::{ApiError, ErrorBody};

/// A failed video, where the service is set to do as vLLM-Omni does; else an error.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it stands in the document; what is sent is one of the two")]
pub(crate) enum FailedVideo {
    /// The video.
    Video(Box<Video>),
    /// The error.
    Error(ErrorBody),
}

/// Tells how a video stands; also 200 when it failed.
///
/// A service that is set to do as vLLM-Omni does answers for a failed one with the status of an error, and the same body.
#[utoipa::path(
    get, path = "/v1/videos/{id}", tag = "videos",
    params(("id" = String, Path, description = "The video's id.")),
    responses(
        (status = 200, body = Video, headers(("openai-poll-after-ms" = u64, description = "When to look again."))),
        (status = 400, description = "Only where the service is set to do as vLLM-Omni does: the video has failed for a reason of the client's, or was cancelled.", body = Video),
        (status = 404, description = "There is no such video.", body = ErrorBody),
        (status = 500, description = "A fault of the service itself; its log says more. Or, where the service is set to do as vLLM-Omni does, the video has failed.", body = FailedVideo),
        (status = 503, description = "The job store cannot be reached now. Or, where the service is set to do as vLLM-Omni does, the video did not begin in time.", body = FailedVideo),
    ),
)]
pub(crate) async fn retrieve(
    State(state): State<AppState>,
    Caller(tenant): Caller,
    VideoId(id): VideoId,
) -> Result<(StatusCode, HeaderMap, Json<Video>), ApiError> {
    let job = state.store.get(&tenant, id).await?.ok_or_else(ApiError::video_not_found)?;
    let mut headers = poll_after(&state);
    let mut status = StatusCode::OK;
    if state.options.compat_failed_job_http_status
        && let Some(failed) = failed_status(&job)
    {
        status = failed;
        // The look itself went well, and another one finds the same.
        headers.insert("x-should-retry", HeaderValue::from_static("false"));
    }
    Ok((status, headers, Json(described(&state, &job).await?)))
}

/// Returns the status by which vLLM-Omni tells of a failed job: whose fault it was.
fn failed_status(job: &Job) -> Option<StatusCode> {
    let code = job.error.as_ref()?.code;
    Some(match code {
        FailureCode::Cancelled | FailureCode::InputFetchFailed | FailureCode::ModerationBlocked => {
            StatusCode::BAD_REQUEST
        }
        FailureCode::StartDeadlineExceeded => StatusCode::SERVICE_UNAVAILABLE,
        FailureCode::GenerationFailed
        | FailureCode::WorkerLost
        | FailureCode::StorageFailed
        | FailureCode::InternalError => StatusCode::INTERNAL_SERVER_ERROR,
    })
}
