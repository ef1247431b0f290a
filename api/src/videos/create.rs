//! `POST /v1/videos`: makes a job and answers at once.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::HeaderMap;

use super::{CreateVideo, Video, described, poll_after};
use crate::admission::{admit, commit};
use crate::app::Shared;
use crate::error::{ApiError, ErrorBody};

/// Makes a video: answers with its job, which then is durable.
#[utoipa::path(
    post, path = "/v1/videos", tag = "videos",
    request_body(content(
        (CreateVideo = "multipart/form-data"),
        (CreateVideo = "application/x-www-form-urlencoded"),
        (CreateVideo = "application/json"),
    )),
    params(("x-strict" = Option<String>, Header, description = "`1`: refuse unknown fields instead of ignoring them.")),
    responses(
        (status = 200, body = Video, headers(
            ("openai-poll-after-ms" = u64, description = "When to look again."),
            ("x-ignored-fields" = String, description = "The fields that nothing documents, if there were any."),
        )),
        (status = 400, description = "A field breaks a rule, which the error names.", body = ErrorBody),
        (status = 401, description = "The API key is missing or not known.", body = ErrorBody),
        (status = 408, description = "The body did not come in time, or stood still.", body = ErrorBody),
        (status = 413, description = "The texts of the body are too large.", body = ErrorBody),
        (status = 415, description = "The body is of another type.", body = ErrorBody),
        (status = 429, description = "As many videos are waiting as may.", body = ErrorBody),
        (status = 503, description = "No work is taken now, or there is no room for the references.", body = ErrorBody),
    ),
)]
pub(crate) async fn create(
    State(shared): State<Shared>,
    request: Request,
) -> Result<(HeaderMap, Json<Video>), ApiError> {
    let admitted = admit(&shared, request, None).await?;
    let state = shared.app;
    let job = commit(&state, admitted.job, admitted.media).await?;
    let mut headers = poll_after(&state);
    if let Some(ignored) = admitted.ignored {
        headers.insert("x-ignored-fields", ignored);
    }
    // The job is there: that its place could not be told is no reason to make the client send it again.
    let video = described(&state, &job).await.unwrap_or_else(|_| Video::of(&job));
    Ok((headers, Json(video)))
}
