//! The one answer to a request that cannot be run.

use std::fmt;

use crate::prepare::ReferenceKind;

/// Why a request is refused: the code for programs, the field, and a sentence for people.
///
/// A rule about all references of a kind does not know which of its fields the client used. [`Invalid::kind`] is set
/// then, the message names no field, and [`Display`](fmt::Display) puts `field` before it; so a caller that knows puts its
/// own into `field`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", self.said_field())]
pub struct Invalid {
    /// The rule's class; [`InvalidCode::as_str`] is what the API's `error.code` carries.
    pub code: InvalidCode,
    /// The request's field as the API names it in `error.param`, such as `size` or `extra_params.task`.
    pub field: String,
    /// The kind that the rule is about, where it is about all references of one kind.
    pub kind: Option<ReferenceKind>,
    /// The rule and the refused value, in lower case and without a full stop.
    pub message: String,
}

impl Invalid {
    pub(crate) fn new(code: InvalidCode, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, field: field.into(), kind: None, message: message.into() }
    }

    /// A refusal by a rule about all references of a kind, whose message names no field.
    pub(crate) fn of_kind(code: InvalidCode, kind: ReferenceKind, message: impl Into<String>) -> Self {
        Self { kind: Some(kind), ..Self::new(code, kind.field(), message) }
    }

    pub(crate) fn value(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(InvalidCode::InvalidValue, field, message)
    }

    /// What stands before the message.
    fn said_field(&self) -> String {
        self.kind.map_or_else(String::new, |_| format!("{}: ", self.field))
    }
}

/// The class of rule that a request broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InvalidCode {
    /// A field that the task needs is absent or empty.
    MissingRequiredParameter,
    /// A text is longer than its limit.
    StringAboveMaxLength,
    /// A value is of the wrong form or outside its range.
    InvalidValue,
    /// The aspect ratio is not one that the task takes.
    InvalidAspectRatio,
    /// The duration is outside what the model generates.
    InvalidDuration,
    /// The frame rate is not the model's.
    InvalidFps,
    /// The canvas is too small, too large or too narrow.
    InvalidSize,
    /// The task is unknown, or not run here.
    UnsupportedTask,
    /// The references do not go with the task.
    InvalidReferenceCombination,
    /// The task needs a picture or a video to refer to.
    ReferenceRequired,
    /// There are more references than the task takes.
    TooManyReferences,
    /// A reference is of a size, shape, rate or duration that is not taken.
    InvalidReferenceMedia,
}

impl InvalidCode {
    /// Returns the slug that the API's `error.code` carries.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MissingRequiredParameter => "missing_required_parameter",
            Self::StringAboveMaxLength => "string_above_max_length",
            Self::InvalidValue => "invalid_value",
            Self::InvalidAspectRatio => "invalid_aspect_ratio",
            Self::InvalidDuration => "invalid_duration",
            Self::InvalidFps => "invalid_fps",
            Self::InvalidSize => "invalid_size",
            Self::UnsupportedTask => "unsupported_task",
            Self::InvalidReferenceCombination => "invalid_reference_combination",
            Self::ReferenceRequired => "reference_required",
            Self::TooManyReferences => "too_many_references",
            Self::InvalidReferenceMedia => "invalid_reference_media",
        }
    }
}

impl fmt::Display for InvalidCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_about_a_kind_is_said_of_the_field_that_the_client_used() {
        let code = InvalidCode::TooManyReferences;
        let mut invalid = Invalid::of_kind(code, ReferenceKind::Video, "ref2va takes at most 3 videos, got 4");
        assert_eq!(invalid.to_string(), "video_reference: ref2va takes at most 3 videos, got 4");
        invalid.field = "input_references".to_owned();
        assert_eq!(invalid.to_string(), "input_references: ref2va takes at most 3 videos, got 4");
        let invalid = Invalid::value("fps", "fps must be 24, got 25");
        assert_eq!((invalid.kind, invalid.to_string()), (None, "fps must be 24, got 25".to_owned()));
    }
}
