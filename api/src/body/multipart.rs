//! `multipart/form-data`.

use axum::body::Body;
use axum::extract::multipart::{Field, Multipart, MultipartError};
use axum::extract::{DefaultBodyLimit, FromRequest, Request};
use axum::http::header;

use super::file::{self, FileField};
use super::form::{FormTree, root};
use super::limited::LimitedBody;
use super::pace::Pace;
use super::{Decoded, too_large};
use crate::error::ApiError;
use crate::error_code::ErrorCode;
use crate::media::{Intake, Rooms};
use crate::options::Options;

/// Decodes the parts: texts into the tree and files into the spool. Reading ends at the first file of a field that takes
/// none, of which no more is read than came along with its head.
pub(super) async fn decode(
    content_type: &str,
    body: LimitedBody,
    options: &Options,
    intake: &Intake,
    rooms: &mut Rooms,
) -> Result<Decoded, ApiError> {
    let mut request = Request::builder()
        .header(header::CONTENT_TYPE, content_type)
        .body(Body::from_stream(body.clone()))
        .expect("a content type that came in a header fits in one");
    DefaultBodyLimit::disable().apply(&mut request); // the body has its own limit
    let mut multipart =
        Multipart::from_request(request, &()).await.map_err(|_| broken("the content type names no boundary"))?;
    let mut form = FormTree::default();
    let mut texts = Texts { bytes: 0, most_bytes: options.max_body_bytes, rooms };
    let mut files = Vec::new();
    let mut pace = Pace::of_texts(options);
    while let Some(part) = pace.in_time(body.feed(multipart.next_field())).await?.map_err(unreadable)? {
        let name = part.name().ok_or_else(|| broken("a part has no name"))?.to_owned();
        if !file::is_file(&part) {
            let text = texts.read(&name, part, &body, &mut pace).await?.ok_or_else(|| too_large(options))?;
            form.add(&name, text)?;
            continue;
        }
        let Some(field) = FileField::of(&name) else {
            return Ok(Decoded { is_form: true, tree: form.into_tree(), files, refused_file: Some(name) });
        };
        texts.rooms.hold_upload().await?;
        pace.go_on_with_files(options);
        match file::read(field, part, &files, &body, &mut pace, intake).await? {
            Some(file) => files.push(file),
            None => form.count(&name)?,
        }
    }
    Ok(Decoded { is_form: true, tree: form.into_tree(), files, refused_file: None })
}

/// The texts of a form.
struct Texts<'a> {
    bytes: usize,
    most_bytes: usize,
    rooms: &'a mut Rooms,
}

impl Texts<'_> {
    /// Reads a part that is a text; none when it goes over the limit of all texts.
    async fn read(
        &mut self,
        name: &str,
        mut part: Field<'_>,
        body: &LimitedBody,
        pace: &mut Pace,
    ) -> Result<Option<String>, ApiError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = pace.in_time(body.feed(part.chunk())).await?.map_err(unreadable)? {
            body.refund(chunk.len());
            pace.count(chunk.len());
            self.bytes += chunk.len();
            if self.bytes > self.most_bytes {
                return Ok(None);
            }
            self.rooms.hold_text(self.bytes).await?;
            bytes.extend_from_slice(&chunk);
        }
        let text = String::from_utf8(bytes);
        text.map(Some).map_err(|_| ApiError::invalid_value(root(name), format!("{} must be UTF-8", root(name))))
    }
}

/// Makes the refusal of what the parser cannot read.
pub(super) fn unreadable(error: MultipartError) -> ApiError {
    // What the parser says of a client's body holds no secret, but for a broken connection it is the system's word.
    let reason = if error.status().is_client_error() { error.body_text() } else { "it ended early".to_owned() };
    broken(&reason)
}

fn broken(reason: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidValue, format!("the multipart body is broken: {reason}"))
}
