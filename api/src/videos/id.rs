//! The id in a route.

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use clapboard_jobs::JobId;

use crate::error::ApiError;

/// The `{id}` of a route.
///
/// Ids are opaque to clients, so one that cannot be an id is answered like one that is not there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VideoId(pub(crate) JobId);

impl<S: Send + Sync> FromRequestParts<S> for VideoId {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let params = RawPathParams::from_request_parts(parts, state).await.map_err(|_| ApiError::video_not_found())?;
        let id = params.iter().find(|(name, _)| *name == "id").and_then(|(_, text)| text.parse().ok());
        id.map(Self).ok_or_else(ApiError::video_not_found)
    }
}
