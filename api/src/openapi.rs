//! The OpenAPI document of what is built, made from the handlers themselves.

use std::sync::Arc;

use axum::http::{HeaderName, header};
use utoipa::openapi::{Info, OpenApi, OpenApiBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::AppState;
use crate::{health, videos};

/// Returns the routes that the document describes.
pub(crate) fn routes() -> OpenApiRouter<AppState> {
    let info = Info::new("Clapboard", env!("CARGO_PKG_VERSION"));
    OpenApiRouter::with_openapi(OpenApiBuilder::new().info(info).build())
        .routes(routes!(videos::create::create, videos::list::list))
        .routes(routes!(videos::sync::create_sync))
        .routes(routes!(videos::retrieve::retrieve, videos::delete::delete))
        .routes(routes!(videos::content::content, videos::content::content_head))
        .routes(routes!(health::health))
        .routes(routes!(health::ready))
}

/// Returns the document that `/openapi.json` serves.
pub fn document() -> OpenApi {
    routes().into_openapi()
}

/// Answers with the document.
pub(crate) async fn serve(json: Arc<str>) -> ([(HeaderName, &'static str); 1], String) {
    ([(header::CONTENT_TYPE, "application/json")], json.to_string())
}
