//! `GET /docs`: the OpenAPI document as a page for people.

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Html;

/// The page loads `/openapi.json` and nothing else.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Answers with the page.
pub(crate) async fn page() -> ([(HeaderName, HeaderValue); 1], Html<&'static str>) {
    let policy = [(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY))];
    (policy, Html(include_str!("docs.html")))
}
