//! The OpenAPI document of what is built, made from the handlers themselves.

use std::sync::Arc;

use axum::http::{HeaderName, header};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, Info, OpenApi, OpenApiBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::Shared;
use crate::{health, models, videos};

/// The name of the key's scheme in the document.
const API_KEY: &str = "api_key";

/// Returns the routes that the document describes.
pub(crate) fn routes() -> OpenApiRouter<Shared> {
    let info = Info::new("Clapboard", env!("CARGO_PKG_VERSION"));
    let key = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("Needed under /v1 where the service asks for keys; elsewhere not looked at."))
        .build();
    let components = ComponentsBuilder::new().security_scheme(API_KEY, SecurityScheme::Http(key)).build();
    // A requirement of nothing beside the key: whether it is needed is the service's setting.
    let security = [SecurityRequirement::default(), SecurityRequirement::new(API_KEY, [""; 0])];
    let document = OpenApiBuilder::new().info(info).components(Some(components)).security(Some(security)).build();
    OpenApiRouter::with_openapi(document)
        .routes(routes!(videos::create::create, videos::list::list))
        .routes(routes!(videos::sync::create_sync))
        .routes(routes!(videos::retrieve::retrieve, videos::delete::delete))
        .routes(routes!(videos::content::content, videos::content::content_head))
        .routes(routes!(models::list))
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
