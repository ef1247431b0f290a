//! `/v1/webhook_endpoints`: makes, lists, shows, changes and deletes endpoints.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Uri};
use clapboard_jobs::{Endpoint, EndpointChange, EndpointId};
use serde::Serialize;
use utoipa::ToSchema;

use super::endpoint::{WebhookEndpoint, WebhookEndpointWithSecret};
use super::fields::{Fields, missing};
use super::id::{EndpointPath, no_endpoint};
use crate::app::{AppState, Shared};
use crate::auth::Caller;
use crate::error::{ApiError, ErrorBody};
use crate::error_code::ErrorCode;
use crate::query::{DEFAULT_LIMIT, Page, ignored_in_list, limit, pairs};

/// The reply to a delete.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeletedWebhookEndpoint {
    /// The id of the endpoint that was deleted.
    id: String,
    /// Always `webhook_endpoint.deleted`.
    object: &'static str,
    /// Always true.
    deleted: bool,
}

/// What a new endpoint is made of.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "it stands in the document; the fields are read one by one")]
pub(crate) struct CreateWebhookEndpoint {
    /// What it hears of: `video.completed`, `video.failed`.
    event_types: Vec<String>,
    /// What its owner calls it; at most 256 characters.
    name: String,
    /// Where it is: an `https` URL on the public internet.
    url: String,
}

/// What changes of an endpoint; what is absent stays.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "it stands in the document; the fields are read one by one")]
pub(crate) struct UpdateWebhookEndpoint {
    /// All that it hears of from now on.
    event_types: Option<Vec<String>>,
    /// What its owner calls it.
    name: Option<String>,
    /// Where it is.
    url: Option<String>,
    /// Whether anything is sent to it. One that was disabled because it failed is enabled again by this.
    enabled: Option<bool>,
}

/// Makes an endpoint, which hears of every video of its owner that ends from now on. Its signing secret is in this reply and
/// in no other.
#[utoipa::path(
    post, path = "/v1/webhook_endpoints", tag = "webhooks",
    request_body(content(
        (CreateWebhookEndpoint = "application/json"),
        (CreateWebhookEndpoint = "application/x-www-form-urlencoded"),
        (CreateWebhookEndpoint = "multipart/form-data"),
    )),
    params(
        ("x-strict" = Option<String>, Header, description = "`1`: refuse unknown fields instead of ignoring them."),
    ),
    responses(
        (status = 200, body = WebhookEndpointWithSecret, headers(
            ("x-ignored-fields" = String, description = "The fields that nothing documents, if there were any."),
        )),
        (status = 400, description = "A field breaks a rule, which the error names.", body = ErrorBody),
        (status = 401, description = "The API key is missing or not known.", body = ErrorBody),
        (status = 403, description = "The API key lacks the scope `webhooks`.", body = ErrorBody),
        (status = 503, description = "The job store cannot be reached now.", body = ErrorBody),
    ),
)]
pub(crate) async fn create(
    State(shared): State<Shared>,
    request: Request,
) -> Result<(HeaderMap, Json<WebhookEndpointWithSecret>), ApiError> {
    let state = &shared.app;
    let mut fields = Fields::read(&shared, request).await?;
    let notices = fields.event_types()?.ok_or_else(|| missing("event_types"))?;
    let name = fields.name()?.ok_or_else(|| missing("name"))?;
    let url = fields.url(&state.options)?.ok_or_else(|| missing("url"))?;
    let tenant = fields.tenant.clone();
    let headers = fields.end()?;
    let endpoint = Endpoint { name, notices, ..Endpoint::new(tenant.clone(), url) };
    state.store.add_endpoint(&endpoint).await?;
    let made = state.store.endpoint(&tenant, endpoint.id).await?.ok_or_else(no_endpoint)?;
    tracing::info!(endpoint.id = %made.id, job.tenant = %tenant, "made a webhook endpoint");
    Ok((headers, Json(WebhookEndpointWithSecret::of(&made))))
}

/// Lists endpoints, newest first.
#[utoipa::path(
    get, path = "/v1/webhook_endpoints", tag = "webhooks",
    params(
        ("after" = Option<String>, Query, description = "The last id of the page before."),
        ("limit" = Option<u32>, Query, description = "0 to 100; 20 without."),
        ("x-strict" = Option<String>, Header, description = "`1`: refuse unknown parameters instead of ignoring them."),
    ),
    responses(
        (status = 200, body = Page<WebhookEndpoint>, headers(
            ("x-ignored-fields" = String, description = "The parameters that nothing documents, if there were any."),
        )),
        (status = 400, description = "A parameter breaks a rule, which the error names.", body = ErrorBody),
        (status = 401, description = "The API key is missing or not known.", body = ErrorBody),
        (status = 403, description = "The API key lacks the scope `webhooks`.", body = ErrorBody),
        (status = 503, description = "The job store cannot be reached now.", body = ErrorBody),
    ),
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    Caller(tenant): Caller,
    uri: Uri,
    request: HeaderMap,
) -> Result<(HeaderMap, Json<Page<WebhookEndpoint>>), ApiError> {
    let (mut after, mut most, mut unknown) = (None, DEFAULT_LIMIT, Vec::new());
    for (name, value) in pairs(&uri)? {
        match name.as_str() {
            "after" => after = Some(value.parse::<EndpointId>().map_err(|_| no_cursor())?),
            "limit" => most = limit(&value)?,
            _ => unknown.push(name),
        }
    }
    let ignored = ignored_in_list::<WebhookEndpoint>(&request, &unknown)?;
    let mut endpoints = state.store.endpoints(&tenant).await?;
    endpoints.reverse();
    if let Some(after) = after {
        let place = endpoints.iter().position(|endpoint| endpoint.id == after).ok_or_else(no_cursor)?;
        endpoints.drain(..=place);
    }
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let data: Vec<WebhookEndpoint> = endpoints.iter().take(most).map(WebhookEndpoint::of).collect();
    let has_more = endpoints.len() > data.len();
    Ok((ignored, Json(Page::of(data, has_more))))
}

