//! The codes of refused requests: one enum that says what each means to HTTP and to a client.

use std::fmt;

use axum::http::StatusCode;
use clapboard_h3::InvalidCode;
use serde::{Serialize, Serializer};

/// Says why a request was refused: the `error.code` of the reply.
///
/// Each code has a page `docs/errors/<code>.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// A field that the request needs is absent or empty.
    MissingRequiredParameter,
    /// A text is longer than its limit.
    StringAboveMaxLength,
    /// The body, or a field that holds JSON, is not JSON.
    InvalidJson,
    /// A value has the wrong form or is out of range.
    InvalidValue,
    /// The aspect ratio is not one that the task takes.
    InvalidAspectRatio,
    /// The duration is outside what the model generates.
    InvalidDuration,
    /// The frame rate is not the model's.
    InvalidFps,
    /// The canvas is too small, too large or too narrow.
    InvalidSize,
    /// The task is unknown or not run here.
    UnsupportedTask,
    /// A documented parameter that this service does not support yet.
    UnsupportedParameter,
    /// A parameter that nothing documents, in a request that asked for strictness.
    UnknownParameter,
    /// The references do not go with the task.
    InvalidReferenceCombination,
    /// The task needs a picture or a video to refer to.
    ReferenceRequired,
    /// There are more references than the task takes.
    TooManyReferences,
    /// A reference is no text that is a URL of the right kind.
    InvalidReferenceUrl,
    /// A reference's URL leads where no request may.
    ReferenceUrlForbidden,
    /// What a reference's URL leads to could not be fetched.
    ReferenceFetchFailed,
    /// A reference's file cannot be used.
    InvalidReferenceMedia,
    /// References are given in two ways that exclude each other.
    ConflictingReferences,
    /// A reference of a sort that is known and not taken.
    UnsupportedReference,
    /// The request brings no API key, or one that is not known.
    InvalidApiKey,
    /// The API key is not good for the request.
    InsufficientScope,
    /// The model is not served here.
    ModelNotFound,
    /// The list should go on after what never was there.
    InvalidCursor,
    /// There is no such video, model, picture, webhook endpoint or delivery, or no such route.
    NotFound,
    /// The video is not finished.
    VideoNotReady,
    /// The route does not know the method.
    MethodNotAllowed,
    /// The body did not come in time.
    RequestTimeout,
    /// The body is larger than the limit.
    RequestTooLarge,
    /// The body is of a type that the route does not read.
    UnsupportedMediaType,
    /// The bytes asked for are not within the video.
    RangeNotSatisfiable,
    /// The video ended without a result.
    VideoFailed,
    /// The video's file was kept as long as files are.
    VideoExpired,
    /// Another request has used the idempotency key.
    IdempotencyKeyReused,
    /// The tenant has as many videos waiting as it may.
    QueueFull,
    /// The API key has asked for videos as often as it may.
    RateLimitExceeded,
    /// A webhook's URL is none, or not of the right kind.
    InvalidWebhookUrl,
    /// A webhook's URL leads where no request may.
    WebhookUrlForbidden,
    /// The test of a webhook endpoint got no answer.
    WebhookTestFailed,
    /// A delivery cannot be replayed to an endpoint to which nothing is sent.
    WebhookEndpointDisabled,
    /// The tenant has as many requests of a kind open as it may.
    ConcurrencyLimit,
    /// A fault of the service itself.
    InternalError,
    /// The route is documented but not built.
    Unsupported,
    /// Nobody takes work now.
    NoCapacity,
    /// The video took longer than a synchronous request may wait.
    SyncTimeout,
}

impl ErrorCode {
    /// Every code.
    pub const ALL: [Self; 45] = [
        Self::MissingRequiredParameter,
        Self::StringAboveMaxLength,
        Self::InvalidJson,
        Self::InvalidValue,
        Self::InvalidAspectRatio,
        Self::InvalidDuration,
        Self::InvalidFps,
        Self::InvalidSize,
        Self::UnsupportedTask,
        Self::UnsupportedParameter,
        Self::UnknownParameter,
        Self::InvalidReferenceCombination,
        Self::ReferenceRequired,
        Self::TooManyReferences,
        Self::InvalidReferenceUrl,
        Self::ReferenceUrlForbidden,
        Self::ReferenceFetchFailed,
        Self::InvalidReferenceMedia,
        Self::ConflictingReferences,
        Self::UnsupportedReference,
        Self::InvalidApiKey,
        Self::InsufficientScope,
        Self::ModelNotFound,
        Self::InvalidCursor,
        Self::NotFound,
        Self::VideoNotReady,
        Self::MethodNotAllowed,
        Self::RequestTimeout,
        Self::RequestTooLarge,
        Self::UnsupportedMediaType,
        Self::RangeNotSatisfiable,
        Self::VideoFailed,
        Self::VideoExpired,
        Self::IdempotencyKeyReused,
        Self::QueueFull,
        Self::RateLimitExceeded,
        Self::InvalidWebhookUrl,
        Self::WebhookUrlForbidden,
        Self::WebhookTestFailed,
        Self::WebhookEndpointDisabled,
        Self::ConcurrencyLimit,
        Self::InternalError,
        Self::Unsupported,
        Self::NoCapacity,
        Self::SyncTimeout,
    ];

