//! Routes that OpenAI's clients know and that are not built, by decision: they say so, whatever the method.

use axum::Router;
use axum::http::{Method, Uri};
use axum::routing::any;

use crate::app::Shared;
use crate::error::ApiError;
use crate::error_code::ErrorCode;

/// The routes. Those without `{id}` win over `/v1/videos/{id}`, so that no client takes them for a missing video.
const PATHS: [&str; 5] =
    ["/v1/videos/edits", "/v1/videos/extensions", "/v1/videos/characters", "/v1/videos/characters/{id}", "/metrics"];

/// Returns the routes.
pub(crate) fn routes() -> Router<Shared> {
    PATHS.into_iter().fold(Router::new(), |router, path| router.route(path, any(unsupported)))
}

async fn unsupported(method: Method, uri: Uri) -> ApiError {
    ApiError::new(ErrorCode::Unsupported, format!("{method} {} is not supported", uri.path()))
}
