//! The parts of a form that are files.

use axum::extract::multipart::Field;
use axum::http::header;

use super::limited::LimitedBody;
use super::multipart::unreadable;
use super::pace::Pace;
use crate::error::ApiError;
use crate::error_code::ErrorCode;
use crate::media::{Intake, MAX_FILES, Spooled, TooLarge, invalid_media};

/// The fields that take files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileField {
    /// `input_reference`: one file by OpenAI's contract; several are a list.
    InputReference,
    /// `input_references`: several.
    InputReferences,
}

impl FileField {
    /// Returns its name.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::InputReference => "input_reference",
            Self::InputReferences => "input_references",
        }
    }

    /// Returns the field of a part's name, which may be that of a list: `input_references[]`, `input_references[3]`.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let (root, index) = name.split_once('[').unwrap_or((name, "]"));
        let index = index.strip_suffix(']')?;
        if !index.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        [Self::InputReference, Self::InputReferences].into_iter().find(|field| field.as_str() == root)
    }
}

/// A file that came with a form.
#[derive(Debug)]
pub(crate) struct FilePart {
    /// The field that carried it.
    pub(crate) field: FileField,
    /// The content type that its sender gave it.
    pub(crate) content_type: Option<String>,
    /// The name that its sender gave it: it may say what the content is, and is no path of ours.
    pub(crate) file_name: Option<String>,
    /// Its bytes.
    pub(crate) file: Spooled,
}

/// Tells whether a part is a file: one with a file name, also where the name comes in the extended form alone (`filename*=`).
pub(super) fn is_file(part: &Field<'_>) -> bool {
    let disposition = part.headers().get(header::CONTENT_DISPOSITION).map(|value| value.as_bytes());
    part.file_name().is_some()
        || disposition.is_some_and(|value| value.windows(10).any(|word| word.eq_ignore_ascii_case(b"filename*=")))
}

/// Writes a part into the spool while it comes; none for what a browser sends of a field where no file was chosen.
///
/// Errors: `too_many_references` for one more than a request may bring, `invalid_reference_media` for one that is larger than
/// any may be.
pub(super) async fn read(
    field: FileField,
    mut part: Field<'_>,
    before: &[FilePart],
    body: &LimitedBody,
    pace: &mut Pace,
    intake: &Intake,
) -> Result<Option<FilePart>, ApiError> {
    let name = field.as_str();
    if before.len() >= MAX_FILES {
        let message = format!("a request takes at most {MAX_FILES} references, got more files than that");
        return Err(ApiError::new(ErrorCode::TooManyReferences, message).with_param(name));
    }
    let content_type = part.content_type().map(str::to_owned);
    let file_name = part.file_name().map(str::to_owned);
    let most_bytes = intake.most_bytes_of_any();
    let mut file = intake.spool.begin();
    while let Some(chunk) = pace.in_time(body.feed(part.chunk())).await?.map_err(unreadable)? {
        body.refund(chunk.len());
        pace.count(chunk.len());
        if file.size_bytes() + chunk.len() as u64 > most_bytes {
            let field = match before.iter().filter(|other| other.field == field).count() {
                0 if field == FileField::InputReference => name.to_owned(),
                index => format!("{name}[{index}]"),
            };
            return Err(invalid_media(&field, &TooLarge(most_bytes).to_string()));
        }
        file = file.write(chunk).await.map_err(|error| ApiError::unkept(&error))?;
    }
    if file.size_bytes() == 0 && file_name.as_deref() == Some("") {
        return Ok(None);
    }
    let file = file.finish().await.map_err(|error| ApiError::unkept(&error))?;
    Ok(Some(FilePart { field, content_type, file_name, file }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_files_are_known_by_every_name_that_clients_give_them() {
        for (name, field) in [
            ("input_reference", Some(FileField::InputReference)),
            ("input_reference[]", Some(FileField::InputReference)),
            ("input_references", Some(FileField::InputReferences)),
            ("input_references[]", Some(FileField::InputReferences)),
            ("input_references[11]", Some(FileField::InputReferences)),
            ("input_references[a]", None),
            ("input_references[", None),
            ("input_references]", None),
            ("input_references[]x", None),
            ("image_reference", None),
            ("prompt", None),
            ("", None),
        ] {
            assert_eq!(FileField::of(name), field, "{name}");
        }
    }
}
