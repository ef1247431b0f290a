//! `GET /v1/videos/{id}`: tells how a video stands.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;

use super::id::VideoId;
use super::{Video, described, poll_after};
use crate::app::AppState;
use crate::auth::Caller;
use crate::error::{ApiError, ErrorBody};

/// Tells how a video stands; also 200 when it failed.
#[utoipa::path(
    get, path = "/v1/videos/{id}", tag = "videos",
    params(("id" = String, Path, description = "The video's id.")),
    responses(
        (status = 200, body = Video, headers(("openai-poll-after-ms" = u64, description = "When to look again."))),
        (status = 401, description = "The API key is missing or not known.", body = ErrorBody),
        (status = 404, description = "There is no such video.", body = ErrorBody),
        (status = 503, description = "The job store cannot be reached now.", body = ErrorBody),
    ),
)]
pub(crate) async fn retrieve(
    State(state): State<AppState>,
    Caller(tenant): Caller,
    VideoId(id): VideoId,
) -> Result<(HeaderMap, Json<Video>), ApiError> {
    let job = state.store.get(&tenant, id).await?.ok_or_else(ApiError::video_not_found)?;
    Ok((poll_after(&state), Json(described(&state, &job).await?)))
}
