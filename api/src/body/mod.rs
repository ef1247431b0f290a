//! From the bytes of a request to one tree of fields, whatever their encoding.
//!
//! The tree is JSON's: names to strings, numbers, lists and objects. The texts of a form stay strings there, and
//! [`fields`](crate::fields) reads strings and real types alike, so that nothing after this module knows the encoding.

mod drained;
mod file;
mod form;
mod json;
mod limited;
mod multipart;
mod pace;
mod urlencoded;

use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use bytes::BytesMut;
use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::error_code::ErrorCode;
use crate::media::{Intake, Rooms};
use crate::options::Options;
pub(crate) use drained::drained;
pub(crate) use file::{FileField, FilePart};
pub(crate) use form::root;
use limited::LimitedBody;
use pace::Pace;
pub(crate) use urlencoded::pairs;

/// The most of a form that its parser may hold at once: the head of a part, what stands between parts, and a chunk.
const MAX_UNPARSED_BYTES: usize = 1 << 20;

/// The object of which the values may be empty texts: elsewhere these are absent fields.
pub(crate) const METADATA: &str = "metadata";

/// What a body held.
#[derive(Debug, Default)]
pub(crate) struct Decoded {
    /// Whether it was a form, whose fields are all texts.
    pub(crate) is_form: bool,
    /// Its fields.
    pub(crate) tree: Map<String, Value>,
    /// Its files, in the order in which they came.
    pub(crate) files: Vec<FilePart>,
    /// The name of the first part that is a file where none is taken. Reading ended there.
    pub(crate) refused_file: Option<String>,
}

/// Reads and decodes the body of a request.
///
/// At most [`Options::max_body_bytes`] of texts are kept in memory, and files in the spool; `rooms` gets the room that they
/// take. What a refused request still sends is [drained] behind the answer.
///
/// Errors: `unsupported_media_type`, `request_too_large`, `request_timeout`, `invalid_json`, `invalid_value` for a broken
/// form, `queue_full`, `no_capacity`, and for files `too_many_references` and `invalid_reference_media`.
pub(crate) async fn decode(
    request: Request,
    options: &Options,
    intake: &Intake,
    rooms: &mut Rooms,
) -> Result<Decoded, ApiError> {
    let (parts, body) = request.into_parts();
    let announced_bytes = body.size_hint().lower();
    let stream = body.into_data_stream();
    let kind = kind(&parts.headers, announced_bytes, options)?;
    let limit_bytes = match kind {
        // What has left the parser is counted elsewhere: texts together, and each file by itself.
        Kind::Multipart(_) => MAX_UNPARSED_BYTES,
        Kind::Urlencoded | Kind::Json => options.max_body_bytes,
    };
    let body = LimitedBody::new(stream, limit_bytes);
    let decoded = decode_kind(kind, &body, options, intake, rooms).await;
    // A parser that was cut off reports a broken body; the limit is the reason.
    match kind {
        Kind::Multipart(_) if body.exceeded() => Err(unparsed()),
        Kind::Urlencoded | Kind::Json if body.exceeded() => Err(too_large(options)),
        _ => decoded,
    }
}

fn too_large(options: &Options) -> ApiError {
    let limit = options.max_body_bytes;
    ApiError::new(ErrorCode::RequestTooLarge, format!("the body must have at most {limit} bytes"))
}

fn unparsed() -> ApiError {
    let message =
        format!("the head of a part, and what stands between parts, must have at most {MAX_UNPARSED_BYTES} bytes");
    ApiError::new(ErrorCode::RequestTooLarge, message)
}

/// How the fields are written.
#[derive(Debug, Clone, Copy)]
enum Kind<'a> {
    /// By this content type, which names the boundary.
    Multipart(&'a str),
    Urlencoded,
    Json,
}

/// Tells from the head alone how to read the body, or why not to.
fn kind<'a>(headers: &'a HeaderMap, announced_bytes: u64, options: &Options) -> Result<Kind<'a>, ApiError> {
    if is_compressed(headers) {
        return Err(ApiError::new(ErrorCode::UnsupportedMediaType, "the body must not be compressed"));
    }
    let content_type = headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default());
    let essence = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let kind = match essence.as_str() {
        // Its files do not count.
        "multipart/form-data" => return Ok(Kind::Multipart(content_type.unwrap_or_default())),
        "application/x-www-form-urlencoded" => Kind::Urlencoded,
        "application/json" => Kind::Json,
        other => {
            let got = if other.is_empty() { "none".to_owned() } else { format!("{other:?}") };
            let message = format!(
                "the content type must be multipart/form-data, application/x-www-form-urlencoded or application/json, \
                 got {got}"
            );
            return Err(ApiError::new(ErrorCode::UnsupportedMediaType, message));
        }
    };
    if usize::try_from(announced_bytes).map_or(true, |bytes| bytes > options.max_body_bytes) {
        return Err(too_large(options));
    }
    Ok(kind)
}

/// Tells whether a content encoding is given that changes the bytes.
fn is_compressed(headers: &HeaderMap) -> bool {
    let is_none = |name: &str| name.is_empty() || name.eq_ignore_ascii_case("identity");
    let given = headers.get_all(header::CONTENT_ENCODING).iter();
    !given
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .all(|name| std::str::from_utf8(name).is_ok_and(|name| is_none(name.trim())))
}

async fn decode_kind(
    kind: Kind<'_>,
    body: &LimitedBody,
    options: &Options,
    intake: &Intake,
    rooms: &mut Rooms,
) -> Result<Decoded, ApiError> {
    if let Kind::Multipart(content_type) = kind {
        return multipart::decode(content_type, body.clone(), options, intake, rooms).await;
    }
    let whole = read_all(body, options, rooms).await?;
    let (tree, is_form) = match kind {
        Kind::Json => (json::decode(&whole)?, false),
        _ => (urlencoded::decode(&whole)?, true),
    };
    Ok(Decoded { is_form, tree, files: Vec::new(), refused_file: None })
}

/// Reads a whole body, with room for it if it is long.
async fn read_all(body: &LimitedBody, options: &Options, rooms: &mut Rooms) -> Result<BytesMut, ApiError> {
    let mut whole = BytesMut::new();
    let mut pace = Pace::of_texts(options);
    while let Some(chunk) = pace.in_time(body.chunk()).await?? {
        rooms.hold_text(whole.len() + chunk.len()).await?;
        whole.extend_from_slice(&chunk);
    }
    Ok(whole)
}