fn no_cursor() -> ApiError {
    ApiError::new(ErrorCode::InvalidCursor, "there is no such webhook endpoint to list after").with_param("after")
}

/// Shows an endpoint.
#[utoipa::path(
    get, path = "/v1/webhook_endpoints/{id}", tag = "webhooks",
    params(("id" = String, Path, description = "The endpoint's id.")),
    responses(
        (status = 200, body = WebhookEndpoint),
        (status = 401, description = "The API key is missing or not known.", body = ErrorBody),
        (status = 403, description = "The API key lacks the scope `webhooks`.", body = ErrorBody),
        (status = 404, description = "There is no such endpoint.", body = ErrorBody),
        (status = 503, description = "The job store cannot be reached now.", body = ErrorBody),
    ),
)]
pub(crate) async fn retrieve(
    State(state): State<AppState>,
    Caller(tenant): Caller,
    EndpointPath(id): EndpointPath,
) -> Result<Json<WebhookEndpoint>, ApiError> {
    let endpoint = state.store.endpoint(&tenant, id).await?.ok_or_else(no_endpoint)?;
    Ok(Json(WebhookEndpoint::of(&endpoint)))
}

/// Changes an endpoint.
#[utoipa::path(
    post, path = "/v1/webhook_endpoints/{id}", tag = "webhooks",
    params(
        ("id" = String, Path, description = "The endpoint's id."),
        ("x-strict" = Option<String>, Header, description = "`1`: refuse unknown fields instead of ignoring them."),
    ),
    request_body(content(
        (UpdateWebhookEndpoint = "application/json"),
        (UpdateWebhookEndpoint = "application/x-www-form-urlencoded"),
        (UpdateWebhookEndpoint = "multipart/form-data"),
    )),
    responses(
        (status = 200, body = WebhookEndpoint, headers(
            ("x-ignored-fields" = String, description = "The fields that nothing documents, if there were any."),
        )),
        (status = 400, description = "A field breaks a rule, which the error names.", body = ErrorBody),
        (status = 401, description = "The API key is missing or not known.", body = ErrorBody),
        (status = 403, description = "The API key lacks the scope `webhooks`.", body = ErrorBody),
        (status = 404, description = "There is no such endpoint.", body = ErrorBody),
        (status = 503, description = "The job store cannot be reached now.", body = ErrorBody),
    ),
)]
pub(crate) async fn update(
    State(shared): State<Shared>,
    EndpointPath(id): EndpointPath,
    request: Request,
) -> Result<(HeaderMap, Json<WebhookEndpoint>), ApiError> {
    let state = &shared.app;
    let mut fields = Fields::read(&shared, request).await?;
    let change = EndpointChange {
        name: fields.name()?,
        url: fields.url(&state.options)?,
        notices: fields.event_types()?,
        enabled: fields.flag("enabled")?,
    };
    let tenant = fields.tenant.clone();
    let headers = fields.end()?;
    let changed = state.store.change_endpoint(&tenant, id, &change).await?.ok_or_else(no_endpoint)?;
    Ok((headers, Json(WebhookEndpoint::of(&changed))))
}

/// Deletes an endpoint and what waits for it.
#[utoipa::path(
    delete, path = "/v1/webhook_endpoints/{id}", tag = "webhooks",
    params(("id" = String, Path, description = "The endpoint's id.")),
    responses(
        (status = 200, body = DeletedWebhookEndpoint),
        (status = 401, description = "The API key is missing or not known.", body = ErrorBody),
        (status = 403, description = "The API key lacks the scope `webhooks`.", body = ErrorBody),
        (status = 404, description = "There is no such endpoint; also when it is deleted already.", body = ErrorBody),
        (status = 503, description = "The job store cannot be reached now.", body = ErrorBody),
    ),
)]
pub(crate) async fn delete(
    State(state): State<AppState>,
    Caller(tenant): Caller,
    EndpointPath(id): EndpointPath,
) -> Result<Json<DeletedWebhookEndpoint>, ApiError> {
    if !state.store.delete_endpoint(&tenant, id).await? {
        return Err(no_endpoint());
    }
    tracing::info!(endpoint.id = %id, job.tenant = %tenant, "deleted a webhook endpoint");
    Ok(Json(DeletedWebhookEndpoint { id: id.to_string(), object: "webhook_endpoint.deleted", deleted: true }))
}