    /// Returns the code on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MissingRequiredParameter => "missing_required_parameter",
            Self::StringAboveMaxLength => "string_above_max_length",
            Self::InvalidJson => "invalid_json",
            Self::InvalidValue => "invalid_value",
            Self::InvalidAspectRatio => "invalid_aspect_ratio",
            Self::InvalidDuration => "invalid_duration",
            Self::InvalidFps => "invalid_fps",
            Self::InvalidSize => "invalid_size",
            Self::UnsupportedTask => "unsupported_task",
            Self::UnsupportedParameter => "unsupported_parameter",
            Self::UnknownParameter => "unknown_parameter",
            Self::InvalidReferenceCombination => "invalid_reference_combination",
            Self::ReferenceRequired => "reference_required",
            Self::TooManyReferences => "too_many_references",
            Self::InvalidReferenceUrl => "invalid_reference_url",
            Self::ReferenceUrlForbidden => "reference_url_forbidden",
            Self::ReferenceFetchFailed => "reference_fetch_failed",
            Self::InvalidReferenceMedia => "invalid_reference_media",
            Self::ConflictingReferences => "conflicting_references",
            Self::UnsupportedReference => "unsupported_reference",
            Self::InvalidApiKey => "invalid_api_key",
            Self::InsufficientScope => "insufficient_scope",
            Self::ModelNotFound => "model_not_found",
            Self::InvalidCursor => "invalid_cursor",
            Self::NotFound => "not_found",
            Self::VideoNotReady => "video_not_ready",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::RequestTimeout => "request_timeout",
            Self::RequestTooLarge => "request_too_large",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::RangeNotSatisfiable => "range_not_satisfiable",
            Self::VideoFailed => "video_failed",
            Self::VideoExpired => "video_expired",
            Self::IdempotencyKeyReused => "idempotency_key_reused",
            Self::QueueFull => "queue_full",
            Self::RateLimitExceeded => "rate_limit_exceeded",
            Self::InvalidWebhookUrl => "invalid_webhook_url",
            Self::WebhookUrlForbidden => "webhook_url_forbidden",
            Self::WebhookTestFailed => "webhook_test_failed",
            Self::WebhookEndpointDisabled => "webhook_endpoint_disabled",
            Self::ConcurrencyLimit => "concurrency_limit",
            Self::InternalError => "internal_error",
            Self::Unsupported => "unsupported",
            Self::NoCapacity => "no_capacity",
            Self::SyncTimeout => "sync_timeout",
        }
    }

    /// Returns the HTTP status that it comes with.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::MissingRequiredParameter
            | Self::StringAboveMaxLength
            | Self::InvalidJson
            | Self::InvalidValue
            | Self::InvalidAspectRatio
            | Self::InvalidDuration
            | Self::InvalidFps
            | Self::InvalidSize
            | Self::UnsupportedTask
            | Self::UnsupportedParameter
            | Self::UnknownParameter
            | Self::InvalidReferenceCombination
            | Self::ReferenceRequired
            | Self::TooManyReferences
            | Self::InvalidReferenceUrl
            | Self::ReferenceUrlForbidden
            | Self::ReferenceFetchFailed
            | Self::InvalidReferenceMedia
            | Self::ConflictingReferences
            | Self::UnsupportedReference
            | Self::ModelNotFound
            | Self::InvalidWebhookUrl
            | Self::WebhookUrlForbidden
            | Self::WebhookTestFailed
            | Self::InvalidCursor => StatusCode::BAD_REQUEST,
            Self::InvalidApiKey => StatusCode::UNAUTHORIZED,
            Self::InsufficientScope => StatusCode::FORBIDDEN,
            Self::NotFound | Self::VideoNotReady => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::RequestTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::RangeNotSatisfiable => StatusCode::RANGE_NOT_SATISFIABLE,
            Self::VideoFailed => StatusCode::UNPROCESSABLE_ENTITY,
            Self::VideoExpired => StatusCode::GONE,
            Self::IdempotencyKeyReused | Self::WebhookEndpointDisabled => StatusCode::CONFLICT,
            Self::QueueFull | Self::RateLimitExceeded | Self::ConcurrencyLimit => StatusCode::TOO_MANY_REQUESTS,
            Self::InternalError => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unsupported => StatusCode::NOT_IMPLEMENTED,
            Self::NoCapacity => StatusCode::SERVICE_UNAVAILABLE,
            Self::SyncTimeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// Returns the `error.type` of the reply: whose fault it is, in OpenAI's words.
    pub fn error_type(self) -> &'static str {
        match self {
            Self::InvalidApiKey => "authentication_error",
            Self::InsufficientScope => "permission_error",
            Self::QueueFull | Self::RateLimitExceeded | Self::ConcurrencyLimit => "rate_limit_error",
            _ if self.status().is_server_error() => "server_error",
            _ => "invalid_request_error",
        }
    }

    /// Returns what the reply's `x-should-retry` says, where the client must not follow its own rule for the status.
    ///
    /// OpenAI's clients send a request again after 408, 409, 429 and every 5xx: that would be in vain for a route that
    /// is not built, a key that is taken and an endpoint that is disabled, and would start a second render after a timeout.
    pub const fn should_retry(self) -> Option<bool> {
        match self {
            Self::Unsupported
            | Self::SyncTimeout
            | Self::RequestTimeout
            | Self::IdempotencyKeyReused
            | Self::WebhookEndpointDisabled => Some(false),
            _ => None,
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl From<InvalidCode> for ErrorCode {
    fn from(code: InvalidCode) -> Self {
        match code {
            InvalidCode::MissingRequiredParameter => Self::MissingRequiredParameter,
            InvalidCode::StringAboveMaxLength => Self::StringAboveMaxLength,
            InvalidCode::InvalidValue => Self::InvalidValue,
            InvalidCode::InvalidAspectRatio => Self::InvalidAspectRatio,
            InvalidCode::InvalidDuration => Self::InvalidDuration,
            InvalidCode::InvalidFps => Self::InvalidFps,
            InvalidCode::InvalidSize => Self::InvalidSize,
            InvalidCode::UnsupportedTask => Self::UnsupportedTask,
            InvalidCode::InvalidReferenceCombination => Self::InvalidReferenceCombination,
            InvalidCode::ReferenceRequired => Self::ReferenceRequired,
            InvalidCode::TooManyReferences => Self::TooManyReferences,
            InvalidCode::InvalidReferenceMedia => Self::InvalidReferenceMedia,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_code_has_its_page_and_every_page_its_code() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/errors");
        let pages: BTreeSet<String> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "README.md")
            .collect();
        let codes: BTreeSet<String> = ErrorCode::ALL.iter().map(|code| format!("{code}.md")).collect();
        assert_eq!(pages, codes);
        for code in ErrorCode::ALL {
            let page = std::fs::read_to_string(folder.join(format!("{code}.md"))).unwrap();
            let heading = format!("# {code} ({})\n", code.status().as_u16());
            assert!(page.starts_with(&heading), "{code}.md does not begin with {heading:?}");
        }
    }

    #[test]
    fn every_code_is_in_the_table_of_the_docs() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/api.md");
        let docs = std::fs::read_to_string(docs).unwrap();
        let rows = docs.lines().filter(|line| line.starts_with("| [`") && line.contains("](errors/")).count();
        assert_eq!(rows, ErrorCode::ALL.len());
        for code in ErrorCode::ALL {
            let row = format!("| [`{code}`](errors/{code}.md) | {} | ", code.status().as_u16());
            assert!(docs.contains(&row), "{row}");
        }
    }

    #[test]
    fn the_codes_of_the_model_rules_keep_their_names() {
        for code in [
            InvalidCode::MissingRequiredParameter,
            InvalidCode::StringAboveMaxLength,
            InvalidCode::InvalidValue,
            InvalidCode::InvalidAspectRatio,
            InvalidCode::InvalidDuration,
            InvalidCode::InvalidFps,
            InvalidCode::InvalidSize,
            InvalidCode::UnsupportedTask,
            InvalidCode::InvalidReferenceCombination,
            InvalidCode::ReferenceRequired,
            InvalidCode::TooManyReferences,
            InvalidCode::InvalidReferenceMedia,
        ] {
            assert_eq!(ErrorCode::from(code).as_str(), code.as_str());
            assert_eq!(ErrorCode::from(code).status(), StatusCode::BAD_REQUEST);
        }
    }

    #[test]
    fn a_client_is_told_not_to_retry_where_its_own_rule_would_harm() {
        assert_eq!(ErrorCode::SyncTimeout.should_retry(), Some(false));
        assert_eq!(ErrorCode::Unsupported.should_retry(), Some(false));
        assert_eq!(ErrorCode::InternalError.should_retry(), None);
    }
}
