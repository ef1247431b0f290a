//! `POST /v1/videos`: makes a job and answers at once.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue};

use super::{CreateVideo, Video, described, poll_after};
use crate::admission::{Made, Waiting, admit, make};
use crate::app::{AppState, Shared};
use crate::error::{ApiError, ErrorBody};

/// Makes a video: answers with its job, which then is durable.
///
/// A request that has made a video before is answered with that one: one with the same `Idempotency-Key` within 24 hours, and
/// one that OpenAI's libraries send again, which they count in `x-stainless-retry-count`, within 60 seconds.
#[utoipa::path(
    post, path = "/v1/videos", tag = "videos",
    request_body(content(
        (CreateVideo = "multipart/form-data"),
        (CreateVideo = "application/x-www-form-urlencoded"),
        (CreateVideo = "application/json"),
    )),
    params(
        ("x-strict" = Option<String>, Header, description = "`1`: refuse unknown fields instead of ignoring them."),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters: the same request with the same key within 24 hours gets the first one's video."),
        ("traceparent" = Option<String>, Header, description = "The trace that the video belongs to, as W3C Trace Context has it."),
    ),
    responses(
        (status = 200, body = Video, headers(
            ("openai-poll-after-ms" = u64, description = "When to look again."),
            ("idempotency-replayed" = String, description = "`true`: the same request has made this video before."),
            ("x-ignored-fields" = String, description = "The fields that nothing documents, if there were any."),
        )),
        (status = 400, description = "A field breaks a rule, which the error names.", body = ErrorBody),
        (status = 408, description = "The body did not come in time, or stood still.", body = ErrorBody),
        (status = 409, description = "Another request has used the idempotency key.", body = ErrorBody),
        (status = 413, description = "The texts of the body are too large.", body = ErrorBody),
        (status = 415, description = "The body is of another type.", body = ErrorBody),
        (status = 429, description = "As many videos are waiting as may, or too many were asked for lately.", body = ErrorBody),
        (status = 503, description = "No work is taken now, or there is no room for the references.", body = ErrorBody),
    ),
)]
pub(crate) async fn create(
    State(shared): State<Shared>,
    request: Request,
) -> Result<(HeaderMap, Json<Video>), ApiError> {
    let admission = admit(&shared, request, Waiting::nobody()).await?;
    let state = &shared.app;
    let (made, ignored) = make(state, admission).await?;
    Ok(answer(state, made, ignored).await)
}

/// Answers with a job that is there: that its place could not be told is no reason to make the client send it again.
pub(super) async fn answer(state: &AppState, made: Made, ignored: Option<HeaderValue>) -> (HeaderMap, Json<Video>) {
    let Made { job, replayed } = made;
    let mut headers = poll_after(state);
    if let Some(ignored) = ignored {
        headers.insert("x-ignored-fields", ignored);
    }
    if replayed {
        headers.insert("idempotency-replayed", HeaderValue::from_static("true"));
    }
    let video = described(state, &job).await.unwrap_or_else(|_| Video::of(&job));
    (headers, Json(video))
}
