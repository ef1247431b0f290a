//! `GET /v1/webhook_event_types`: what there is to hear of.

use axum::Json;
use clapboard_jobs::Notice;
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::ErrorBody;

/// What there is to hear of.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WebhookEventTypeList {
    /// Always `list`.
    object: &'static str,
    /// The event types: `video.completed`, `video.failed`.
    data: Vec<&'static str>,
}

/// Lists the event types.
#[utoipa::path(get, path = "/v1/webhook_event_types", tag = "webhooks", responses(
    (status = 200, body = WebhookEventTypeList),
    (status = 401, description = "The API key is missing or not known.", body = ErrorBody),
    (status = 403, description = "The API key lacks the scope `webhooks`.", body = ErrorBody),
))]
pub(crate) async fn list() -> Json<WebhookEventTypeList> {
    Json(WebhookEventTypeList { object: "list", data: Notice::ALL.map(Notice::as_str).to_vec() })
}
