//! `DELETE /v1/videos/{id}`: cancels and removes.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::id::VideoId;
use crate::app::AppState;
use crate::auth::Caller;
use crate::error::{ApiError, ErrorBody};

/// The reply to a delete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct DeletedVideo {
    /// The id of the video that was deleted.
    pub id: String,
    /// Always `video.deleted`.
    pub object: &'static str,
    /// Always true.
    pub deleted: bool,
}

/// Deletes a video in any state; a running one is cancelled.
///
/// The row goes at once, with it the lease of whoever works on it: the worker stops at its next block, and the file
/// is removed by the sweep over objects that no row names.
#[utoipa::path(
    delete, path = "/v1/videos/{id}", tag = "videos",
    params(("id" = String, Path, description = "The video's id.")),
    responses(
        (status = 200, body = DeletedVideo),
        (status = 404, description = "There is no such video; also when it is deleted already.", body = ErrorBody),
        (status = 503, description = "The job store cannot be reached now.", body = ErrorBody),
    ),
)]
pub(crate) async fn delete(
    State(state): State<AppState>,
    Caller(tenant): Caller,
    VideoId(id): VideoId,
) -> Result<Json<DeletedVideo>, ApiError> {
    let was = state.store.delete(&tenant, id).await?.ok_or_else(ApiError::video_not_found)?;
    tracing::info!(job.id = %id, job.state = %was, "deleted a job");
    Ok(Json(DeletedVideo { id: id.to_string(), object: "video.deleted", deleted: true }))
}
