//! `/v1/webhook_deliveries`: what was told, what is still to be, and what is told again.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use clapboard_jobs::{Delivery, DeliveryPage, DeliveryQuery, JobId, Receiver, StoreError};
use serde::Serialize;
use utoipa::ToSchema;

use super::id::{DeliveryPath, no_delivery};
use crate::app::AppState;
use crate::auth::Caller;
use crate::error::{ApiError, ErrorBody};
use crate::error_code::ErrorCode;
use crate::query::{Listed, Page, ignored_in_list, limit, pairs};

/// One event for one receiver.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WebhookDelivery {
    /// Its id: the `webhook-id` and the event's `id` of every try.
    id: String,
    /// Always `webhook_delivery`.
    object: &'static str,
    /// When the video ended, in seconds since 1970.
    created_at: i64,
    /// What is told: `video.completed` or `video.failed`.
    event_type: &'static str,
    /// About which video; of a sample, about one that never was.
    video_id: String,
    /// It is a sample, by which an endpoint was tested.
    sample: bool,
    /// For which endpoint; null when the video had a URL of its own.
    #[schema(required = true)]
    endpoint_id: Option<String>,
    /// The video's own URL; null when it is for an endpoint.
    #[schema(required = true)]
    url: Option<String>,
    /// `pending`, `delivered`, or `dead` when it is not tried any more.
    status: &'static str,
    /// How often it was tried, with the try that is under way.
    tries: u32,
    /// When it is tried next, in seconds since 1970; while a try is under way, when that is taken for lost and made again. Null
    /// once it is not pending.
    #[schema(required = true)]
    next_try_at: Option<i64>,
    /// When the receiver had it, in seconds since 1970.
    #[schema(required = true)]
    delivered_at: Option<i64>,
    /// The HTTP status of the last answer.
    #[schema(required = true)]
    last_status_code: Option<u16>,
    /// Why the last try failed.
    #[schema(required = true)]
    last_error: Option<String>,
}

impl WebhookDelivery {
    fn of(delivery: Delivery) -> Self {
        let (endpoint_id, url) = match delivery.receiver {
            Receiver::Endpoint(id) => (Some(id.to_string()), None),
            Receiver::Job { url } => (None, Some(url)),
        };
        Self {
            id: delivery.id.to_string(),
            object: "webhook_delivery",
            created_at: delivery.created_at.unix_seconds(),
            event_type: delivery.notice.as_str(),
            video_id: delivery.job.to_string(),
            sample: delivery.is_test,
            endpoint_id,
            url,
            status: delivery.state.as_str(),
            tries: delivery.tries,
            next_try_at: delivery.next_try_at.map(|at| at.unix_seconds()),
            delivered_at: delivery.delivered_at.map(|at| at.unix_seconds()),
            last_status_code: delivery.last_status,
            last_error: delivery.last_error,
        }
    }
}

impl Listed for WebhookDelivery {
    fn id(&self) -> &str {
        &self.id
    }
}

/// Which deliveries a request asks for.
#[derive(Debug, Default)]
struct DeliveryFilter {
    query: DeliveryQuery,
    /// Only those about this video.
    video: Option<JobId>,
    /// The parameters that nothing documents.
    unknown: Vec<String>,
}

