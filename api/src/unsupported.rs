//! Routes that OpenAI's clients know and that are not built: they say so, whatever the method.

use axum::Router;
use axum::http::{Method, Uri};
use axum::routing::any;

use crate::app::Shared;
use crate::error::ApiError;
use crate::error_code::ErrorCode;

/// The routes. Those without `{id}` win over `/v1/videos/{id}`, so that no client takes them for a missing video.
const PATHS: [&str; 15] = [
    "/v1/models/{model}",
    "/v1/videos/edits",
    "/v1/videos/extensions",
    "/v1/videos/characters",
    "/v1/videos/characters/{id}",
    "/v1/videos/{id}/remix",
    "/v1/videos/{id}/cancel",
    "/v1/videos/{id}/events",
    "/v1/webhook_endpoints",
    "/v1/webhook_endpoints/{id}",
    "/v1/webhook_endpoints/{id}/rotate_secret",
    "/v1/webhook_endpoints/{id}/test",
    "/v1/webhook_event_types",
    "/metrics",
    "/docs",
];

/// Returns the routes.
pub(crate) fn routes() -> Router<Shared> {
    PATHS.into_iter().fold(Router::new(), |router, path| router.route(path, any(unsupported)))
}

async fn unsupported(method: Method, uri: Uri) -> ApiError {
    ApiError::new(ErrorCode::Unsupported, format!("{method} {} is not supported yet", uri.path()))
}
