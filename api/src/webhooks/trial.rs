//! `POST /v1/webhook_endpoints/{id}/test`: tries an endpoint with a sample.

use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use clapboard_jobs::{Delivery, DeliveryState};
use serde::Serialize;
use tokio::time::{sleep, timeout};
use utoipa::ToSchema;

use super::fields::Fields;
use super::id::{EndpointPath, no_endpoint};
use crate::app::{AppState, Shared};
use crate::error::{ApiError, ErrorBody};
use crate::error_code::ErrorCode;

/// How often it is looked whether the sample was delivered.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// What a test sends.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "it stands in the document; the field is read by itself")]
pub(crate) struct TestWebhookEndpoint {
    /// What the sample tells: `video.completed` or `video.failed`.
    event_type: String,
}

/// How an endpoint took a sample.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WebhookEndpointTestResult {
    /// Always `webhook_endpoint.test`.
    object: &'static str,
    /// What the sample told.
    event_type: &'static str,
    /// The HTTP status that the endpoint answered with.
    status_code: u16,
    /// Always true: there was an answer.
    success: bool,
    /// Which endpoint it was.
    webhook_endpoint_id: String,
}

/// Sends an endpoint a sample about a video that never was, and tells with which status it answered.
///
/// The sample is signed and stands in the list of deliveries like any other. It is tried once, and whatever comes of that disables
/// nothing. While one of an endpoint's is pending there is no second.
#[utoipa::path(
    post, path = "/v1/webhook_endpoints/{id}/test", tag = "webhooks",
    params(
        ("id" = String, Path, description = "The endpoint's id."),
        ("x-strict" = Option<String>, Header, description = "`1`: refuse unknown fields instead of ignoring them."),
    ),
    request_body(content(
        (TestWebhookEndpoint = "application/json"),
        (TestWebhookEndpoint = "application/x-www-form-urlencoded"),
        (TestWebhookEndpoint = "multipart/form-data"),
    )),
    responses(
        (status = 200, body = WebhookEndpointTestResult, headers(
            ("x-ignored-fields" = String, description = "The fields that nothing documents, if there were any."),
        )),
        (status = 400, description = "A field breaks a rule, or there was no answer; the error says why.", body = ErrorBody),
        (status = 401, description = "The API key is missing or not known.", body = ErrorBody),
        (status = 403, description = "The API key lacks the scope `webhooks`.", body = ErrorBody),
        (status = 404, description = "There is no such endpoint.", body = ErrorBody),
        (status = 429, description = "Another test of the endpoint is pending, or there is no room for so long a body.", body = ErrorBody),
        (status = 503, description = "The job store cannot be reached now.", body = ErrorBody),
    ),
)]
pub(crate) async fn test(
    State(shared): State<Shared>,
    EndpointPath(id): EndpointPath,
    request: Request,
) -> Result<(HeaderMap, Json<WebhookEndpointTestResult>), ApiError> {
    let state = &shared.app;
    let mut fields = Fields::read(&shared, request).await?;
    let notice = fields.event_type()?;
    let tenant = fields.tenant.clone();
    let headers = fields.end()?;
    let endpoint = state.store.endpoint(&tenant, id).await?.ok_or_else(no_endpoint)?;
    if endpoint.disabled.is_some() {
        return Err(untested("the endpoint is disabled"));
    }
    let sample = state.store.test_endpoint(&tenant, id, notice).await?.ok_or_else(no_endpoint)?;
    let status_code = answered(state, &sample).await?;
    let result = WebhookEndpointTestResult {
        object: "webhook_endpoint.test",
        event_type: notice.as_str(),
        status_code,
        success: true,
        webhook_endpoint_id: id.to_string(),
    };
    Ok((headers, Json(result)))
}

/// Waits until a sample was tried, and returns the status of the answer.
async fn answered(state: &AppState, sample: &Delivery) -> Result<u16, ApiError> {
    let mut is_under_way = false;
    let trying = async {
        loop {
            let deliveries = state.store.deliveries_of(&sample.tenant, sample.job).await?;
            // With its endpoint, the sample goes too.
            let found = deliveries.into_iter().find(|delivery| delivery.id == sample.id).ok_or_else(no_endpoint)?;
            if let Some(status) = found.last_status {
                return Ok(status);
            }
            if found.state != DeliveryState::Pending || found.last_error.is_some() {
                return Err(untested(&found.last_error.unwrap_or_else(|| "there was no answer".to_owned())));
            }
            is_under_way = found.tries > 0;
            sleep(LOOK_AGAIN).await;
        }
    };
    let waited = timeout(state.options.webhook_test_wait, trying).await;
    let why = match waited {
        Ok(answered) => return answered,
        Err(_) if is_under_way => "it has not answered yet, and is waited for still",
        Err(_) => "nobody has tried it yet, and somebody may still",
    };
    Err(untested(&format!("{why}; GET /v1/webhook_deliveries tells what came of {}", sample.id)))
}

fn untested(why: &str) -> ApiError {
    ApiError::new(ErrorCode::WebhookTestFailed, format!("the endpoint could not be tested: {why}"))
}
