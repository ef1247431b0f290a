//! The routes about webhooks: who hears of videos that have ended, what was told, and what signs it.
//!
//! Here they are only written down. Telling is the scheduler's part, and where it may tell is `clapboard-outbound`'s; [`url`]
//! checks as early as it can.

mod deliveries;
mod endpoint;
mod endpoints;
mod event_types;
mod fields;
mod id;
mod secrets;
mod trial;
pub(crate) mod url;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::Shared;

/// Returns the routes, each with its description.
pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(endpoints::create, endpoints::list))
        .routes(routes!(endpoints::retrieve, endpoints::update, endpoints::delete))
        .routes(routes!(secrets::rotate))
        .routes(routes!(trial::test))
        .routes(routes!(event_types::list))
        .routes(routes!(deliveries::list))
        .routes(routes!(deliveries::replay))
        .routes(routes!(secrets::of_jobs))
}
