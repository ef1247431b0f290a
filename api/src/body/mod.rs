//! From the bytes of a request to one tree of fields, whatever their encoding.
//!
//! The tree is JSON's: names to strings, numbers, lists and objects. The texts of a form stay strings there, and
//! [`fields`](crate::fields) reads strings and real types alike, so that nothing after this module knows the encoding.

mod form;
mod json;
mod limited;
mod multipart;
mod urlencoded;

use axum::extract::Request;
use axum::http::{HeaderMap, header};
use serde_json::{Map, Value};

use crate::app::Options;
use crate::error::ApiError;
use crate::error_code::ErrorCode;
use limited::LimitedBody;

/// What a body held.
#[derive(Debug, Default)]
pub(crate) struct Decoded {
    /// Its fields.
    pub(crate) tree: Map<String, Value>,
    /// The name of the first part that was a file. Reading ended there.
    pub(crate) file: Option<String>,
}

/// Reads and decodes the body of a request.
///
/// At most [`Options::max_body_bytes`] are kept. What a refused request still sends is read and thrown away for a
/// while, since a client that is cut off in the middle of sending may never see the answer.
///
/// Errors: `unsupported_media_type`, `request_too_large`, `request_timeout`, `invalid_json`, and `invalid_value` for a
/// broken form.
pub(crate) async fn decode(request: Request, options: &Options) -> Result<Decoded, ApiError> {
    let (parts, body) = request.into_parts();
    let body = LimitedBody::new(body.into_data_stream(), options.max_body_bytes);
    let decoded = tokio::time::timeout(options.body_timeout, decode_kind(&parts.headers, &body)).await;
    let decoded = match decoded {
        Ok(decoded) => decoded,
        Err(_) => Err(ApiError::new(
            ErrorCode::RequestTimeout,
            format!("the body did not come within {} s", options.body_timeout.as_secs()),
        )),
    };
    // A parser that was cut off reports a broken body; the limit is the reason.
    let decoded = if body.exceeded() { Err(too_large(options)) } else { decoded };
    if !matches!(&decoded, Ok(decoded) if decoded.file.is_none()) {
        body.drain(options.drain_bytes, options.drain_timeout).await;
    }
    decoded
}

fn too_large(options: &Options) -> ApiError {
    let limit = options.max_body_bytes;
    ApiError::new(ErrorCode::RequestTooLarge, format!("the body must have at most {limit} bytes"))
}

async fn decode_kind(headers: &HeaderMap, body: &LimitedBody) -> Result<Decoded, ApiError> {
    if let Some(encoding) = headers.get(header::CONTENT_ENCODING)
        && encoding != "identity"
    {
        return Err(ApiError::new(ErrorCode::UnsupportedMediaType, "the body must not be compressed"));
    }
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "multipart/form-data" => multipart::decode(content_type, body.clone()).await,
        "application/x-www-form-urlencoded" => {
            let tree = urlencoded::decode(&body.read_all().await?)?;
            Ok(Decoded { tree, file: None })
        }
        "application/json" => {
            let tree = json::decode(&body.read_all().await?)?;
            Ok(Decoded { tree, file: None })
        }
        other => Err(ApiError::new(
            ErrorCode::UnsupportedMediaType,
            format!(
                "the content type must be multipart/form-data, application/x-www-form-urlencoded or application/json, \
                 got {other:?}"
            ),
        )),
    }
}
