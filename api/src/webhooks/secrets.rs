//! What signs: the secrets of endpoints, which can be replaced, and that of single jobs' URLs.

use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use clapboard_jobs::Secret;
use serde::Serialize;
use utoipa::ToSchema;

use super::endpoint::{Shown, WebhookEndpointWithSecret};
use super::fields::Fields;
use super::id::{EndpointPath, no_endpoint};
use crate::app::{AppState, Shared};
use crate::auth::Caller;
use crate::error::{ApiError, ErrorBody};

/// How long an old secret signs beside the new one, where that is asked for.
const OLD_SECRET_LIFE: Duration = Duration::from_secs(24 * 3600);

/// How a secret is replaced.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "it stands in the document; the field is read by itself")]
pub(crate) struct RotateSecret {
    /// Whether the old secret signs beside the new one for 24 hours; without it, it signs nothing from now on.
    keep_old_secret_active_for_24_hours: Option<bool>,
}

/// The secret that signs what is told to the URLs of single videos.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WebhookSecret {
    /// Always `webhook_secret`.
    object: &'static str,
    /// What signs: `whsec_` and 32 bytes in base64.
    signing_secret: Shown,
}

/// Gives an endpoint a new signing secret, which is in this reply and in no other.
#[utoipa::path(
    post, path = "/v1/webhook_endpoints/{id}/rotate_secret", tag = "webhooks",
    params(
        ("id" = String, Path, description = "The endpoint's id."),
        ("x-strict" = Option<String>, Header, description = "`1`: refuse unknown fields instead of ignoring them."),
    ),
    request_body(content(
        (RotateSecret = "application/json"),
        (RotateSecret = "application/x-www-form-urlencoded"),
        (RotateSecret = "multipart/form-data"),
    )),
    responses(
        (status = 200, body = WebhookEndpointWithSecret, headers(
            ("x-ignored-fields" = String, description = "The fields that nothing documents, if there were any."),
        )),
        (status = 400, description = "A field breaks a rule, which the error names.", body = ErrorBody),
        (status = 401, description = "The API key is missing or not known.", body = ErrorBody),
        (status = 403, description = "The API key lacks the scope `webhooks`.", body = ErrorBody),
        (status = 404, description = "There is no such endpoint.", body = ErrorBody),
        (status = 503, description = "The job store cannot be reached now.", body = ErrorBody),
    ),
)]
pub(crate) async fn rotate(
    State(shared): State<Shared>,
    EndpointPath(id): EndpointPath,
    request: Request,
) -> Result<(HeaderMap, Json<WebhookEndpointWithSecret>), ApiError> {
    let mut fields = Fields::read(&shared, request).await?;
    let keeps_old = fields.flag("keep_old_secret_active_for_24_hours")?.unwrap_or_default();
    let tenant = fields.tenant.clone();
    let headers = fields.end()?;
    let keep_old = keeps_old.then_some(OLD_SECRET_LIFE);
    let rotated = shared.app.store.rotate_secret(&tenant, id, &Secret::random(), keep_old).await?;
    let endpoint = rotated.ok_or_else(no_endpoint)?;
    tracing::info!(endpoint.id = %id, job.tenant = %tenant, keeps_old, "replaced the secret of a webhook endpoint");
    Ok((headers, Json(WebhookEndpointWithSecret::of(&endpoint))))
}

/// Shows the secret that signs what is told to the `webhook_url` of single videos; it is made when it is needed first.
#[utoipa::path(
    get, path = "/v1/webhook_secret", tag = "webhooks",
    responses(
        (status = 200, body = WebhookSecret),
        (status = 401, description = "The API key is missing or not known.", body = ErrorBody),
        (status = 403, description = "The API key lacks the scope `webhooks`.", body = ErrorBody),
        (status = 503, description = "The job store cannot be reached now.", body = ErrorBody),
    ),
)]
pub(crate) async fn of_jobs(
    State(state): State<AppState>,
    Caller(tenant): Caller,
) -> Result<Json<WebhookSecret>, ApiError> {
    let secret = state.store.hook_secret(&tenant, &Secret::random()).await?;
    Ok(Json(WebhookSecret { object: "webhook_secret", signing_secret: Shown(secret) }))
}
