//! What happens to every request and reply, whatever route they belong to.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use clapboard_jobs::TraceParent;
use clapboard_telemetry::metrics::names;
use clapboard_telemetry::traces;
use tracing::Instrument;
use uuid::Uuid;

use crate::admission;
use crate::body;
use crate::error::ApiError;
use crate::error_code::ErrorCode;
use crate::options::Options;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest request id of a client that is taken over.
const MAX_REQUEST_ID: usize = 128;

/// Gives the reply its request id, logs it under that, puts axum's own 405 into the shape of all errors, and lets the rest of a
/// body be drained that whoever answers has not read.
///
/// All that the handler logs stands under the same id. The log gets the route's pattern and never the URL.
pub(crate) async fn edge(State(options): State<Arc<Options>>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned()).unwrap_or_default();
    let id = request_id(request.headers(), &route);
    let span = tracing::info_span!("request", request.id = id.to_str().unwrap_or_default());
    let traced = span.in_scope(|| traced(&method, &route, request.headers()));
    let answering = next.run(body::drained(request, &options)).instrument(traced.clone());
    let response = answering.instrument(span.clone()).await;
    let mut response = shaped(response, &method);
    let status = response.status();
    traces::status(&traced, status.as_u16());
    count(&method, &route, &response, began.elapsed());
    let duration_ms = began.elapsed().as_millis() as u64;
    macro_rules! log {
        ($level:ident) => {
            tracing::$level!(
                parent: &span,
                http.method = %method,
                http.route = route,
                http.status = status.as_u16(),
                duration_ms,
                "answered a request"
            )
        };
    }
    if is_routine(&method, status) {
        log!(debug);
    } else {
        log!(info);
    }
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// Begins the span of a request. One that looks at something has none, unless it belongs to a trace of its client's: most of
/// those wait for something else, and would be traces of a single span.
fn traced(method: &Method, route: &str, headers: &HeaderMap) -> tracing::Span {
    let parent = admission::trace(headers);
    if parent.is_none() && matches!(*method, Method::GET | Method::HEAD) {
        return tracing::Span::none();
    }
    traces::request(known(method), route, parent.as_ref().map(TraceParent::as_str))
}

/// Counts a request by what can only have few values.
fn count(method: &Method, route: &str, response: &Response, took: Duration) {
    let class = match response.status().as_u16() {
        ..=299 => "2xx",
        300..=399 => "3xx",
        400..=499 => "4xx",
        500.. => "5xx",
    };
    let route = if route.is_empty() { "none" } else { route };
    names::HTTP_REQUEST_SECONDS.record(took, [known(method), route, class]);
    let limit = match response.extensions().get() {
        Some(ErrorCode::RateLimitExceeded) => "rate",
        Some(ErrorCode::QueueFull) => "queue",
        Some(ErrorCode::ConcurrencyLimit) => "concurrency",
        Some(ErrorCode::NoCapacity) => "capacity",
        _ => return,
    };
    names::LIMITS_HIT.increment([limit]);
}

/// Returns the name of a method that some route takes; `other` for what a client has made up.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

/// Tells whether a request is one of the many by which clients wait for something else.
fn is_routine(method: &Method, status: StatusCode) -> bool {
    matches!(*method, Method::GET | Method::HEAD) && (status.is_success() || status.is_redirection())
}

/// Takes over the client's request id if it is a short word, or makes one.
fn request_id(headers: &HeaderMap, route: &str) -> HeaderValue {
    let legal = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    let given = headers.get(REQUEST_ID).filter(|id| {
        let id = id.as_bytes();
        (1..=MAX_REQUEST_ID).contains(&id.len()) && id.iter().all(legal)
    });
    given.cloned().unwrap_or_else(|| {
        let prefix = if route == "/v1/videos/sync" { "video_sync-" } else { "req_" };
        let id = format!("{prefix}{}", Uuid::new_v4().simple());
        HeaderValue::try_from(id).expect("letters and digits are a header value")
    })
}

fn shaped(response: Response, method: &Method) -> Response {
    if response.status() != StatusCode::METHOD_NOT_ALLOWED {
        return response;
    }
    let allow = response.headers().get(header::ALLOW).cloned();
    let mut shaped =
        ApiError::new(ErrorCode::MethodNotAllowed, format!("the route does not take {method}")).into_response();
    if let Some(allow) = allow {
        shaped.headers_mut().insert(header::ALLOW, allow);
    }
    shaped
}

/// Answers a request for a route that is not there.
pub(crate) async fn unknown_route(method: Method, uri: Uri) -> ApiError {
    ApiError::new(ErrorCode::NotFound, format!("there is no route for {method} {}", uri.path()))
}

/// Answers a request whose handler panicked. The panic itself went to the log by the panic hook.
pub(crate) fn after_panic(_panic: Box<dyn Any + Send + 'static>) -> Response {
    tracing::error!("a request handler panicked");
    ApiError::internal().into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id_for(given: &'static str) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(REQUEST_ID, HeaderValue::from_static(given));
        request_id(&headers, "").to_str().unwrap().to_owned()
    }

    #[test]
    fn only_a_short_word_is_taken_over_as_request_id() {
        assert_eq!(id_for("build-7:42"), "build-7:42");
        for given in ["", "two words", "a\"b", "a,b"] {
            assert!(id_for(given).starts_with("req_"), "{given:?} was taken over");
        }
        let mut headers = HeaderMap::new();
        headers.insert(REQUEST_ID, HeaderValue::try_from("x".repeat(129)).unwrap());
        assert!(request_id(&headers, "/v1/videos/sync").to_str().unwrap().starts_with("video_sync-"));
    }

    #[test]
    fn only_looks_that_succeed_are_routine() {
        for (method, status, routine) in [
            (Method::GET, 200, true),
            (Method::HEAD, 304, true),
            (Method::GET, 206, true),
            (Method::GET, 404, false),
            (Method::GET, 500, false),
            (Method::POST, 200, false),
            (Method::DELETE, 200, false),
        ] {
            assert_eq!(is_routine(&method, StatusCode::from_u16(status).unwrap()), routine, "{method} {status}");
        }
    }

    #[tokio::test]
    async fn a_panic_is_answered_without_its_words() {
        let response = after_panic(Box::new("a secret"));
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let body = axum::body::to_bytes(response.into_body(), 4096).await.unwrap();
        assert!(!String::from_utf8_lossy(&body).contains("secret"));
    }
}
