//! The one answer to a request that is not served.

use axum::Json;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use clapboard_h3::{Invalid, InvalidCode};
use clapboard_jobs::{BlobError, Causes, JobId, StoreError};
use serde::Serialize;
use utoipa::ToSchema;

use crate::error_code::ErrorCode;

/// The longest text of an error body, in characters: a request of a megabyte is not quoted back.
const MAX_SHOWN_CHARS: usize = 1000;
/// After how many seconds something that is away or taken may be tried again.
const RETRY_AFTER_S: u32 = 5;
/// After how many seconds a full queue may have room: OpenAI's clients wait for that long and give up at longer times.
const QUEUE_RETRY_AFTER_S: u32 = 30;

/// A refusal on its way to the client.
#[derive(Debug, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ApiError {
    /// What kind of refusal it is.
    pub code: ErrorCode,
    /// What happened, for people; it holds no path, no prompt and no chain of causes.
    pub message: String,
    /// The field, query parameter or header that is to blame.
    pub param: Option<String>,
    /// The video that the request made or met; sent as `x-video-id`.
    pub video: Option<JobId>,
    /// After how many seconds another try makes sense.
    pub retry_after_s: Option<u32>,
    /// The length of the object whose range cannot be served.
    pub object_size_bytes: Option<u64>,
    /// What `x-should-retry` says, where the code alone does not decide it.
    pub should_retry: Option<bool>,
}

impl ApiError {
    /// Makes a refusal.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            param: None,
            video: None,
            retry_after_s: None,
            object_size_bytes: None,
            should_retry: code.should_retry(),
        }
    }

    /// Names the parameter to blame.
    pub fn with_param(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// Names the video concerned.
    pub fn with_video(mut self, video: JobId) -> Self {
        self.video = Some(video);
        self
    }

    /// Makes the refusal of a value.
    pub fn invalid_value(param: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidValue, message).with_param(param)
    }

    /// Makes the refusal of a field that stands twice where one value is taken.
    pub fn given_twice(param: &str) -> Self {
        Self::invalid_value(param, format!("{param} must be given once"))
    }

    /// Makes the refusal of something documented that is not built.
    pub fn unsupported_parameter(param: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::UnsupportedParameter, message).with_param(param)
    }

    /// Makes the answer about a video that the client does not have.
    pub fn video_not_found() -> Self {
        Self::new(ErrorCode::NotFound, "Video not found").with_param("video_id")
    }

    /// Makes the answer to a request whose idempotency key has made a video that cannot be the answer.
    pub(crate) fn key_reused(message: String, video: JobId) -> Self {
        Self::new(ErrorCode::IdempotencyKeyReused, message).with_param("Idempotency-Key").with_video(video)
    }

    /// Makes the answer about something that is away or taken, and may be back soon.
    pub(crate) fn away(message: &str) -> Self {
        Self { retry_after_s: Some(RETRY_AFTER_S), ..Self::new(ErrorCode::NoCapacity, message) }
    }

    /// Makes the answer to a file for which there is no room; the cause goes to the log.
    pub(crate) fn unkept(error: &(dyn std::error::Error + 'static)) -> Self {
        tracing::error!(error = %Causes(error), "could not write a file of a request down");
        Self::away("the files of the request could not be kept")
    }

    /// Makes the answer to a fault of the service; the cause goes to the log and not to the client.
    pub fn internal() -> Self {
        Self::new(ErrorCode::InternalError, "the service could not answer; the cause is in its log")
    }
}

/// What is told besides to a request that says nothing of its ratio, which is all that `requires an explicit aspect_ratio` says:
/// OpenAI's clients know `size` alone.
const RATIO_HINT: &str = "; a video from text alone needs size, WIDTHxHEIGHT in pixels, or aspect_ratio, such as 16:9";