/// Lists deliveries, newest first.
#[utoipa::path(
    get, path = "/v1/webhook_deliveries", tag = "webhooks",
    params(
        ("endpoint_id" = Option<String>, Query, description = "Only those for this endpoint; `endpoint` is the same."),
        ("video_id" = Option<String>, Query, description = "Only those about this video, which may be deleted."),
        ("status" = Option<String>, Query, description = "`pending`, `delivered` or `dead`."),
        ("after" = Option<String>, Query, description = "The last id of the page before."),
        ("limit" = Option<u32>, Query, description = "0 to 100; 20 without."),
        ("x-strict" = Option<String>, Header, description = "`1`: refuse unknown parameters instead of ignoring them."),
    ),
    responses(
        (status = 200, body = Page<WebhookDelivery>, headers(
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
) -> Result<(HeaderMap, Json<Page<WebhookDelivery>>), ApiError> {
    let DeliveryFilter { query, video, unknown } = query(&uri)?;
    let ignored = ignored_in_list::<WebhookDelivery>(&request, &unknown)?;
    let page = match video {
        Some(video) => page_of_video(state.store.deliveries_of(&tenant, video).await?, &query)?,
        None => state.store.deliveries(&tenant, &query).await?,
    };
    let data = page.deliveries.into_iter().map(WebhookDelivery::of).collect();
    Ok((ignored, Json(Page::of(data, page.has_more))))
}

/// Reads the parameters.
fn query(uri: &Uri) -> Result<DeliveryFilter, ApiError> {
    let mut filter = DeliveryFilter::default();
    for (name, value) in pairs(uri)? {
        match name.as_str() {
            "endpoint_id" | "endpoint" => {
                let wrong = |_| ApiError::invalid_value(&name, format!("{name} must be the id of a webhook endpoint"));
                if filter.query.endpoint.replace(value.parse().map_err(wrong)?).is_some() {
                    return Err(ApiError::given_twice("endpoint_id"));
                }
            }
            "video_id" => {
                let wrong = |_| ApiError::invalid_value("video_id", "video_id must be the id of a video");
                filter.video = Some(value.parse().map_err(wrong)?);
            }
            "status" => {
                let wrong = |_| ApiError::invalid_value("status", "status must be pending, delivered or dead");
                filter.query.state = Some(value.parse().map_err(wrong)?);
            }
            "after" => {
                let unknown = |_| {
                    let message = "there is no such webhook delivery to list after";
                    ApiError::new(ErrorCode::InvalidCursor, message).with_param("after")
                };
                filter.query.after = Some(value.parse().map_err(unknown)?);
            }
            "limit" => filter.query.limit = limit(&value)?,
            _ => filter.unknown.push(name),
        }
    }
    Ok(filter)
}

/// Returns a page of all deliveries about one video, oldest first, of which there are only as many as its tenant has receivers,
/// for each time that it has ended.
///
/// Errors: [`StoreError::UnknownDelivery`] when it should go on after one that is not among them.
fn page_of_video(mut deliveries: Vec<Delivery>, query: &DeliveryQuery) -> Result<DeliveryPage, StoreError> {
    deliveries.reverse();
    if let Some(after) = query.after {
        let found = deliveries.iter().position(|delivery| delivery.id == after);
        deliveries.drain(..=found.ok_or(StoreError::UnknownDelivery { after })?);
    }
    let is_asked = |delivery: &Delivery| {
        query.state.is_none_or(|state| state == delivery.state)
            && query.endpoint.is_none_or(|endpoint| delivery.receiver == Receiver::Endpoint(endpoint))
    };
    deliveries.retain(is_asked);
    let most = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let has_more = deliveries.len() > most;
    deliveries.truncate(most);
    Ok(DeliveryPage { deliveries, has_more })
}

/// Tries a delivery again, at once and with the same id.
///
/// One that is `delivered` or `dead` begins its schedule anew. One that is `pending` is due at once, and the tries that it has
/// had count on; if it is being tried just now, it stays as it is. Nothing is sent to an endpoint that is disabled: enable it
/// first.
#[utoipa::path(
    post, path = "/v1/webhook_deliveries/{id}/replay", tag = "webhooks",
    params(("id" = String, Path, description = "The delivery's id.")),
    responses(
        (status = 200, body = WebhookDelivery),
        (status = 401, description = "The API key is missing or not known.", body = ErrorBody),
        (status = 403, description = "The API key lacks the scope `webhooks`.", body = ErrorBody),
        (status = 404, description = "There is no such delivery.", body = ErrorBody),
        (status = 409, description = "Its endpoint is disabled; `x-should-retry` is `false`.", body = ErrorBody),
        (status = 503, description = "The job store cannot be reached now.", body = ErrorBody),
    ),
)]
pub(crate) async fn replay(
    State(state): State<AppState>,
    Caller(tenant): Caller,
    DeliveryPath(id): DeliveryPath,
) -> Result<Json<WebhookDelivery>, ApiError> {
    let delivery = state.store.replay(&tenant, id).await?.ok_or_else(no_delivery)?;
    tracing::info!(delivery.id = %id, job.tenant = %tenant, "a webhook is delivered again");
    Ok(Json(WebhookDelivery::of(delivery)))
}
