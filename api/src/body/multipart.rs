//! `multipart/form-data`.

use axum::body::Body;
use axum::extract::multipart::{Field, Multipart, MultipartError};
use axum::extract::{FromRequest, Request};
use axum::http::header;

use super::Decoded;
use super::form::{FormTree, root};
use super::limited::LimitedBody;
use crate::error::ApiError;
use crate::error_code::ErrorCode;

/// Decodes the parts up to the first file, of which no more is read than came along with its head.
pub(super) async fn decode(content_type: &str, body: LimitedBody) -> Result<Decoded, ApiError> {
    let request = Request::builder()
        .header(header::CONTENT_TYPE, content_type)
        .body(Body::from_stream(body.clone()))
        .expect("a content type that came in a header fits in one");
    let mut multipart =
        Multipart::from_request(request, &()).await.map_err(|_| broken("the content type names no boundary"))?;
    let mut form = FormTree::default();
    let mut file = None;
    while let Some(part) = body.feed(multipart.next_field()).await.map_err(unreadable)? {
        let name = part.name().ok_or_else(|| broken("a part has no name"))?.to_owned();
        if is_file(&part) {
            file = Some(root(&name).to_owned());
            break;
        }
        let text = text(&name, part, &body).await?;
        form.add(&name, text)?;
    }
    Ok(Decoded { tree: form.into_tree(), file })
}

/// A part with a file name is a file, also where the name comes in the extended form alone (`filename*=`).
fn is_file(part: &Field<'_>) -> bool {
    let disposition = part.headers().get(header::CONTENT_DISPOSITION).map(|value| value.as_bytes());
    part.file_name().is_some()
        || disposition.is_some_and(|value| value.windows(10).any(|word| word.eq_ignore_ascii_case(b"filename*=")))
}

async fn text(name: &str, mut part: Field<'_>, body: &LimitedBody) -> Result<String, ApiError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = body.feed(part.chunk()).await.map_err(unreadable)? {
        bytes.extend_from_slice(&chunk);
    }
    String::from_utf8(bytes).map_err(|_| ApiError::invalid_value(root(name), format!("{} must be UTF-8", root(name))))
}

fn unreadable(error: MultipartError) -> ApiError {
    // What the parser says of a client's body holds no secret, but for a broken connection it is the system's word.
    let reason = if error.status().is_client_error() { error.body_text() } else { "it ended early".to_owned() };
    broken(&reason)
}

fn broken(reason: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidValue, format!("the multipart body is broken: {reason}"))
}