impl From<Invalid> for ApiError {
    fn from(invalid: Invalid) -> Self {
        let mut message = invalid.to_string();
        if invalid.code == InvalidCode::MissingRequiredParameter && invalid.field == "aspect_ratio" {
            message.push_str(RATIO_HINT);
        }
        Self::new(invalid.code.into(), message).with_param(invalid.field)
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::UnknownCursor { after } => {
                Self::new(ErrorCode::InvalidCursor, format!("there is no video {after} to list after"))
                    .with_param("after")
            }
            StoreError::UnknownDelivery { after } => {
                Self::new(ErrorCode::InvalidCursor, format!("there is no delivery {after} to list after"))
                    .with_param("after")
            }
            StoreError::QueueFull { limit, .. } => {
                let message = format!("as many videos are waiting as may: {limit}");
                Self { retry_after_s: Some(QUEUE_RETRY_AFTER_S), ..Self::new(ErrorCode::QueueFull, message) }
            }
            StoreError::TooManyEndpoints { limit } => {
                Self::new(ErrorCode::InvalidValue, format!("there may be at most {limit} webhook endpoints"))
            }
            StoreError::EndpointDisabled { endpoint } => {
                let message =
                    format!("the endpoint {endpoint} is disabled, so that nothing is sent to it: enable it first");
                Self::new(ErrorCode::WebhookEndpointDisabled, message).with_param("webhook_delivery_id")
            }
            StoreError::TestPending { endpoint } => {
                let message = format!("a test of {endpoint} is pending");
                Self { retry_after_s: Some(RETRY_AFTER_S), ..Self::new(ErrorCode::ConcurrencyLimit, message) }
            }
            StoreError::KeyReused { job } => {
                let message = format!("another request with this Idempotency-Key has made {job}");
                Self::key_reused(message, job)
            }
            StoreError::InputsGone { .. } => {
                tracing::warn!(error = %Causes(&error), "the media of a request were collected before its job was made");
                Self::away("the files of the request were not kept long enough; send them again")
            }
            StoreError::Unavailable { .. } => {
                tracing::error!(error = %Causes(&error), "the job store could not be reached");
                Self::away("the job store could not be reached")
            }
            error => {
                tracing::error!(error = %Causes(&error), "the job store failed");
                Self::internal()
            }
        }
    }
}

impl From<BlobError> for ApiError {
    fn from(error: BlobError) -> Self {
        tracing::error!(error = %Causes(&error), "the media store failed");
        match error {
            BlobError::Unavailable { .. } | BlobError::Denied { .. } => {
                Self::away("the media store could not be reached")
            }
            _ => Self::internal(),
        }
    }
}

/// Cuts a text that may quote what a client sent.
fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_SHOWN_CHARS) {
        text.truncate(end);
        text.push('\u{2026}');
    }
    text
}

/// The body of every reply that is not a success.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorBody {
    /// What went wrong.
    pub error: ErrorObject,
}

/// What went wrong, in the shape of OpenAI's API.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorObject {
    /// What happened, for people.
    pub message: String,
    /// What kind of fault it is: `invalid_request_error`, `authentication_error`, `permission_error`,
    /// `rate_limit_error` or `server_error`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The field, query parameter or header to blame.
    #[schema(required = true)]
    pub param: Option<String>,
    /// What went wrong, for programs.
    #[schema(value_type = String)]
    pub code: ErrorCode,
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = ErrorBody {
            error: ErrorObject {
                message: cut(self.message),
                kind: self.code.error_type(),
                param: self.param.map(cut),
                code: self.code,
            },
        };
        let mut response = (self.code.status(), Json(body)).into_response();
        response.extensions_mut().insert(self.code);
        let headers = response.headers_mut();
        if let Some(retry) = self.should_retry {
            headers.insert("x-should-retry", HeaderValue::from_static(if retry { "true" } else { "false" }));
        }
        if self.code == ErrorCode::InvalidApiKey {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(size_bytes) = self.object_size_bytes {
            let range = format!("bytes */{size_bytes}");
            headers.insert(header::CONTENT_RANGE, HeaderValue::try_from(range).expect("digits are a header value"));
        }
        if let Some(video) = self.video {
            headers.insert("x-video-id", HeaderValue::try_from(video.to_string()).expect("an id is a header value"));
        }
        response
    }
}
