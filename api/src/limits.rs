//! How often videos may be asked for.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use clapboard_jobs::{Allowance, Limiter, Rate};

use crate::auth::Access;
use crate::error::ApiError;
use crate::error_code::ErrorCode;
use crate::options::Options;

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit-requests");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining-requests");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset-requests");
const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// What requests for videos are counted by.
#[derive(Clone)]
pub(crate) struct Limits {
    /// Who counts.
    pub(crate) limiter: Arc<dyn Limiter>,
    /// How often those may ask about whom nothing else is said.
    pub(crate) options: Arc<Options>,
}

/// Counts a request if it is for a video, tells its client how it stands, and refuses it when it comes too soon.
///
/// It stands behind the gate, which knows whose request it is.
pub(crate) async fn limit(State(limits): State<Limits>, request: Request, next: Next) -> Response {
    let Some((who, rate)) = counted(&request, &limits.options) else {
        return next.run(request).await;
    };
    let allowance = limits.limiter.take(&who, rate).await;
    let mut response = if allowance.allowed { next.run(request).await } else { refused(&allowance) };
    tell(response.headers_mut(), &allowance);
    response
}

/// Returns by whom a request is counted and how often that may be; none where it is not counted.
fn counted(request: &Request, options: &Options) -> Option<(String, Rate)> {
    if !makes_video(request.method(), request.uri().path()) {
        return None;
    }
    let access: &Access = request.extensions().get()?;
    let rate = access.rate.or(options.requests_per_minute.map(|per_minute| Rate { per_minute }))?;
    let who = match access.key {
        Some(key) => key.to_string(),
        None => format!("tenant:{}", access.tenant),
    };
    Some((who, rate))
}

/// Tells whether a request is one that makes a video.
fn makes_video(method: &Method, path: &str) -> bool {
    let remixed = || path.strip_prefix("/v1/videos/").and_then(|rest| rest.strip_suffix("/remix"));
    *method == Method::POST
        && (matches!(path, "/v1/videos" | "/v1/videos/sync") || remixed().is_some_and(|id| !id.contains('/')))
}

fn refused(allowance: &Allowance) -> Response {
    let (limit, wait) = (allowance.limit, allowance.retry_after);
    let message = format!("as many videos were asked for as may be: {limit} a minute");
    // Rounded up, so that nobody comes back a moment too soon.
    let seconds = u32::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u32::MAX).max(1);
    let error = ApiError { retry_after_s: Some(seconds), ..ApiError::new(ErrorCode::RateLimitExceeded, message) };
    let mut response = error.into_response();
    let millis = u64::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u64::MAX).max(1);
    response.headers_mut().insert(RETRY_AFTER_MS, HeaderValue::from(millis));
    response
}

fn tell(headers: &mut HeaderMap, allowance: &Allowance) {
    headers.insert(LIMIT, HeaderValue::from(allowance.limit));
    headers.insert(REMAINING, HeaderValue::from(allowance.remaining));
    headers
        .insert(RESET, HeaderValue::try_from(shown(allowance.reset)).expect("digits and letters are a header value"));
}

/// Writes a duration as OpenAI does: `20ms`, `1.5s`, `6m0s`; rounded up to whole milliseconds.
fn shown(time: Duration) -> String {
    let millis = time.as_micros().div_ceil(1000);
    let (minutes, millis) = (millis / 60_000, millis % 60_000);
    let seconds = match (millis / 1000, millis % 1000) {
        (seconds, 0) => format!("{seconds}s"),
        (seconds, part) => format!("{seconds}.{}s", format!("{part:03}").trim_end_matches('0')),
    };
    match minutes {
        0 if millis > 0 && millis < 1000 => format!("{millis}ms"),
        0 => seconds,
        minutes => format!("{minutes}m{seconds}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_openai_does() {
        for (millis, expected) in [
            (0, "0s"),
            (1, "1ms"),
            (999, "999ms"),
            (1000, "1s"),
            (1500, "1.5s"),
            (2050, "2.05s"),
            (59_999, "59.999s"),
            (60_000, "1m0s"),
            (360_250, "6m0.25s"),
        ] {
            assert_eq!(shown(Duration::from_millis(millis)), expected);
        }
        assert_eq!(shown(Duration::from_nanos(1_500_001)), "2ms");
    }

    #[test]
    fn only_requests_that_make_a_video_are_counted() {
        for (method, path, counts) in [
            (Method::POST, "/v1/videos", true),
            (Method::POST, "/v1/videos/sync", true),
            (Method::POST, "/v1/videos/video_gen_1/remix", true),
            (Method::POST, "/v1/videos/video_gen_1/cancel", false),
            (Method::POST, "/v1/videos/a/b/remix", false),
            (Method::POST, "/v1/webhook_endpoints", false),
            (Method::GET, "/v1/videos", false),
            (Method::DELETE, "/v1/videos/video_gen_1", false),
        ] {
            assert_eq!(makes_video(&method, path), counts, "{method} {path}");
        }
    }
}
